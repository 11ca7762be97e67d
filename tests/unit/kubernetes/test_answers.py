import json

import pytest

from qosmanager.kubernetes.answers import is_absent, is_budget, retry_after
from qosmanager.kubernetes.api import Answer

NOON = "Mon, 30 Nov 2026 12:00:00 GMT"


def answer(status=429, body=b"", **headers):
    return Answer(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


def status(**fields):
    return json.dumps({"kind": "Status", "status": "Failure"} | fields).encode()


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (answer(retry_after="17"), 17.0),
        (answer(retry_after="0"), None),
        (answer(retry_after="-1"), None),
        (answer(retry_after="nan"), None),
        (answer(retry_after="999999"), 3600.0),
        (answer(retry_after="soon"), None),
        (answer(retry_after="Mon, 30 Nov 2026 12:00:25 GMT", date=NOON), 25.0),
        (answer(retry_after="Mon, 30 Nov 2026 11:59:00 GMT", date=NOON), None),
        (answer(retry_after="Mon, 30 Nov 2026 12:00:25 GMT"), None),
        (answer(retry_after="Mon, 30 Nov 2026 12:00:25 -0000", date=NOON), None),
        (answer(body=status(details={"retryAfterSeconds": 10})), 10.0),
        (answer(body=status(details={"retryAfterSeconds": True})), None),
        (answer(), None),
    ],
)
def test_when_to_come_again(given, seconds):
    assert retry_after(given) == seconds


@pytest.mark.parametrize("page", [b"", b"<html>", b"[]", b'{"message": "no route"}'])
def test_what_an_api_server_means_only_an_api_server_says(page):
    assert not is_absent(answer(404, page))
    assert not is_budget(answer(429, page))
    assert is_absent(answer(404, status(code=404)))
    assert is_budget(answer(429, status(code=429)))
    assert not is_absent(answer(410, status(code=410)))
