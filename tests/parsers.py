"""Every parser of a text from outside in one form, for property tests and fuzzing: bytes in, a value or a documented refusal out.

`Parsers(directory)` keeps the files that some of them read there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from proc_tree import DISKSTATS, MEMINFO, NET_DEV, PRESSURE, STAT, VMSTAT
from qosmanager.collect.readings import GroupGoneError
from qosmanager.config.parse import load_settings
from qosmanager.documents.files import decode
from qosmanager.documents.problem import DocumentError
from qosmanager.documents.snapshot import load_snapshot
from qosmanager.documents.workloads import load_workloads
from qosmanager.execute.dialect import parse_quota, parse_us
from qosmanager.linux.cgroup import Hierarchies
from qosmanager.linux.cgroup_reader import CgroupReaders
from qosmanager.linux.flat_keyed import required
from qosmanager.linux.histogram import HistogramReader, quantile
from qosmanager.linux.journal import FileJournal
from qosmanager.linux.kubelet import KubeletCpus
from qosmanager.linux.pause_file import PauseFile
from qosmanager.linux.pressure import parse_stall
from qosmanager.linux.procfs import parse_diskstats, parse_loadavg, parse_meminfo, parse_net_dev, parse_scans, parse_stat
from qosmanager.linux.topology import read_topology
from qosmanager.model.cpu_list import parse_cpus
from qosmanager.model.workload import CgroupFile
from qosmanager.ports import JournalError

HISTOGRAM = """# TYPE rq histogram
rq_bucket{path="/a,b",le="0.1"} 5
rq_bucket{le="0.5",path="/\\"x"} 9.5e1
rq_bucket{le="+Inf"} 101
rq_sum 12.5
"""
SETTINGS = """qosManager:
  preset: latency-first
  syncPeriod: 1s
  cpuPressure: {low: 40, critical: 90}
  cpuSuppress: {enabled: true, suppressRatio: {low: 1, high: 0.4}, policy: cpuset}
"""
WORKLOADS = """workloads:
- {name: api, qos: LS, cgroup: "system.slice/nginx.service", requests: {cpu: 2, memory: 4Gi}, slo: {p99: 50ms},
   latency: {prometheus: "http://127.0.0.1:9113/metrics", histogram: h}}
- {name: batch, qos: BE, cgroup: "batch.slice/*", priority: 3000, grace: 5s}
"""
SNAPSHOT = """time: 2026-11-11T20:00:16Z
node: {cpus: 4, cpu_usage: 1, memory_total: 8Gi, topology: [{cpu: 0}]}
pods:
- {name: a, qos: LS, created: 2026-11-11T20:00:16Z, cpu: {limit: 2, throttled: 0.1}, latency: {p99: 5ms, slo: 9ms}}
- {name: b, qos: BE, memory: {rss: 1Gi}, exclusive_cpus: [1]}
state: {suppress_level: HIGH, bursts: [{pod: default/a, base_limit: 2, limit: 3}]}
"""
JOURNAL = json.dumps(
    {
        "version": 1,
        "record": {
            "boot_id": "b",
            "entries": [
                {
                    "file": {"controller": "cpu", "group": "be", "name": "cpu.max"},
                    "inode": 7,
                    "original": "max 100000",
                    "written": ["50000 100000"],
                }
            ],
            "lease_until": 5.0,
        },
    }
)
CHECKPOINT = json.dumps({"policyName": "static", "defaultCpuSet": "0-1", "entries": {"uid": {"app": "2-3"}}})
PAUSE = json.dumps({"boot_id": "b", "began": 1.0, "ends": 9.0, "until": 9.0, "by": "me"})
GROUP = "g"


@dataclass(frozen=True)
class Parser:
    """`parse` takes any bytes; what it may raise for bytes that it does not understand is `refuses`."""

    name: str
    parse: Callable[[bytes], object]
    seed: str
    refuses: tuple[type[Exception], ...] = field(default=(ValueError,))

    def check(self, data: bytes) -> None:
        """Parse. Any exception but a refusal gets out; so does a number that is none."""
        try:
            value = self.parse(data)
        except self.refuses:
            return
        if not all(math.isfinite(number) for number in _floats(value)):
            raise AssertionError(f"{self.name}: {value!r} of {data[:200]!r}")


class _Boot:
    id = "b"

    def time(self) -> float:
        return 2.0


class Parsers:
    """All of them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.all = (*self._procfs(), *self._texts(), *self._groups(1), *self._groups(2), *self._files(), *self._documents())

    def _procfs(self) -> Iterator[Parser]:
        yield Parser("/proc/stat", parse_stat, STAT)
        yield Parser("/proc/meminfo", parse_meminfo, MEMINFO)
        yield Parser("/proc/loadavg", parse_loadavg, "1.25 0.50 0.10 1/100 4242\n")
        yield Parser("/proc/vmstat", parse_scans, VMSTAT)
        yield Parser("/proc/diskstats", parse_diskstats, DISKSTATS)
        yield Parser("/proc/net/dev", parse_net_dev, NET_DEV)
        yield Parser("pressure some", parse_stall, PRESSURE)
        yield Parser("pressure full", lambda data: parse_stall(data, b"full"), PRESSURE)
        yield Parser("memory.stat", lambda data: required(data, b"anon"), "anon 5\nfile 7\nanon_thp 1\n")

    def _texts(self) -> Iterator[Parser]:
        def quota(data: bytes) -> object:
            return parse_quota(CgroupFile("cpu", GROUP, "cpu.max"), data.decode("utf-8", "replace")).period

        def histogram(data: bytes) -> object:
            counts = HistogramReader("rq").read(data.decode("utf-8", "replace"))
            return quantile(0.99, counts)

        yield Parser("CPU list", lambda data: parse_cpus(data.decode("utf-8", "replace")), "0-3,8,10-11\n")
        yield Parser("cpu.cfs_quota_us", lambda data: _number(parse_us(CgroupFile("cpu", GROUP, "cpu.cfs_quota_us"), _text(data))), "-1\n")
        yield Parser("cpu.max", quota, "50000 100000\n")
        yield Parser("histogram", histogram, HISTOGRAM)

    def _groups(self, version: int) -> Iterator[Parser]:
        """What the readers of groups make of each file."""
        root = self._directory / f"v{version}"
        names = {
            1: ("cpu", "cpuacct", "cpuset", "memory", "blkio", "freezer"),
            2: ("",),
        }[version]
        for name in names:
            (root / name / GROUP).mkdir(parents=True, exist_ok=True)
            (root / name / "cgroup.procs").write_text("")
        if version == 2:
            (root / "cgroup.controllers").write_text("cpu cpuset memory io\n")
        readers = CgroupReaders(Hierarchies.probe(root))
        files = _V1 if version == 1 else _V2
        for name, (seed, _) in files.items():
            (root / _place(version, name) / name).write_text(seed)
        for name, (seed, reading) in files.items():
            yield Parser(f"v{version} {name}", self._reading(readers, root / _place(version, name) / name, reading), seed, _REFUSED_READING)

    def _reading(self, readers: CgroupReaders, path: Path, reading: str) -> Callable[[bytes], object]:
        def parse(data: bytes) -> object:
            path.write_bytes(data)
            group = readers.open(GROUP)
            try:
                return _number(getattr(group, reading)())
            finally:
                group.close()

        return parse

    def _files(self) -> Iterator[Parser]:
        """Files of our own, and of kubelet."""

        def journal(data: bytes) -> object:
            state = self._directory / "state"
            state.mkdir(exist_ok=True)
            for old in state.iterdir():
                old.unlink()
            (state / "journal.json").write_bytes(data)
            return FileJournal(state).load() and None

        def kubelet(data: bytes) -> object:
            path = self._directory / "cpu_manager_state"
            path.write_bytes(data)
            return KubeletCpus(path).grants() and None

        def pause(data: bytes) -> object:
            state = self._directory / "paused"
            state.mkdir(exist_ok=True)
            (state / "pause.json").write_bytes(data)
            return PauseFile(state, _Boot()).current() and None

        def topology(data: bytes) -> object:
            base = self._directory / "sys/devices/system/cpu/cpu0/topology"
            base.mkdir(parents=True, exist_ok=True)
            (base.parent.parent / "online").write_bytes(data)
            (base / "core_cpus_list").write_bytes(data)
            return read_topology(self._directory / "sys")[:0]

        yield Parser("journal", journal, JOURNAL, (JournalError,))
        yield Parser("kubelet's checkpoint", kubelet, CHECKPOINT, ())
        yield Parser("pause", pause, PAUSE, ())
        yield Parser("topology", topology, "0-3\n")

    def _documents(self) -> Iterator[Parser]:
        for name, load, seed in (
            ("configuration", load_settings, SETTINGS),
            ("workloads", load_workloads, WORKLOADS),
            ("snapshot", load_snapshot, SNAPSHOT),
        ):
            yield Parser(name, lambda data, load=load: load(decode(data, "f.yaml"), "f.yaml") and None, seed, (DocumentError,))


_REFUSED_READING = (ValueError, OSError, GroupGoneError)
_V1 = {
    "cpu.stat": ("nr_periods 5\nnr_throttled 2\nthrottled_time 9\n", "throttling"),
    "cpu.cfs_quota_us": ("50000\n", "quota"),
    "cpu.cfs_period_us": ("100000\n", "quota"),
    "cpu.shares": ("1024\n", "weight"),
    "cpuacct.usage": ("123456789\n", "cpu"),
    "cpuset.cpus": ("0-3\n", "cpuset"),
    "memory.stat": ("total_rss 5\ntotal_shmem 7\ntotal_swap 1\n", "held_memory"),
    "memory.limit_in_bytes": ("9223372036854771712\n", "memory_limit"),
    "blkio.throttle.io_service_bytes_recursive": ("254:0 Read 1\n254:0 Write 2\nTotal 3\n", "io"),
}
_V2 = {
    "cpu.stat": ("usage_usec 7\nnr_periods 5\nnr_throttled 2\nthrottled_usec 9\n", "cpu"),
    "cpu.max": ("50000 100000\n", "quota"),
    "cpu.weight": ("100\n", "weight"),
    "cpuset.cpus": ("0-3\n", "cpuset"),
    "memory.stat": ("anon 5\nfile 7\nshmem 3\n", "held_memory"),
    "memory.swap.current": ("5\n", "held_memory"),
    "memory.max": ("max\n", "memory_limit"),
    "io.stat": ("254:0 rbytes=1 wbytes=2 rios=3\n", "io"),
    "cpu.pressure": (PRESSURE, "cpu_stall"),
    "memory.pressure": (PRESSURE, "stall_averages"),
    "io.pressure": (PRESSURE, "stall_averages"),
}


def _place(version: int, name: str) -> str:
    return f"{name.partition('.')[0]}/{GROUP}" if version == 1 else GROUP


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _number(value: object) -> object:
    """Infinity is how "no limit" reads."""
    return None if value == math.inf else value


def _floats(value: object) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _floats(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _floats(item)
