"""Workload files: who runs here without Kubernetes (specification, section 11).

In: YAML or JSON with the root key `workloads`. Out: the declarations in the order of the file, or DocumentError with every problem.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from qosmanager.documents.names import Names
from qosmanager.documents.problem import printable
from qosmanager.documents.quantities import written_bytes
from qosmanager.documents.reader import Checks, Grammar, Reader
from qosmanager.documents.tree import parse
from qosmanager.model.qos import QoS
from qosmanager.model.workload import LatencySource, WorkloadRule

_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_GLOB = re.compile(r"[*?\[]")

_Cores = Annotated[float | None, Meta(extra={"unit": "cores", "low": 0})]
_CoresLimit = Annotated[float | None, Meta(extra={"unit": "cores", "above": 0})]
_Bytes = Annotated[int | None, Meta(extra={"unit": "bytes", "low": 0})]
_BytesLimit = Annotated[int | None, Meta(extra={"unit": "bytes", "above": 0})]
_Objective = Annotated[float | None, Meta(extra={"unit": "duration", "above": 0})]
_Grace = Annotated[float, Meta(extra={"unit": "duration", "low": 0, "high": 3600})]
_Priority = Annotated[int, Meta(extra={"low": -(2**31), "high": 2**31 - 1})]


class _Requests(Struct, frozen=True, kw_only=True):
    """What is promised."""

    cpu: _Cores = None
    memory: _Bytes = None


class _Limits(Struct, frozen=True, kw_only=True):
    """What is allowed at most."""

    cpu: _CoresLimit = None
    memory: _BytesLimit = None


class _Slo(Struct, frozen=True, kw_only=True):
    """What is aimed at."""

    p99: _Objective = None


class _Latency(Struct, frozen=True, kw_only=True):
    """Where it is measured."""

    prometheus: str
    histogram: str


class _Declaration(Struct, frozen=True, kw_only=True):
    """The keys of one workload."""

    name: str
    qos: QoS
    cgroup: str
    namespace: str = "default"
    priority: _Priority = 0
    critical: bool = False
    owner: str | None = None
    requests: _Requests = _Requests()
    limits: _Limits = _Limits()
    slo: _Slo = _Slo()
    latency: _Latency | None = None
    grace: _Grace = 30.0

    def rule(self) -> WorkloadRule:
        return WorkloadRule(
            name=self.name,
            qos=self.qos,
            cgroup=self.cgroup,
            namespace=self.namespace,
            priority=self.priority,
            critical=self.critical,
            owner=self.owner,
            cpu_request=self.requests.cpu,
            cpu_limit=self.limits.cpu,
            memory_request=self.requests.memory,
            memory_limit=self.limits.memory,
            slo_p99=self.slo.p99,
            latency=LatencySource(self.latency.prometheus, self.latency.histogram) if self.latency else None,
            grace=self.grace,
        )


class _Document(Struct, frozen=True, kw_only=True):
    """The root."""

    workloads: tuple[_Declaration, ...] = ()


DOCUMENT: type[Struct] = _Document  # its annotations say what a file may hold


def load_workloads(text: str, source: str) -> tuple[WorkloadRule, ...]:
    """Read a file; an empty one declares nothing. Raises DocumentError.

    A pattern may stand in the last component of `cgroup` only (see WorkloadRule), so that each match has a name of its own.
    """
    names, groups = Names(), _Groups()

    def check(reader: Reader, declaration: _Declaration, path: str) -> None:
        names.check(reader, declaration, path)
        groups.check(reader, declaration.cgroup, f"{path}.cgroup")
        _check_limits(reader, declaration, path)

    checks: Checks = {_Declaration: check, _Latency: _check_latency}
    reader = Reader(source, Grammar(checks=checks))
    document = reader.struct(parse(text, source), _Document, "")
    reader.finish()
    assert document is not None
    return tuple(declaration.rule() for declaration in document.workloads)


class _Groups:
    """The groups of one document; none twice and none inside another, because its usage would count twice."""

    def __init__(self) -> None:
        self._seen: dict[int, dict[tuple[str, ...], int]] = {}  # by depth: groups of one depth do not lie inside each other

    def check(self, reader: Reader, cgroup: str, path: str) -> None:
        line = reader.lines[path]
        fault = _path_fault(cgroup)
        if fault:
            message = "a path below the cgroup root such as system.slice/nginx.service or batch.slice/*"
            reader.refuse(line, path, message, value=f'"{printable(cgroup)}"', hint=fault)
            return
        parts = tuple(cgroup.split("/"))
        same = self._seen.setdefault(len(parts), {})
        if parts in same:
            reader.refuse(line, path, f"this group was already declared in line {same[parts]}")
        others = (each for depth, groups in self._seen.items() if depth != len(parts) for each in groups.items())
        for other, first in others:
            if _contains(other, parts) or _contains(parts, other):
                message = f"one of this group and that of line {first} lies inside the other: its usage would count twice"
                reader.refuse(line, path, message)
        same.setdefault(parts, line)


def _path_fault(cgroup: str) -> str:
    """Say what is wrong with a path; "" when nothing is."""
    parts = cgroup.split("/")
    faults = (
        (cgroup == "", "it is empty"),
        (cgroup.strip("/") == "", "it is the cgroup root itself"),
        (cgroup.startswith("/sys/fs/cgroup/"), "relative to the cgroup root, and on cgroup v1 without the controller's name"),
        (cgroup.startswith("/"), f"without the leading slash: {printable(cgroup.strip('/'))}?"),
        (".." in parts, "it leaves the cgroup root"),
        ("" in parts or "." in parts, "a component is empty or a dot"),
        (not cgroup.isprintable(), "it holds a character that cannot be printed"),
        (len(cgroup) > 4095 or any(len(part.encode()) > 255 for part in parts), "it is too long for a path"),
        (any(_GLOB.search(part) for part in parts[:-1]), "a pattern stands only in the last component"),
        (len(parts) == 1 and parts[0].strip("*") == "", "it would match every group of the machine"),
    )
    return next((text for wrong, text in faults if wrong), "")


def _contains(outer: tuple[str, ...], inner: tuple[str, ...]) -> bool:
    """Whether a group that `inner` names lies below one that `outer` names (or matches)."""
    depth = len(outer)
    return len(inner) > depth and outer[:-1] == inner[: depth - 1] and fnmatchcase(inner[depth - 1], outer[-1])


def _check_limits(reader: Reader, declaration: _Declaration, path: str) -> None:
    """Refuse a limit below what is promised: one of the two is a mistake."""
    for name, shown in (("cpu", "{:g}".format), ("memory", written_bytes)):
        request, limit = getattr(declaration.requests, name), getattr(declaration.limits, name)
        where = f"{path}.limits.{name}"
        if request is not None and limit is not None and limit < request:
            reader.refuse(reader.lines[where], where, f"at least requests.{name}, {shown(request)}", value=shown(limit))


def _check_latency(reader: Reader, latency: _Latency, path: str) -> None:
    fault = _url_fault(latency.prometheus)
    if fault:
        where = f"{path}.prometheus"
        message = "an http or https address with a host"
        reader.refuse(reader.lines[where], where, message, value=f'"{printable(latency.prometheus)}"', hint=fault)
    if not _METRIC.fullmatch(latency.histogram):
        where = f"{path}.histogram"
        message = "the name of a Prometheus histogram (letters, digits, _ and :)"
        reader.refuse(reader.lines[where], where, message, value=f'"{printable(latency.histogram)}"')


def _url_fault(url: str) -> str:
    """Say what is wrong with an address; "" when nothing is."""
    if not url.isascii() or not url.isprintable() or " " in url:
        return "it holds a character that no address has"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return str(error)
    if parts.scheme not in ("http", "https"):
        return f"http://{url}?" if "://" not in url else f"not {printable(parts.scheme)}"
    if port == 0 or not parts.hostname:
        return "the host is missing" if port != 0 else "port 0"
    return ""
