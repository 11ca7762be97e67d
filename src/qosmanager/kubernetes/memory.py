"""What outlives the agent on this node: evictions of the last hour, owners of pods that leaked, since when a pause has been asked for, and
the node's labels, which choose its part of the configuration.

It is kept in the state directory, on tmpfs, and not in the node's annotation: it is written before the eviction is asked for, also while
the API server is slow, by nobody who may merely patch nodes, and a reboot, which ends every pod, ends it as well. Times in it are those of
the clock that counts from the boot.
"""

from __future__ import annotations

import logging
import threading
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from qosmanager.documents.quantities import LAST_TIME
from qosmanager.model.count import counted
from qosmanager.ports import Clock
from qosmanager.views.log_lines import pairs

_LOG = logging.getLogger("qosmanager")
BUDGET_OVER = 3600.0  # seconds
OWNER_RESTS = 600.0  # seconds between two evictions of one owner's pods
_MOST_LEAKS = 50


class Notebook(Protocol):
    """A small durable text."""

    def load(self) -> bytes | None:
        """None: nothing is kept. OSError: it cannot be read."""

    def save(self, text: bytes) -> None:
        """OSError: it cannot be written."""


class Spent(Struct, frozen=True, kw_only=True):
    """An eviction that was asked for; `at` in seconds since the boot."""

    uid: str
    owner: str
    at: float


class Leak(Struct, frozen=True, kw_only=True):
    """An owner whose pod was evicted as leaking. `growth` in bytes/min, `at` in epoch seconds. `shown`: it has been seen in the node's
    annotation, so that a person can have taken it out there."""

    owner: str
    name: str
    pod: str
    at: float
    growth: float
    shown: bool = False


class Asked(Struct, frozen=True, kw_only=True):
    """A pause that an annotation asks for, and when (epoch seconds, and seconds since the boot) the agent first saw it."""

    text: str
    since: float
    at: float


class _Kept(Struct, frozen=True, kw_only=True):
    spent: tuple[Spent, ...] = ()
    leaks: tuple[Leak, ...] = ()
    asked: Asked | None = None
    node: str = ""  # uid of the node; "": not known
    labels: dict[str, str] | None = None  # of the node, as last heard; None: never


def _was(at: float) -> bool:
    """Whether these epoch seconds can be written as a time."""
    return 0 <= at <= LAST_TIME


