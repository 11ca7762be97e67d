"""The demo on this machine: groups, workloads, load, agent, and the stages in their order.

In: the bounded group, the stages, where to show. Out: what was measured and the proof that all was put back. Everything
that was started is ended and removed, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from qosmanager.demo.groups import Groups
from qosmanager.demo.processes import STARTUP, Agent, Load, ProcessError, Service, busy_seconds, cpu_seconds, end, start
from qosmanager.demo.recording import Frame
from qosmanager.demo.story import ALONE, MANAGED, SETTLE, Interrupted, Measured, Now, Proof, Stage, percentile, proof
from qosmanager.demo.watch import Watch
from qosmanager.model.count import counted

MEMORY = 1024**3
CRUNCHERS = 3
FULL_AFTER = 0.6  # share of a stage after which the growing pod would have all the memory
MAX_GROWTH = 400.0  # MiB/s
SLO = 20.0  # ms
TICK = 0.25
RECENT = 5.0  # seconds of latencies behind the figures on the screen
OTHERS_MATTER = 0.05  # share of the CPUs used by others above which the figures are called unreliable
_LIFE = 900.0  # seconds after which any process of the demo ends by itself
BETWEEN = "between"  # requests of no stage: while processes start, and until the queue of the stage before is worked off
LS, BATCH, GROWER = "api", "batch", "batch/grow"

CONFIG = """\
qosManager:
  syncPeriod: 500ms
  hysteresis: {hold: 2s}
  memoryEvict: {terminationTimeout: 5s}
"""
SETTINGS = "shortened: syncPeriod 500ms, hysteresis.hold 2s, terminationTimeout 5s"
WORKLOADS = """\
workloads:
- {{name: api, qos: LS, cgroup: "{group}/api", priority: 9000, requests: {{cpu: 1, memory: 128Mi}}, slo: {{p99: {slo:g}ms}},
   latency: {{prometheus: "http://127.0.0.1:{port}/metrics", histogram: http_request_duration_seconds}}}}
