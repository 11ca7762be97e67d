"""The demo without cgroups of its own: readings that were recorded on real ones, decided again by the same engine.

In: a recording. Out: the same screen. Nothing on this machine is measured or changed.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from qosmanager.demo.recording import Frame, Recording
from qosmanager.demo.story import Interrupted, Now
from qosmanager.engine.step import step
from qosmanager.model.qos import is_latency_sensitive
from qosmanager.model.record import CycleRecord
from qosmanager.model.snapshot import Snapshot
from qosmanager.model.state import State
from qosmanager.views.decisions import Decisions
from qosmanager.views.status import About, Status, be_usage, status

RECORDED_SECONDS = 30.0


class RecordedDemo:
    """Decides a recording's snapshots again, in their own order, in `seconds` altogether."""

    def __init__(self, recording: Recording, show: Callable[[Now], None], stopping: Callable[[], bool]) -> None:
        self._recording = recording
        self._show = show
        self._stopping = stopping
        self._about = About(version=recording.version, pid=0, started=recording.frames[0].wall)
        self._decisions = Decisions()
        self._history: deque[float | None] = deque(maxlen=30)

    def run(self, seconds: float) -> None:
        """Show every frame. Raises Interrupted."""
        frames, settings = self._recording.frames, self._recording.settings
        stages = list(dict.fromkeys(frame.stage.key for frame in frames))
        pause = seconds / len(frames)
        state = State()
        for number, frame in enumerate(frames):
            state, assessment, plan = step(state, frame.snapshot, settings)
            record = CycleRecord(
                number=frame.cycle, wall=frame.wall, snapshot=frame.snapshot, assessment=assessment, plan=plan, state=state
            )
            self._decisions.observe(record)
            left = sum(later.stage == frame.stage for later in frames[number:]) * pause
            self._show(self._now(frame, stages, left, status(record, settings, self._about)))
            self._wait(pause)

    def _now(self, frame: Frame, stages: list[str], left: float, shown: Status) -> Now:
        snapshot = frame.snapshot
        p99 = max((p.latency.p99 for p in snapshot.pods if p.latency.p99 is not None), default=None)
        p99 = None if p99 is None else p99 * 1000
        self._history.append(p99)
        return Now(
            stage=frame.stage,
            index=stages.index(frame.stage.key) + 1,
            count=len(stages),
            left=left,
            settings=self._recording.note,
            p99=p99,
            slo=self._recording.slo,
            history=tuple(self._history),
            ls_cores=_ls_usage(snapshot),
            be_cores=be_usage(snapshot.pods),
            status=shown,
            decisions=self._decisions.last(20),
        )

    def _wait(self, seconds: float) -> None:
        if self._stopping():
            raise Interrupted
        time.sleep(seconds)


def _ls_usage(snapshot: Snapshot) -> float | None:
    measured = [pod.cpu.usage for pod in snapshot.pods if is_latency_sensitive(pod.qos) and pod.cpu.usage is not None]
    return sum(measured) if measured else None
