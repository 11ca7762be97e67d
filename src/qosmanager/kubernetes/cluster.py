"""What the cluster says of this node's pods: one or two origins, each on a thread of its own, and which of them counts now.

In: the origins in order of preference. Out: the pods, their age and whose word that is. Nothing here ever waits for a network but the
threads that `start` begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple, Protocol

from qosmanager.kubernetes.known_pods import KnownPods
from qosmanager.kubernetes.pods import KnownPod
from qosmanager.kubernetes.worker import Worker
from qosmanager.ports import Clock

FRESH = 25.0  # seconds: older, and the next origin is asked
HEAD_START = 1.0  # seconds that an origin has before the next one is asked for the first time


class Origin(Protocol):
    """Somebody who knows the pods."""

    @property
    def known(self) -> KnownPods: ...

    @property
    def problem(self) -> str: ...

    @property
    def problems(self) -> tuple[str, ...]: ...

    def once(self) -> float: ...


class Heard(NamedTuple):
    """The pods by the uid in their groups' names, and whose word it is."""

    pods: Mapping[str, KnownPod]
    origin: str


class Cluster:
    """The first origin that is fresh counts; while none is, the freshest."""

    def __init__(self, origins: Mapping[str, Origin], clock: Clock) -> None:
        """`origins`: by the name that people know them by ("api", "kubelet")."""
        self._origins = origins
        began = clock.monotonic()
        self._workers = [
            Worker(f"pods-{name}", partial(_turn, origin, began + number * HEAD_START), clock)
            for number, (name, origin) in enumerate(origins.items())
        ]

    def start(self) -> None:
        """Begin to listen to all of them."""
        for worker in self._workers:
            worker.start()

    def stop(self) -> None:
        """Listen no more. Close what the origins ask first, so that nobody waits for a network."""
        for worker in self._workers:
            worker.stop()

    @property
    def is_fresh(self) -> bool:
        """Whether somebody has named the pods, and not long ago."""
        return self.age() <= FRESH

    def age(self) -> float:
        """Return the age of what counts, in seconds."""
        return self._current()[1].known.age()

    def heard(self) -> Heard:
        """Return what counts now."""
        name, origin = self._current()
        return Heard(origin.known.by_group(), name)

    def revision(self) -> tuple[str, int]:
        """Return what is another one whenever `heard` is."""
        name, origin = self._current()
        return name, origin.known.revision

    @property
    def problems(self) -> tuple[str, ...]:
        """Who cannot be asked, and what of the pods is not understood, for people."""
        _, current = self._current()
        silent = tuple(f"pods from {name}: {origin.problem}" for name, origin in self._origins.items() if origin.problem)
        wrong = tuple(problem for pod in current.known.by_group().values() for problem in pod.problems)
        return (*silent, *current.problems, *wrong)

    def _current(self) -> tuple[str, Origin]:
        ages = {name: origin.known.age() for name, origin in self._origins.items()}
        name = next((name for name, age in ages.items() if age <= FRESH), None) or min(ages, key=ages.__getitem__)
        return name, self._origins[name]


def _turn(origin: Origin, not_before: float, now: float) -> float:
    """Have an origin's turn; return the seconds until its next one."""
    return not_before - now if now < not_before else origin.once()