- {{name: batch, qos: BE, cgroup: "{group}/batch/*", priority: 3000}}
"""


class Outcome(Struct, frozen=True, kw_only=True):
    """What the demo has to say at its end."""

    measured: tuple[Measured, ...]
    proof: Proof
    notes: list[str]
    frames: tuple[Frame, ...]


class LiveDemo:
    """One run. `show` is told of every moment; `stopping` tells whether to end; the agent records its cycles in `record`, if given."""

    def __init__(self, groups: Groups, show: Callable[[Now], None], stopping: Callable[[], bool], record: Path | None) -> None:
        self._record = record
        self._groups = groups
        self._show = show
        self._stopping = stopping
        self._directory = Path(tempfile.mkdtemp(prefix=f"{groups.name}-"))
        self._ending = contextlib.ExitStack()
        self._ending.callback(groups.remove)
        self._ending.callback(shutil.rmtree, self._directory, ignore_errors=True)
        self._measured: list[Measured] = []
        self._history: deque[float | None] = deque(maxlen=30)
        self._window: deque[tuple[float, list[float]]] = deque()
        self._trouble: list[str] = []
        self._before: dict[str, str] = {}
        self._during: dict[str, str] = {}
        self._watch: Watch | None = None
        self._batch: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def run(self, story: tuple[Stage, ...]) -> Outcome:
        """Run the stages. Raises Interrupted, ProcessError, OSError; leaving the context then cleans up."""
        for child, parent in ((LS, False), (BATCH, True)):
            self._groups.add(child, parent=parent)
        service = Service(self._groups, LS, _LIFE)
        self._ending.callback(service.stop)
        self._load = Load(service.port, _LIFE)
        self._ending.callback(self._load.stop)
        self._warm_up(story[0])
        part = ALONE
        for index, stage in enumerate(story, 1):
            if stage.part != part:
                part = stage.part
                self._load.stage(BETWEEN, story[0].rate)
                if part == MANAGED:
                    self._before = self._groups.values()
                    self._manage(service.port)
                else:
                    self._start_batch()
                self._wait(SETTLE)
            if stage.grow:
                self._grow(stage)
            self._measure(stage, index, len(story))
            if stage.grow and part != MANAGED:
                self._groups.drop(GROWER)
            self._during |= self._groups.values()
        notes = self._notes()
        self._load.drain()
        frames = self._watch.frames if self._watch else []
        self._stop_agent()
        notes += self._trouble
        return Outcome(
            measured=tuple(self._with_latencies(each) for each in self._measured),
            proof=proof(self._before, self._during, self._groups.values()),
            notes=notes,
            frames=tuple(frames),
        )

    def _warm_up(self, stage: Stage) -> None:
        self._load.stage(BETWEEN, stage.rate)
        self._wait(SETTLE)

    def _start_batch(self) -> None:
        for number in range(1, CRUNCHERS + 1):
            self._groups.add(f"{BATCH}/crunch-{number}")
            self._start("crunch", f"{BATCH}/crunch-{number}")
        self._wait(SETTLE)
        # Without batch at work the comparison would compare nothing.
        if any(process.poll() is not None for process in self._batch):
            raise ProcessError("the demo's batch work ended at once; what it said is above")

    def _grow(self, stage: Stage) -> None:
        """Start the pod that would fill the memory a little after the middle of the stage."""
        self._groups.add(GROWER)
        if self._watch is not None:
            self._before |= {file: value for file, value in self._groups.values().items() if f"/{GROWER}/" in file}
        rate = min(MAX_GROWTH, MEMORY / 2**20 / (stage.seconds * FULL_AFTER))
        self._start("grow", GROWER, "--rate", f"{rate:.0f}")

    def _start(self, kind: str, child: str, *options: str) -> None:
        process = start("batch", kind, "--seconds", str(_LIFE), *options, group=(self._groups, child))
        self._batch.append(process)
        self._ending.callback(end, process)

    def _manage(self, port: int) -> None:
        config, workloads = self._directory / "config.yaml", self._directory / "workloads.yaml"
        config.write_text(CONFIG, encoding="utf-8")
        workloads.write_text(WORKLOADS.format(group=self._groups.name, port=port, slo=SLO), encoding="utf-8")
        options = ["--config", str(config), "--workloads", str(workloads), "--node-cgroup", self._groups.name]
        options += ["--cgroup-root", str(self._groups.root)]
        options += ["--record", str(self._record.resolve())] if self._record is not None else []
        self._watch = Watch(Agent(self._directory, options))
        self._ending.callback(self._stop_agent)
        deadline = time.monotonic() + STARTUP
        while not self._watch.answers():
            if time.monotonic() > deadline:
                raise ProcessError(f"the agent has not answered within {STARTUP:.0f} s")
            self._wait(TICK)

    def _stop_agent(self) -> None:
        if self._watch is not None:
            watch, self._watch = self._watch, None
            self._trouble.extend(watch.stop())

    def _measure(self, stage: Stage, index: int, count: int) -> None:
        self._load.stage(stage.key, stage.rate)
        began = time.monotonic()
        cpu, others = self._cpu(), self._others()
        kills = self._groups.kernel_kills()
        watch = self._watch
        shown = (began, *cpu)
        ls_cores = be_cores = None
        while (passed := time.monotonic() - began) < stage.seconds:
            self._wait(min(TICK, stage.seconds - passed))
            now = (time.monotonic(), *self._cpu())
            if now[0] - shown[0] >= 1.0:
                ls_cores, be_cores = ((now[i] - shown[i]) / (now[0] - shown[0]) for i in (1, 2))
                shown = now
                self._take_latencies(now[0])
            if watch is not None:
                watch.look(stage)
            self._show(
                replace(
                    self._now(stage, index, count),
                    left=max(0.0, stage.seconds - (now[0] - began)),
                    ls_cores=ls_cores,
                    be_cores=be_cores,
                )
            )
        took = time.monotonic() - began
        after = self._cpu()
        killed = self._groups.kernel_kills()
        self._measured.append(
            Measured(
                part=stage.part,
                name=stage.name,
                key=stage.key,
                seconds=took,
                ls_cores=(after[0] - cpu[0]) / took,
                be_cores=(after[1] - cpu[1]) / took,
                other_cores=max(0.0, self._others() - others) / took,
                evictions=watch.new_evictions() if watch else (),
                kernel_kills=None if kills is None or killed is None else killed - kills,
            )
        )

    def _now(self, stage: Stage, index: int, count: int) -> Now:
        watch, recent = self._watch, self._recent()
        return Now(
            stage=stage,
            index=index,
            count=count,
            left=stage.seconds,
            settings=SETTINGS if watch else "",
            p50=percentile(recent, 50),
            p99=percentile(recent, 99),
            slo=SLO,
            history=tuple(self._history),
            status=watch.status if watch else None,
            decisions=watch.decisions if watch else (),
        )

    def _with_latencies(self, each: Measured) -> Measured:
        """Count the latencies when the last answers are in: a request belongs to the stage in which it was due."""
        latencies = self._load.latencies(each.key)
        return replace(
            each,
            requests=len(latencies),
            unanswered=self._load.unanswered(each.key),
            p50=percentile(latencies, 50),
            p99=percentile(latencies, 99),
        )

    def _cpu(self) -> tuple[float, float]:
        return self._groups.cpu_seconds(LS), self._groups.cpu_seconds(BATCH)

    def _others(self) -> float:
        """CPU time (s) that is neither the groups' nor that of the demo's own hands."""
        hands = [os.getpid(), self._load.process.pid, *([self._watch.agent.process.pid] if self._watch else [])]
        return busy_seconds() - self._groups.cpu_seconds("") - sum(cpu_seconds(pid) for pid in hands)

    def _take_latencies(self, now: float) -> None:
        recent = self._load.take_recent()
        self._window.append((now, recent))
        self._history.append(percentile(recent, 99))
        while self._window[0][0] < now - RECENT:
            self._window.popleft()

    def _recent(self) -> list[float]:
        return [value for _, values in self._window for value in values]

    def _notes(self) -> list[str]:
        notes = [f"evicted by {eviction}" for stage in self._measured for eviction in stage.evictions]
        if self._watch is not None:
            with contextlib.suppress(OSError):
                seconds, lived, memory = self._watch.agent.cost()
                notes.append(f"the agent itself: {seconds / lived:.3f} cores over {lived:.0f} s, {memory / 2**20:.0f} MiB")
        others = max(stage.other_cores for stage in self._measured)
        cpus = os.cpu_count() or 1
        if others > OTHERS_MATTER * cpus:
            notes.append(f"other processes used up to {others:.2f} of {counted(cpus, 'CPU')}: run it again on a calm machine")
        return notes

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            if self._stopping():
                raise Interrupted
            left = deadline - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(TICK, left))
