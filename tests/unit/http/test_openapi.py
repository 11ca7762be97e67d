"""The description is what the server answers: every answer it names is had from a real server and held against its schema."""

import http.client
import json
from contextlib import closing, contextmanager

import jsonschema_rs
import pytest
from msgspec.structs import replace

from agents import agent
from qosmanager.config.settings import Settings
from qosmanager.http.openapi import description
from qosmanager.model.actions import Result
from records import EVICT_CPU, LIMIT, receipt, record

DESCRIPTION = json.loads(json.dumps(description("1.2.3")))
BUSY = record(7, actions=(LIMIT, EVICT_CPU), receipts=(receipt(0, Result.APPLIED),))
UNSENDABLE = replace(BUSY, snapshot=replace(BUSY.snapshot, missing={"node.load1": 1j}))  # JSON has no such number
AGENTS = {
    "new": ((), Settings()),
    "running": ((BUSY,), Settings()),
    "standing": ((BUSY,), replace(Settings(), sync_period=0.0)),  # the last cycle is always too old
    "faulty": ((UNSENDABLE,), Settings()),
}
OPENMETRICS = {"Accept": "application/openmetrics-text"}
ASKED = {
    ("/", 200): [("new", "/", {})],
    ("/metrics", 200): [("new", "/metrics", {}), ("running", "/metrics", {}), ("running", "/metrics", OPENMETRICS)],
    ("/healthz", 200): [("new", "/healthz", {})],
    ("/healthz", 503): [("standing", "/healthz", {})],
    ("/readyz", 200): [("running", "/readyz", {})],
    ("/readyz", 503): [("new", "/readyz", {}), ("standing", "/readyz", {})],
    ("/status", 200): [("running", "/status", {})],
    ("/status", 500): [("faulty", "/status", {})],
    ("/status", 503): [("new", "/status", {})],
    ("/snapshot", 200): [("running", "/snapshot", {})],
    ("/snapshot", 500): [("faulty", "/snapshot", {})],
    ("/snapshot", 503): [("new", "/snapshot", {})],
    ("/decisions", 200): [("new", "/decisions", {}), ("running", "/decisions?last=500&pod=batch/crunch&terms=true", {})],
    ("/decisions", 400): [("running", "/decisions?last=0", {}), ("running", "/decisions?last=1&last=2", {})],
    ("/openapi.json", 200): [("new", "/openapi.json", {})],
}


@contextmanager
def asked(state, path, headers=None, method="GET"):
    records, settings = AGENTS[state]
    with agent(*records, settings=settings) as server:
        listen = server.listen
        with closing(http.client.HTTPConnection(listen.host, listen.port, timeout=60)) as connection:
            connection.request(method, path, headers=headers or {})
            yield connection.getresponse()


def strict(schema):
    """Let no object hold more than is described."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if schema.get("type") == "object" and "properties" in schema else {}
    return {key: strict(each) for key, each in schema.items()} | closed


def check(answer, response):
    """Hold an answer against a response of the description."""
    if "$ref" in response:
        response = DESCRIPTION["components"]["responses"][response["$ref"].rpartition("/")[2]]
    media = answer.headers.get_content_type()
    body = answer.read().decode()
    schema = {**response["content"][media]["schema"], "components": DESCRIPTION["components"]}
    jsonschema_rs.Draft202012Validator(strict(schema)).validate(json.loads(body) if media == "application/json" else body)


@pytest.mark.parametrize(("path", "code"), ASKED)
def test_an_answer_is_as_described(path, code):
    for state, target, headers in ASKED[path, code]:
        with asked(state, target, headers) as answer:
            assert answer.status == code
            check(answer, DESCRIPTION["paths"][path]["get"]["responses"][str(code)])


@pytest.mark.parametrize("path", DESCRIPTION["paths"])
def test_a_foreign_host_is_refused_as_described_everywhere(path):
    with asked("running", path, {"Host": "evil.example"}) as answer:
        assert answer.status == 421
        check(answer, DESCRIPTION["paths"][path]["get"]["responses"]["421"])


def test_every_answer_that_is_described_is_had_here():
    described = {(path, int(code)) for path, item in DESCRIPTION["paths"].items() for code in item["get"]["responses"]}
    everywhere = {(path, code) for path, code in described if code in (421, 500)}
    assert described - everywhere == {(path, code) for path, code in ASKED if code != 500}
    assert {path for path, code in everywhere if code == 421} == set(DESCRIPTION["paths"])


@pytest.mark.parametrize(
    ("method", "path", "code", "name"),
    [("GET", "/nothing", 404, "NotFound"), ("GET", "/status/", 404, "NotFound"), ("POST", "/status", 405, "MethodNotAllowed")],
)
def test_what_is_answered_outside_the_paths_is_as_described(method, path, code, name):
    with asked("running", path, method=method) as answer:
        assert answer.status == code
        check(answer, DESCRIPTION["components"]["responses"][name])


def test_a_field_more_or_a_field_less_is_noticed():
    schema = strict({**DESCRIPTION["components"]["schemas"]["Health"], "components": DESCRIPTION["components"]})
    validator = jsonschema_rs.Draft202012Validator(schema)
    assert validator.is_valid({"ok": True, "reason": ""})
    assert not validator.is_valid({"ok": True, "reason": "", "age": 1.0})
    assert not validator.is_valid({"ok": True})


def test_the_description_is_served_with_the_agents_version():
    with asked("new", "/openapi.json") as answer:
        served = json.load(answer)
    assert served == DESCRIPTION
    assert (served["openapi"], served["info"]["version"]) == ("3.1.0", "1.2.3")


def test_the_parameters_of_decisions_are_described():
    parameters = {each["name"]: each["schema"] for each in DESCRIPTION["paths"]["/decisions"]["get"]["parameters"]}
    assert parameters == {
        "last": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
        "pod": {"type": "string", "pattern": "^[^/]+/[^/]+$"},
        "terms": {"type": "boolean", "default": False},
    }


@pytest.mark.parametrize("schema", DESCRIPTION["components"]["schemas"].values(), ids=DESCRIPTION["components"]["schemas"])
def test_each_schema_is_json_schema_and_says_what_it_is(schema):
    jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    assert schema["description"]
