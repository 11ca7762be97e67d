"""What can be asked, as data: each path with its parameters and its answers. app.py serves this table, openapi.py describes it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from qosmanager.http.answers import DecisionList, ErrorAnswer, Health, Reading
from qosmanager.views.decisions import CAPACITY
from qosmanager.views.status import Status

JSON = ("application/json",)
TEXT = ("text/plain",)
DEFAULT_LAST = 50
POD = "[^/]+/[^/]+"  # NAMESPACE/NAME


class Parameter(Struct, frozen=True):
    """A part of the query that may be given: its name, how its value is written, its meaning, its JSON Schema."""

    name: str
    written: str
    meaning: str
    schema: dict[str, Any]


class Answer(Struct, frozen=True):
    """When it is given, the type of its body, and as what it is sent."""

    meaning: str
    kind: Any
    media: tuple[str, ...] = JSON


class Endpoint(Struct, frozen=True):
    """A path that answers GET and HEAD; its answers by status code, those that every path may give left out."""

    path: str
    meaning: str
    answers: dict[int, Answer]
    parameters: tuple[Parameter, ...] = ()


NO_CYCLE = Answer("no cycle has finished yet", ErrorAnswer)
ENDPOINTS = (
    Endpoint("/", "this list", {200: Answer("the endpoints, one a line", str, TEXT)}),
    Endpoint(
        "/metrics",
        "Prometheus metrics",
        {200: Answer("every series now, as Accept wishes", str, (*TEXT, "application/openmetrics-text"))},
    ),
    Endpoint(
        "/healthz",
        "200 while the loop runs, else 503 with the reason",
        {200: Answer("the loop runs", Health), 503: Answer("no cycle has finished for too long", Health)},
    ),
    Endpoint(
        "/readyz",
        "200 while decisions rest on fresh data, else 503 with the reason",
        {200: Answer("the loop runs and the node's sample is fresh", Health), 503: Answer("it does not, or the sample is old", Health)},
    ),
    Endpoint(
        "/status", "node, pressure, BE and pods now", {200: Answer("the node and the agent after the last cycle", Status), 503: NO_CYCLE}
    ),
    Endpoint(
        "/snapshot", "the readings of the last cycle, as data", {200: Answer("what the last cycle decided on", Reading), 503: NO_CYCLE}
    ),
    Endpoint(
        "/decisions",
        "the last decisions and events",
        {
            200: Answer("what was decided and what happened last, oldest first", DecisionList),
            400: Answer("a parameter that is unknown, given twice or has no such value", ErrorAnswer),
        },
        (
            Parameter(
                "last", f"1..{CAPACITY}", "how many", {"type": "integer", "minimum": 1, "maximum": CAPACITY, "default": DEFAULT_LAST}
            ),
            Parameter("pod", "NAMESPACE/NAME", "only those about this pod", {"type": "string", "pattern": f"^{POD}$"}),
            Parameter("terms", "true", "each action with the judgement it was decided from", {"type": "boolean", "default": False}),
        ),
    ),
    Endpoint(
        "/openapi.json",
        "this interface described for programs (OpenAPI 3.1)",
        {200: Answer("this interface for programs, OpenAPI 3.1", dict[str, Any])},
    ),
)
EVERYWHERE = {
    421: Answer("Host is no loopback name, while the agent listens on loopback alone", ErrorAnswer),
    500: Answer("a fault of the agent; it goes on", ErrorAnswer),
}
NOWHERE_ELSE = {
    404: Answer("an unknown path", ErrorAnswer),
    405: Answer("a method other than GET and HEAD", ErrorAnswer),
}
