"""One run on real cgroups: groups, load, a treatment, and what it came to."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

import yaml
from aside import Aside
from load import Histogram, Latencies, make_file

from real_groups import RealGroups

if TYPE_CHECKING:
    from situations import Service, Situation, Treatment

LOAD = Path(__file__).with_name("load.py")
PERIOD = 100_000  # us
BATCH = "be/job"
GROWING = "be/grow"
GROW_STEP, GROW_EVERY = 12 << 20, 0.1
FILE = 64 << 20
PATIENCE = 2.0
BEFORE = 2.0  # seconds in which the services run alone, and the agent starts: a service that has just begun is no surge


@dataclass
class Result:
    """One run: milliseconds; batch's CPU in cores, and its rounds of work a second, which go up and down with the speed of a shared host.
    `outside`: CPU of others on the machine, in cores, of which neither the agent nor the kernel's own threads are (they serve the disk)."""

    situation: str
    treatment: str
    p50: float
    p99: float
    worst: float
    requests: int
    be_cores: float
    rounds: float
    outside: float
    agent_cores: float = 0.0
    oom_kills: int = 0
    evictions: int = 0
    moved: float | None = None  # MB a second, in the situation that is about a disk
    limits: list[float] = field(default_factory=list)

    def plain(self) -> dict:
        return asdict(self)


