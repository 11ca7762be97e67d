"""The table of endpoints as an OpenAPI 3.1 description.

In: the table, the version. Out: the description as data. The schemas of the bodies are those of the types that the answers are encoded
from, so the two cannot differ.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec

from qosmanager.http.endpoints import ENDPOINTS, EVERYWHERE, NOWHERE_ELSE, Answer, Endpoint, Parameter

Data = dict[str, Any]

_ABOUT = """What a node agent measures, decides and does. Read-only: every path answers GET and HEAD, nothing can be changed.

Cores, bytes, seconds and percent, as each schema says; what was not measured is null, with the reason under `missing`.
An unknown path is answered 404, another method 405 (`components.responses`). Of more than 64 connections at once the oldest is
dropped."""


def description(version: str) -> Data:
    """Return the description of what an agent of this version answers."""
    known = [*(answer for endpoint in ENDPOINTS for answer in endpoint.answers.values()), *EVERYWHERE.values(), *NOWHERE_ELSE.values()]
    kinds = list(dict.fromkeys(answer.kind for answer in known))
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    made = _Maker(dict(zip(kinds, schemas, strict=True)))
    common = EVERYWHERE | NOWHERE_ELSE
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "QOSManager",
            "summary": "The node agent's endpoints",
            "description": _ABOUT,
            "version": version,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {endpoint.path: {"get": made.operation(endpoint)} for endpoint in ENDPOINTS},
        "components": {
            "responses": {_name(code): made.response(answer) for code, answer in common.items()},
            "schemas": components,
        },
    }


class _Maker:
    """Makes the parts that hold schemas."""

    def __init__(self, schemas: dict[Any, Data]) -> None:
        self._schemas = schemas

    def operation(self, endpoint: Endpoint) -> Data:
        own = {str(code): self.response(answer) for code, answer in endpoint.answers.items()}
        shared = {str(code): {"$ref": f"#/components/responses/{_name(code)}"} for code in EVERYWHERE}
        said: Data = {"operationId": endpoint.path.strip("/").partition(".")[0] or "index", "summary": endpoint.meaning}
        if endpoint.parameters:
            said["parameters"] = [_parameter(each) for each in endpoint.parameters]
        return {**said, "responses": own | shared}

    def response(self, answer: Answer) -> Data:
        return {"description": answer.meaning, "content": {media: {"schema": self._schemas[answer.kind]} for media in answer.media}}


def _parameter(parameter: Parameter) -> Data:
    return {"name": parameter.name, "in": "query", "description": f"{parameter.meaning} ({parameter.written})", "schema": parameter.schema}


def _name(code: int) -> str:
    """Return the name of a status, for example MisdirectedRequest."""
    return HTTPStatus(code).phrase.replace(" ", "")
