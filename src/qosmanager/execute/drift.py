"""How often somebody else has changed an owned file (specification, section 9).

In: times at which a file was found changed. Out: whether that is a conflict: more than 3 times within a minute. Once a minute is systemd's
habit and none.
"""

from __future__ import annotations

from collections import deque

from qosmanager.model.workload import CgroupFile

_WINDOW = 60.0
_OFTEN = 3


class DriftCounter:
    """Counts the changes of each file over the last minute."""

    def __init__(self) -> None:
        self._times: dict[CgroupFile, deque[float]] = {}

    def count(self, file: CgroupFile, now: float) -> int:
        """Note one more change; return how many there were in the last minute."""
        times = self._times.setdefault(file, deque())
        times.append(now)
        while times and times[0] <= now - _WINDOW:
            times.popleft()
        return len(times)

    def forget(self, file: CgroupFile) -> None:
        self._times.pop(file, None)

    @staticmethod
    def words(count: int) -> str:
        """What a receipt says after that many changes."""
        if count > _OFTEN:
            return f"conflict: somebody else has changed this file {count} times within a minute"
        return f"changed by somebody else ({count} in the last minute)"