class Node:
    """The groups of one run, removed by `close`."""

    def __init__(self, situation: Situation, treatment: Treatment, warm_up: float) -> None:
        self.situation, self.treatment, self.warm_up = situation, treatment, max(warm_up, situation.settling)
        self.services = [each for each in situation.services if each.judged or not treatment.by_itself]
        self.cpus = len(os.sched_getaffinity(0))
        self.groups = RealGroups()
        self.aside = Aside(self.groups)
        # On a disk; /tmp is in memory on many machines.
        self.directory = tempfile.TemporaryDirectory(prefix="qosm-slo-", dir="/var/tmp")
        self.here = Path(self.directory.name)
        self.agent: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.agent is not None and self.agent.poll() is None:
            self.agent.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.agent.wait(20)
            self.agent.kill()
            self.agent.wait()
        self.groups.remove()
        self.aside.close()
        self.directory.cleanup()

    def run(self) -> Result:
        situation, treatment, groups = self.situation, self.treatment, self.groups
        if situation.memory:
            groups.put(groups.top, "memory.limit_in_bytes", str(situation.memory))
        for service in self.services:
            groups.add(service.name)
            if service.limit and not treatment.by_itself:
                self._quota(service.name, service.limit)
        for name in ("be", BATCH, GROWING):
            groups.add(name)
        self._settle(treatment)
        self._prepare_metrics()
        self._prepare_files()
        begin = time.monotonic() + 0.7  # the workers are ready by then
        measured = begin + BEFORE + self.warm_up
        end = measured + situation.seconds
        outs = {service.name: self._serve(service, begin) for service in self.services}
        if treatment.agent is not None:
            time.sleep(begin - time.monotonic())
            self._start_agent()
        time.sleep(max(0.0, begin + BEFORE - time.monotonic()))
        if treatment.batch:
            self._batch(end, measured + 2)
        time.sleep(max(0.0, measured - time.monotonic()))
        before = self._look()
        limits = []
        while time.monotonic() < end:
            time.sleep(0.1)
            limits.append(self._limit())
        after = self._look()
        time.sleep(PATIENCE / 4)
        judged = [path for service in self.services if service.judged for path in outs[service.name]]
        self._wait(judged, end + PATIENCE + 3)
        late = sorted(seconds * 1000 for path in judged for due, seconds in Latencies.read(path) if due >= measured)
        took = after["time"] - before["time"]
        spent = {name: (after[name] - before[name]) / took for name in ("machine", "kernel", "node", "be", "agent", "own", "rounds")}
        log = (self.here / "agent.log").read_text() if treatment.agent is not None else ""
        return Result(
            situation=situation.name,
            treatment=treatment.name,
            p50=late[len(late) // 2],
            p99=late[min(len(late) - 1, int(len(late) * 0.99))],
            worst=late[-1],
            requests=len(late),
            be_cores=spent["be"],
            rounds=spent["rounds"],
            outside=max(0.0, spent["machine"] - spent["kernel"] - spent["node"] - spent["agent"] - spent["own"]),
            agent_cores=spent["agent"],
            moved=spent["rounds"] / 1e6 if situation.disk else None,
            oom_kills=int(after["oom"] - before["oom"]),
            evictions=log.count("MemoryEvict evicted="),
            limits=limits[::5],
        )

    def _settle(self, treatment: Treatment) -> None:
        groups, parent = self.groups, self.groups.path("be")
        if treatment.weight:
            groups.put(parent, "cpu.shares", "2")
        if treatment.idle:
            groups.put(parent, "cpu.idle", "1")
        if treatment.quota is not None:
            self._quota("be", treatment.quota)
        if treatment.memory is not None and self.situation.memory:
            groups.put(parent, "memory.limit_in_bytes", str(int(self.situation.memory * treatment.memory)))
        if treatment.disk is not None:
            device = os.stat(self.here).st_dev
            for way in ("read", "write"):  # on v1 a limit does not hold the groups below
                limit = f"{os.major(device)}:{os.minor(device)} {treatment.disk}"
                groups.put(self.groups.path(BATCH), f"blkio.throttle.{way}_bps_device", limit)
        if treatment.burst:
            for service in self.services:
                if service.limit:
                    groups.put(groups.path(service.name), "cpu.cfs_burst_us", str(int(service.limit * self.cpus * PERIOD)))

    def _quota(self, name: str, share: float) -> None:
        self.groups.put(self.groups.path(name), "cpu.cfs_quota_us", str(int(share * self.cpus * PERIOD)))

    def _limit(self) -> float:
        """Cores that the kernel lets BE use; -1: no limit."""
        quota = int(self.groups.text(self.groups.path("be"), "cpu.cfs_quota_us"))
        return -1.0 if quota < 0 else quota / PERIOD

    def _prepare_files(self) -> None:
        """What the service reads and what batch moves, each process a file of its own."""
        if self.situation.disk:
            for number in range(self.cpus):
                for service in self.services:
                    make_file(self.here / f"{service.name}-{number}.data", FILE)
            for place in range(2 * self.cpus):
                make_file(self.here / f"{place}.data", FILE)

    def _prepare_metrics(self) -> None:
        """A histogram for each service; those that have an objective answer the agent, from within their group."""
        for service in self.services:
            (self.here / f"{service.name}.histogram").write_bytes(bytes(Histogram.LENGTH * self.cpus))
            if service.slo and self.treatment.agent is not None:
                given = {"histogram": str(self.here / f"{service.name}.histogram"), "port": str(self.here / f"{service.name}.port")}
                given["end"] = time.monotonic() + 120
                self._start(service.name, "metrics", given)
                self._wait([Path(given["port"])], time.monotonic() + 10)

    def _start(self, group: str, program: str, given: dict) -> None:
        self.groups.start(group, sys.executable, str(LOAD), program, json.dumps(given))

    def _serve(self, service: Service, begin: float) -> list[Path]:
        """A worker for each CPU; what is before the measured time runs at the plan's first share."""
        plan = [[0.0, service.plan[0][1]], *([second + BEFORE + self.warm_up, share] for second, share in service.plan[1:])]
        outs = []
        for number in range(self.cpus):
            out = self.here / f"{service.name}-{number}"
            given = {
                "begin": begin,
                "plan": plan,
                "seed": f"{service.name}-{number}",
                "resident": service.resident // self.cpus,
                "shape": service.shape,
                "work": service.work,
                "file": f"{out}.data" if self.situation.disk else None,
                "out": str(out),
                "histogram": str(self.here / f"{service.name}.histogram"),
                "place": number,
                "patience": PATIENCE,
            }
            self._start(service.name, "serve", given)
            outs.append(out)
        return outs

    def _batch(self, end: float, grows: float) -> None:
        jobs, program = 2 * self.cpus, "move" if self.situation.disk else "batch"
        counts = self.here / "counts"
        counts.write_bytes(bytes(8 * jobs))
        for place in range(jobs):
            self._start(BATCH, program, {"end": end + 1, "counts": str(counts), "place": place, "file": str(self.here / f"{place}.data")})
        if self.situation.growing:
            self._start(GROWING, "grow", {"begin": grows, "end": end + 1, "step": GROW_STEP, "every": GROW_EVERY})

    def _start_agent(self) -> None:
        treatment, top = self.treatment, self.groups.top
        assert treatment.agent is not None
        workloads = []
        for service in self.services:
            workload = {
                "name": service.name,
                "qos": "LS",
                "cgroup": f"{top}/{service.name}",
                "requests": {"cpu": service.request * self.cpus},
            }
            if service.limit:
                workload["limits"] = {"cpu": service.limit * self.cpus}
            if service.slo:
                port = (self.here / f"{service.name}.port").read_text()
                workload["slo"] = {"p99": f"{service.slo * 1000:g}ms"}
                workload["latency"] = {"prometheus": f"http://127.0.0.1:{port}/metrics", "histogram": "request_seconds"}
            workloads.append(workload)
        workloads.append({"name": "batch", "qos": "BE", "cgroup": f"{top}/be/*"})
        (self.here / "workloads.yaml").write_text(yaml.safe_dump({"workloads": workloads}))
        (self.here / "config.yaml").write_text(yaml.safe_dump({"qosManager": treatment.agent}))
        with (self.here / "agent.log").open("wb") as log:
            self.agent = subprocess.Popen(
                [
                    *(sys.executable, "-m", "qosmanager", "run", "--config", str(self.here / "config.yaml")),
                    *("--workloads", str(self.here / "workloads.yaml"), "--node-cgroup", top),
                    *("--state-dir", str(self.here / "state"), "--listen", "off"),
                ],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 20
        while "cycle number=" not in (self.here / "agent.log").read_text():
            if time.monotonic() > deadline or self.agent.poll() is not None:
                raise SystemExit(f"the agent does not run:\n{(self.here / 'agent.log').read_text()}")
            time.sleep(0.05)

    def _look(self) -> dict[str, float]:
        rounds = 0
        if self.treatment.batch:
            counts = (self.here / "counts").read_bytes()
            rounds = sum(struct.unpack(f"<{len(counts) // 8}q", counts))
        return {
            "time": time.monotonic(),
            "machine": _machine(),
            "kernel": _kernel_threads(),
            "node": self._used(""),
            "be": self._used("be"),
            "agent": _process(self.agent.pid) if self.agent is not None else 0.0,
            "own": time.process_time(),
            "rounds": rounds,
            "oom": self._oom_kills(),
        }

    def _used(self, name: str) -> float:
        return int(self.groups.text(self.groups.path(name), "cpuacct.usage")) / 1e9

    def _oom_kills(self) -> int:
        if not self.situation.memory:
            return 0
        killed = 0
        for name in ("", "be", BATCH, GROWING, *(service.name for service in self.services)):
            with contextlib.suppress(OSError):
                lines = self.groups.text(self.groups.path(name), "memory.oom_control").splitlines()
                killed += sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
        return killed

    @staticmethod
    def _wait(paths: list[Path], deadline: float) -> None:
        while not all(path.exists() for path in paths):
            if time.monotonic() > deadline:
                raise SystemExit("a service did not end: was it killed?")
            time.sleep(0.05)


def _machine() -> float:
    """CPU seconds that the machine has used: not idle, not waiting for disks."""
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def _process(pid: int) -> float:
    return _spent(_stat(pid))


def _kernel_threads() -> float:
    """CPU seconds of the kernel's threads that run now: kthreadd's children."""
    total = 0.0
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            with contextlib.suppress(OSError):  # it may have ended
                words = _stat(int(each.name))
                total += _spent(words) if words[1] == "2" else 0.0
    return total


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def _spent(words: list[str]) -> float:
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
