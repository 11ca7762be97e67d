"""The agent's own node in the API: its labels and the pause that a person asks for are read, its status is written.

In: the node as the API tells of it, and each cycle's record from the cycle, which never waits. Out: the `Pauses` port and labels; patches
of the annotation `qosmanager.io/status` and, where that is wanted, of the batch resources in the node's status.
"""

from __future__ import annotations

import logging
from typing import Any, Protocol
from urllib.parse import quote

import msgspec
from msgspec import Struct

from qosmanager.kubernetes.answers import CONFLICT, TOO_MANY, UNAUTHORIZED, Complaints, Right, is_success, retry_after
from qosmanager.kubernetes.api import MERGE_PATCH, Answer, Api, ApiUnreachable
from qosmanager.kubernetes.batch_resources import WITHDRAWN, Batch
from qosmanager.kubernetes.memory import AgentMemory
from qosmanager.kubernetes.node_pause import PAUSE, NodePause
from qosmanager.kubernetes.node_status import STATUS, StatusNote, shown_leaks
from qosmanager.kubernetes.worker import Worker
from qosmanager.model.record import CycleRecord
from qosmanager.ports import Clock
from qosmanager.views.log_lines import pairs

_LOG = logging.getLogger("qosmanager")
_LOOK = 5.0  # seconds between two looks at whether there is something to write
_BACK_OFF = (5.0, 15.0, 60.0)  # seconds
_REFUSED_FOR = 600.0  # seconds for which a refusal is believed


class _Metadata(Struct, rename="camel"):
    uid: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Status(Struct):
    allocatable: dict[str, str | int | float] | None = None


class _Node(Struct):
    metadata: _Metadata | None = None
    status: _Status | None = None


class Told(Struct, frozen=True):
    """What the node shows of what was written to it."""

    allocatable: dict[str, Any]
    has_status: bool


class NodeReader:
    """Takes the node as the API tells of it."""

    def __init__(self, memory: AgentMemory, pause: NodePause) -> None:
        self.told: Told | None = None  # as last told; None: the writer has taken it
        self.pause = pause
        self._memory = memory

    def take(self, raw: bytes | None) -> None:
        """Take one state of it; None: there is no such node. Raises msgspec.DecodeError."""
        node = _Node() if raw is None else msgspec.json.decode(raw, type=_Node)
        metadata, status = node.metadata or _Metadata(), node.status or _Status()
        annotations = metadata.annotations or {}
        if raw is None:
            return
        self._memory.remember_node(metadata.uid or "", metadata.labels or {})
        self.told = Told(status.allocatable or {}, has_status=STATUS in annotations)
        self.pause.take(annotations.get(PAUSE))
        shown = shown_leaks(annotations.get(STATUS))
        for leak in () if shown is None else self._memory.compare_leaks(shown):
            _LOG.info(pairs("LeakCleared", owner=leak.name, pod=leak.pod, by=f"annotation {STATUS}"))


class _Amounts(Protocol):
    """What is published of the batch resources, if anything is."""

    def due(self, record: CycleRecord, now: float) -> Batch | None: ...

    def published(self, amounts: Batch, now: float) -> None: ...

    def seen(self, allocatable: dict[str, Any]) -> None: ...


class Unpublished:
    """No batch resources are published."""

    def due(self, record: CycleRecord, now: float) -> None:
        del record, now

    def published(self, amounts: Batch, now: float) -> None:
        del amounts, now

    def seen(self, allocatable: dict[str, Any]) -> None:
        del allocatable


class NodeWriter:
    """Writes what a cycle's record says of the node. `observe` may be called from the cycle; it never waits."""

    def __init__(self, api: Api, name: str, node: NodeReader, notes: tuple[StatusNote, _Amounts], clock: Clock) -> None:
        self._api = api
        self._path = f"/api/v1/nodes/{quote(name, safe='')}"
        self._node = node
        self._status, self._batch = notes
        self._clock = clock
        self._record: CycleRecord | None = None
        self._not_before = 0.0
        self._failures = 0
        self._complaints = Complaints("NodeNotWritten")
        self._worker = Worker("node", self.work, clock)

    def start(self) -> None:
        self._worker.start()

    def stop(self) -> None:
        """Write nothing more."""
        self._worker.stop()

    def observe(self, record: CycleRecord) -> None:
        """Take the newest record."""
        self._record = record

    def work(self, now: float) -> float:
        """Write what is due; return the seconds until the next look."""
        record = self._record
        if record is None or now < self._not_before:
            return _LOOK
        told, self._node.told = self._node.told, None
        if told is not None:
            self._batch.seen(told.allocatable)
            if not told.has_status:
                self._status.missed()
        amounts = self._batch.due(record, now)
        # The batch resources first: they keep pods away from a node in trouble.
        if amounts is not None and self._patch(f"{self._path}/status", amounts.as_status(), Right("patch", "nodes/status")):
            self._batch.published(amounts, now)
        text = self._status.due(record, now)
        if text is not None and self._patch(self._path, _annotated(text), Right("patch", "nodes")):
            self._status.written(record, now)
        return _LOOK

    def withdraw(self) -> None:
        """Take the batch resources back and leave the last words, once everything is restored; tries once."""
        self._leave(WITHDRAWN)

    def rest(self) -> None:
        """Offer nothing while nobody watches over it, and leave the last words; the next agent goes on. Tries once."""
        self._leave(Batch(0, 0).as_status())

    def _leave(self, amounts: dict[str, Any]) -> None:
        if not isinstance(self._batch, Unpublished):
            self._patch(f"{self._path}/status", amounts, Right("patch", "nodes/status"))
        self._patch(self._path, _annotated(self._status.last_words(self._clock.wall())), Right("patch", "nodes"))

    def _patch(self, path: str, patch: dict[str, Any], right: Right) -> bool:
        try:
            answer = self._api.request("PATCH", path, body=msgspec.json.encode(patch), content_type=MERGE_PATCH)
        except ApiUnreachable:
            self._come_again(None)
            return False
        if is_success(answer):
            self._failures = 0
            return True
        self._come_again(answer)
        if 400 <= answer.status < 500 and answer.status not in (CONFLICT, TOO_MANY):
            self._complaints.once(answer, right)
            if answer.status != UNAUTHORIZED:  # that one passes with the next token
                self._not_before = self._clock.monotonic() + _REFUSED_FOR
        return False

    def _come_again(self, answer: Answer | None) -> None:
        wait = _BACK_OFF[min(self._failures, len(_BACK_OFF) - 1)]
        self._failures += 1
        wanted = None if answer is None else retry_after(answer)
        self._not_before = self._clock.monotonic() + max(wait, wanted or 0.0)


def _annotated(text: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {STATUS: text}}}
