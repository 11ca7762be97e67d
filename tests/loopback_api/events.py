"""Events on a loopback API server: what is refused when one is made or changed, and the same event as the older API shows it."""

from __future__ import annotations

from loopback_api.store import Object, Refusal

_LIMITS = {"reportingInstance": 128, "action": 128, "reason": 128}
_FIXED = ("regarding", "related", "reason", "note", "type", "eventTime", "action", "reportingController", "reportingInstance")


def check_new(event: Object) -> None:
    """Raise Refusal where events.k8s.io/v1 would."""
    problems = [f"{field}: Required value" for field in ("eventTime", "reportingController", *_LIMITS) if not event.get(field)]
    problems += [f"{field}: can have at most {most} characters" for field, most in _LIMITS.items() if len(event.get(field, "")) > most]
    if len(event.get("note", "").encode()) > 1024:
        problems.append("message: can have at most 1024 characters")
    if event.get("type") not in ("Normal", "Warning"):
        problems.append(f"type: has invalid value: {event.get('type')}")
    namespace, regarding = event["metadata"].get("namespace"), event.get("regarding", {}).get("namespace", "")
    if not regarding and namespace not in ("default", "kube-system"):
        problems.append("involvedObject.namespace: does not match event.namespace")
    if regarding and regarding != namespace:
        problems.append("involvedObject.namespace: does not match event.namespace")
    problems += [f"{field}: needs to be unset" for field in ("deprecatedCount", "deprecatedSource") if event.get(field)]
    _refuse(event, problems + _series(event))


def check_change(before: Object, after: Object) -> None:
    """Raise Refusal where events.k8s.io/v1 would: only the series may change."""
    fixed = [f"{field}: field is immutable" for field in _FIXED if before.get(field) != after.get(field)]
    _refuse(after, fixed + _series(after))


def as_core(event: Object) -> Object:
    """The same event by /api/v1, which kubectl reads."""
    renamed = {key: value for key, value in event.items() if key not in ("regarding", "note", "apiVersion", "deprecatedCount")}
    return renamed | {"apiVersion": "v1", "kind": "Event", "involvedObject": event.get("regarding", {}), "message": event.get("note", "")}


def table(events: list[Object], version: int) -> Object:
    """Events as kubectl asks for them to print: a Table."""
    columns = [{"name": name, "type": "string", "format": "", "priority": 0} for name in ("Type", "Reason", "Object", "Message")]
    rows = []
    for event in events:
        about = event.get("regarding", {})
        cells = [event.get("type"), event.get("reason"), f"{about.get('kind', '').lower()}/{about.get('name')}", event.get("note")]
        partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": event["metadata"]}
        rows.append({"cells": cells, "object": partial})
    meta = {"resourceVersion": str(version)}
    return {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta, "columnDefinitions": columns, "rows": rows}


def _series(event: Object) -> list[str]:
    series = event.get("series")
    if series is None:
        return []
    few = ["series.count: should be at least 2"] if series.get("count", 0) < 2 else []
    return few + ([] if series.get("lastObservedTime") else ["series.lastObservedTime: Required value"])


def _refuse(event: Object, problems: list[str]) -> None:
    if problems:
        name = event["metadata"].get("name", "")
        raise Refusal(422, "Invalid", f'Event "{name}" is invalid: [{", ".join(problems)}]')