class AgentMemory:
    """May be used from any thread. What cannot be written is remembered all the same, and said once."""

    def __init__(self, notebook: Notebook, clock: Clock) -> None:
        self._notebook = notebook
        self._clock = clock
        self._lock = threading.Lock()
        self._fault = ""
        self._kept = self._load()

    def exhausted(self, most: int, uid: str = "") -> str:
        """Return why nobody (but the pod with this uid, for which it was asked already) must be evicted now, "" where somebody may."""
        recent = self.evicted_lately(uid)
        return f"{counted(recent, 'pod')} evicted on this node in the last hour, evictionBudget is {most}" if recent >= most else ""

    def rests(self, uid: str, owner: str) -> str:
        """Return why no pod of this owner must be evicted now, "" where one may: one in 10 minutes."""
        now = self._clock.monotonic()
        recent = [each for each in self._kept.spent if each.uid != uid]
        last = max((each.at for each in recent if owner and each.owner == owner), default=None)
        if last is not None and now - last < OWNER_RESTS:
            return f"a pod of the same owner was evicted {now - last:.0f} s ago; another one in {OWNER_RESTS - (now - last):.0f} s"
        return ""

    def spend(self, uid: str, owner: str) -> None:
        """An eviction is about to be asked for. The same pod counts once."""
        now = self._clock.monotonic()
        with self._lock:
            others = tuple(each for each in self._kept.spent if each.uid != uid and now - each.at < BUDGET_OVER)
            self._keep(replace(self._kept, spent=(*others, Spent(uid=uid, owner=owner, at=now))))

    def give_back(self, uid: str) -> None:
        """It was refused: nobody was evicted."""
        with self._lock:
            self._keep(replace(self._kept, spent=tuple(each for each in self._kept.spent if each.uid != uid)))

    def evicted_lately(self, but: str = "") -> int:
        """Return how many of the last hour count, the pod with the uid `but` left aside."""
        now = self._clock.monotonic()
        return sum(now - each.at < BUDGET_OVER and each.uid != but for each in self._kept.spent)

    @property
    def leaks(self) -> tuple[Leak, ...]:
        return self._kept.leaks

    def leak_of(self, owner: str) -> Leak | None:
        """Return what is remembered of an owner; None: nothing, or a person has cleared it."""
        return next((leak for leak in self._kept.leaks if leak.owner == owner), None)

    def remember_leak(self, leak: Leak) -> None:
        with self._lock:
            others = tuple(each for each in self._kept.leaks if each.owner != leak.owner)
            self._keep(replace(self._kept, leaks=(*others, leak)[-_MOST_LEAKS:]))

    def compare_leaks(self, shown: dict[str, Leak]) -> tuple[Leak, ...]:
        """Take in what the node's annotation shows, by owner; return what a person has cleared: it was there, and is there no more."""
        with self._lock:
            cleared = tuple(each for each in self._kept.leaks if each.shown and each.owner not in shown)
            known = {each.owner: replace(each, shown=each.owner in shown) for each in self._kept.leaks if each not in cleared}
            # What a predecessor wrote there and this one does not know: the state directory was lost.
            found = {owner: replace(leak, shown=True) for owner, leak in shown.items() if owner not in known}
            leaks = tuple([*known.values(), *found.values()][-_MOST_LEAKS:])
            if leaks != self._kept.leaks:
                self._keep(replace(self._kept, leaks=leaks))
        return cleared

    @property
    def labels(self) -> dict[str, str] | None:
        """The node's labels as last heard, also by a predecessor; None: never."""
        return self._kept.labels

    def remember_node(self, uid: str, labels: dict[str, str]) -> None:
        """Take note of the node as it is now. One that was made anew shows no leak, and no person has cleared any."""
        with self._lock:
            kept = self._kept
            is_another = bool(kept.node) and uid != kept.node
            leaks = tuple(replace(each, shown=False) for each in kept.leaks) if is_another else kept.leaks
            fresh = replace(kept, node=uid, labels=labels, leaks=leaks)
            if fresh != kept:
                self._keep(fresh)

    def asked_since(self, text: str | None) -> Asked | None:
        """Return when this text was first seen; None forgets the last one."""
        with self._lock:
            known = self._kept.asked
            if text is None:
                wanted = None
            elif known is not None and known.text == text:
                wanted = known
            else:
                wanted = Asked(text=text, since=self._clock.wall(), at=self._clock.monotonic())
            if wanted != known:
                self._keep(replace(self._kept, asked=wanted))
        return wanted

    def _load(self) -> _Kept:
        try:
            text = self._notebook.load()
            kept = _Kept() if text is None else msgspec.json.decode(text, type=_Kept)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            _LOG.warning(pairs("KubernetesMemory", problem=f"what is kept of evictions cannot be read, none is counted: {error}"))
            return _Kept()
        now = self._clock.monotonic()
        spent = tuple(each for each in kept.spent if 0 <= now - each.at < BUDGET_OVER)
        asked = kept.asked if kept.asked is not None and kept.asked.at <= now and _was(kept.asked.since) else None
        return replace(kept, spent=spent, asked=asked, leaks=tuple(leak for leak in kept.leaks if _was(leak.at)))

    def _keep(self, kept: _Kept) -> None:
        self._kept = kept
        try:
            self._notebook.save(msgspec.json.encode(kept))
            self._fault = ""
        except OSError as error:
            fault = f"evictions cannot be written down and count for this run only: {error.strerror or error}"
            if fault != self._fault:
                _LOG.warning(pairs("KubernetesMemory", problem=fault))
            self._fault = fault
