"""How long one collect takes: `python tests/bench/collect.py [PODS]`, as root on a machine with cgroups.

Makes pods of two containers each, half of them LS with quotas, below a group of its own, samples them once a second, prints milliseconds of
one sample (median, p95, largest), open descriptors and memory, and removes the groups.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time
from pathlib import Path

from qosmanager.collect.kubepods import Kubepods
from qosmanager.collect.sampler import Sampler, Sources
from qosmanager.collect.states_informer import StatesInformer
from qosmanager.config.settings import Settings
from qosmanager.linux.cgroup import Hierarchies
from qosmanager.linux.cgroup_reader import CgroupReaders
from qosmanager.linux.cgroup_tree import CgroupTree
from qosmanager.linux.descriptor import allow_many_descriptors
from qosmanager.linux.host import HostNode
from qosmanager.model.snapshot import PodLatency
from qosmanager.model.workload import Workload

ROOT = Path("/sys/fs/cgroup")
SAMPLES = 20


class SteadyClock:
    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()


class NoLatencies:
    def watch(self, workloads: tuple[Workload, ...]) -> None: ...

    def latest(self, key: str) -> PodLatency | None: ...


def groups(base: str, pods: int) -> list[str]:
    found = [base, f"{base}/kubepods", f"{base}/kubepods/burstable", f"{base}/kubepods/besteffort"]
    for number in range(pods):
        tier = "burstable" if number % 2 else "besteffort"
        pod = f"{base}/kubepods/{tier}/pod{number:08x}-0000-0000-0000-000000000000"
        found += [pod, f"{pod}/{number:063x}a", f"{pod}/{number:063x}b"]
    return found


def controllers() -> list[Path]:
    mounts = [ROOT / name for name in ("cpu", "cpuacct", "cpuset", "memory", "blkio", "unified")]
    return [mount for mount in mounts if (mount / "cgroup.procs").exists()] or [ROOT]


def make(paths: list[str]) -> None:
    for mount in controllers():
        for path in paths:
            (mount / path).mkdir(exist_ok=True)
    for path in paths[4:]:
        quota = ROOT / "cpu" / path / "cpu.cfs_quota_us"
        if quota.exists() and "burstable" in path:
            quota.write_text("200000" if path.count("/") == 3 else "100000", encoding="ascii")


def remove(paths: list[str]) -> None:
    for mount in controllers():
        for path in reversed(paths):
            (mount / path).rmdir()


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


def measure(base: str) -> None:
    hierarchies = Hierarchies.probe(ROOT)
    tree, readers = CgroupTree(hierarchies), CgroupReaders(hierarchies)
    informer = StatesInformer(tree, (Kubepods(tree, readers, f"{base}/kubepods"),))
    sources = Sources(
        clock=SteadyClock(), node=HostNode(), groups=readers, informer=informer, latencies=NoLatencies(), own_limit=lambda _: None
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sampler = Sampler(sources, Settings())
    snapshot, _ = sampler.sample()
    took = []
    for _ in range(SAMPLES):
        begin = time.perf_counter()
        sampler.sample()
        took.append((time.perf_counter() - begin) * 1000)
        time.sleep(1)
    took.sort()
    say(f"{len(snapshot.pods)} pods: median {statistics.median(took):.2f} ms, p95 {took[int(0.95 * len(took))]:.2f}, max {took[-1]:.2f}")
    say(f"descriptors {len(os.listdir('/proc/self/fd'))}, history {sampler.cache.size() / 1024:.0f} KiB")
    say(f"rss grew by {(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024:.1f} MiB")


def main() -> None:
    allow_many_descriptors()
    base = f"qosm-bench-{os.getpid()}"
    paths = groups(base, int(sys.argv[1]) if len(sys.argv) > 1 else 110)
    make(paths)
    try:
        measure(base)
    finally:
        remove(paths)


if __name__ == "__main__":
    main()
