"""A program for tests: follows the pods of a node while its watches are dropped, and tells what it holds.

python tests/dropped_watches.py KUBECONFIG COUNT    prints, every hundred watches, "watches rss-in-KiB descriptors pods"
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

from qosmanager.kubernetes.access import from_kubeconfig
from qosmanager.kubernetes.http_api import HttpApi
from qosmanager.kubernetes.watch import PodWatch
from qosmanager.linux.clock import LinuxClock

EVERY = 100


def held() -> tuple[int, int]:
    """KiB and descriptors of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024, len(os.listdir("/proc/self/fd"))


def follow(kubeconfig: Path, count: int) -> None:
    """Begin a new watch whenever one ends, without waiting."""
    watch = PodWatch(HttpApi(from_kubeconfig(kubeconfig), LinuxClock()), "worker-1", LinuxClock(), random.random)
    for number in range(1, count + 1):
        watch.once()
        if number % EVERY == 0:
            rss, descriptors = held()
            print(number, rss, descriptors, len(watch.known.by_group()), flush=True)  # noqa: T201 - that is what it is for


if __name__ == "__main__":
    follow(Path(sys.argv[1]), int(sys.argv[2]))
