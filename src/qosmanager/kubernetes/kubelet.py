"""The node's pods from kubelet itself: for when the API server cannot be reached, or by choice.

In: an `Api` that is kubelet. Out: `KnownPods`. kubelet has no watch: its list is asked for every 10 s, while it is wanted. Whether a token
is good kubelet asks the API server, and believes the answer for two minutes: while that is down, it lets nobody in by a token.
"""

from __future__ import annotations

from collections.abc import Callable

from qosmanager.kubernetes.answers import UNAUTHORIZED
from qosmanager.kubernetes.api import Api, ApiUnreachable
from qosmanager.kubernetes.known_pods import NOT_BELIEVED, KnownPods
from qosmanager.kubernetes.pacing import Backoff
from qosmanager.kubernetes.pod_list import Untrue, read_page
from qosmanager.ports import Clock

PODS = "/pods"
PERIOD = 10.0  # seconds
LOOK = 1.0  # seconds between two looks at whether it is wanted
PATIENCE = 5.0  # seconds
_WHOM_KUBELET_ASKS = "; kubelet asks the API server whether a token is, and lets nobody in by one while that is down"


class KubeletPods:
    """`once` asks, and returns how long to wait; it never raises for what kubelet or a network does."""

    def __init__(self, api: Api, clock: Clock, random: Callable[[], float], wanted: Callable[[], bool]) -> None:
        """`wanted`: whether anybody goes by kubelet's word now."""
        self.known = KnownPods(clock)
        self.problem = ""
        self.problems: tuple[str, ...] = ()
        self._api = api
        self._backoff = Backoff(random)
        self._wanted = wanted

    def once(self) -> float:
        """Ask, if that is wanted; return the seconds to wait."""
        if not self._wanted():
            self.problem = ""
            return LOOK
        try:
            answer = self._api.request("GET", PODS, timeout=PATIENCE)
        except ApiUnreachable as error:
            return self._failed(str(error))
        try:
            page = read_page(answer)
        except Untrue as error:
            why = _WHOM_KUBELET_ASKS if answer.status == UNAUTHORIZED else ""
            return self._failed(f"{error}{why}", error.retry_after)
        if not self.known.replace(page.pods):
            return self._failed(NOT_BELIEVED)
        self.problem, self.problems = "", tuple(page.problems.values())
        self._backoff.succeeded()
        return PERIOD

    def _failed(self, problem: str, asked: float = 0.0) -> float:
        self.problem = problem
        return self._backoff.failed(asked)
