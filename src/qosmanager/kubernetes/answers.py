"""What the API server means by an answer: success, when to come again, which permission is missing.

In: an `Answer`, which may as well be HTML of a proxy on the way. Out: values, or words for people. Nothing here raises.
"""

from __future__ import annotations

import logging
import re
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec
from msgspec import Struct

from qosmanager.documents.problem import printable
from qosmanager.kubernetes.api import Answer
from qosmanager.views.log_lines import pairs

_LOG = logging.getLogger("qosmanager")
_LONGEST_WAIT = 3600.0  # seconds: what is told beyond that is no advice
LONGEST_WORDS = 300  # characters of a server's message that are shown
_MOST_COMPLAINTS = 200
# `admission webhook "w" denied the request: ...`, `ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ...`
_BY_ADMISSION = re.compile(r"\bdenied (the )?request\b")
UNAUTHORIZED, FORBIDDEN, NOT_FOUND, CONFLICT, GONE, TOO_MANY = 401, 403, 404, 409, 410, 429


class Right(Struct, frozen=True):
    """A permission: verb, resource ("pods/eviction") and namespace ("": cluster-wide)."""

    verb: str
    resource: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f" in namespace {self.namespace}" if self.namespace else "")


class Complaints:
    """Says what goes wrong once, whoever it happens to."""

    def __init__(self, event: str) -> None:
        self._event = event
        self._told: set[tuple[int, Right]] = set()

    def once(self, answer: Answer, right: Right) -> None:
        """Say that somebody was refused a right."""
        key = (answer.status, right)
        if key not in self._told and len(self._told) < _MOST_COMPLAINTS:
            self._told.add(key)
            _LOG.warning(pairs(self._event, problem=refusal(answer, right)))


def body_of(answer: Answer) -> dict[str, Any] | None:
    """Return the object that a body holds; None: it holds none."""
    try:
        found = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def is_success(answer: Answer) -> bool:
    """Whether the API server itself says that it was done: a page of a proxy with status 200 is no success."""
    if not 200 <= answer.status < 300:
        return False
    found = body_of(answer)
    return found is not None and isinstance(found.get("kind"), str) and found.get("status") != "Failure"


def is_absent(answer: Answer) -> bool:
    """Whether the API server itself says that there is no such object: a proxy's 404, in HTML or in JSON of its own, says nothing of it."""
    return answer.status == NOT_FOUND and (body_of(answer) or {}).get("kind") == "Status"


def is_budget(answer: Answer) -> bool:
    """Whether an eviction is refused for the pod's sake: by 429, or, where two disruption budgets hold for it, by a failure that is
    answered as a success is. An API server that has too much to do says so in plain text."""
    found = body_of(answer) or {}
    has_failed = answer.status < 300 and found.get("status") == "Failure"
    return found.get("kind") == "Status" and (answer.status == TOO_MANY or has_failed)


def is_denied(answer: Answer) -> bool:
    """Whether a permission is missing. That an admission webhook or policy will not have this one object is mostly told by 403, too."""
    message = (body_of(answer) or {}).get("message")
    about_object = isinstance(message, str) and _BY_ADMISSION.search(message) is not None
    return answer.status == UNAUTHORIZED or (answer.status == FORBIDDEN and not about_object)


def retry_after(answer: Answer) -> float | None:
    """Return the seconds after which to come again, as the header (seconds, or a date) or the status says; None: neither does."""
    given: object = answer.headers.get("retry-after")
    if given is None:
        details = (body_of(answer) or {}).get("details")
        given = details.get("retryAfterSeconds") if isinstance(details, dict) else None
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        return None
    try:
        seconds = float(given)
    except (ValueError, OverflowError):
        seconds = _until(str(given), answer.headers.get("date", ""))
    return min(seconds, _LONGEST_WAIT) if seconds > 0 else None


def _until(moment: str, now: str) -> float:
    """Return the seconds from one date of HTTP to another, both by the clock of who answered; 0: one of them is none."""
    try:
        return (parsedate_to_datetime(moment) - parsedate_to_datetime(now)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return 0.0


def said(answer: Answer) -> str:
    """Return what the server says, in one line that can be shown."""
    message = (body_of(answer) or {}).get("message")
    words = printable(message, LONGEST_WORDS) if isinstance(message, str) and message else "no message of the API server"
    return f"{answer.status}: {words}"


def refusal(answer: Answer, right: Right) -> str:
    """Say why something was not done; what is missing is named where it is a permission."""
    if answer.status == FORBIDDEN and is_denied(answer):
        return f"not permitted: {right} ({said(answer)})"
    if answer.status == UNAUTHORIZED:
        return f"the API server does not accept this agent's credentials for {right}"
    return f"{right}: {said(answer)}"
