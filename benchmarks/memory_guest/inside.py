"""Runs in the guest: under each treatment each situation, so many times; a line of JSON for each run on the second serial port.

Arguments: number of runs, names of treatments with commas between, names of situations (all without).
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from memory_guest.actors import GROUPS, Process, Service, take
from memory_guest.situations import SITUATIONS, Situation

PORT = Path("/dev/ttyS1")
DISK = next(path for path in ("/dev/ubda", "/dev/nvme0n1", "/bin/busybox") if Path(path).exists())
LATE = 0.45  # of the memory is available when the batch process begins to take it at its rate
TEN = 0.1
LONGEST = 120.0
WORKLOADS = """\
workloads:
- {name: api, qos: LS, cgroup: "ls"}
- {name: job, qos: BE, cgroup: "be/*"}
"""
COMMANDS = {
    "earlyoom": ["/usr/bin/earlyoom", "-r", "3600"],
    "nohang": [sys.executable, "/usr/sbin/nohang", "--monitor", "--config", "/etc/nohang/nohang.conf"],
    "qosmanager": [
        *(sys.executable, "-m", "qosmanager", "run", "--workloads", "/tmp/workloads.yaml", "--config", "/tmp/config.yaml"),
        *("--state-dir", "/run/qosmanager", "--listen", "off"),
    ],
}
READY = {"earlyoom": "sending SIGTERM", "nohang": "onitoring has started", "qosmanager": "cycle number=3"}


def meminfo(name: str) -> int:
    """In bytes."""
    return int(re.search(rf"^{name}: +(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)[1]) * 1024


def oom_kills() -> int:
    return int(re.search(r"^oom_kill (\d+)", Path("/proc/vmstat").read_text(), re.MULTILINE)[1])


class Keeper:
    """Who looks after the memory, started as its unit would start it; comes back when it looks."""

    def __init__(self, treatment: str) -> None:
        own = treatment == "qosmanager"
        (GROUPS / "daemon" / "cpu.weight").write_text("1000" if own else "100")
        (GROUPS / "daemon" / "memory.min").write_text("64M" if own else "0")
        self.log = Path(f"/tmp/{treatment}.log")
        self._process = Process("daemon", lambda: self._become(COMMANDS[treatment]), -998 if own else 0)
        until = time.monotonic() + LONGEST
        while READY[treatment] not in self.text() and self.alive() and time.monotonic() < until:
            time.sleep(0.2)
        if not self.alive():
            raise RuntimeError(f"{treatment} ended: {self.text()[-2000:]}")

    def _become(self, command: list[str]) -> None:
        file = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.execv(command[0], command)

    def text(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def alive(self) -> bool:
        return self._process.alive()

    def rss(self) -> int | None:
        return self._process.most_memory() if self.alive() else None

    def end(self) -> None:
        self._process.end(signal.SIGTERM, within=20.0)


def run(situation: Situation, service: Service) -> dict:
    """Let batch take memory until it is gone, or the service is, and a little longer."""
    total, kills = meminfo("MemTotal"), oom_kills()
    first = max(0, meminfo("MemAvailable") - int(LATE * total))
    calm = service.longest()
    service.forget()
    batch = Process("be/job", lambda: take(situation.rate, stubborn=situation.stubborn, first=first))
    began, points = time.monotonic(), []
    while batch.alive() and service.alive() and time.monotonic() - began < LONGEST:
        points.append((time.monotonic(), meminfo("MemAvailable")))
        time.sleep(0.004)
    gone = time.monotonic()
    time.sleep(0.5)
    result = {
        "total": total,
        **course(points, total, gone),
        "oom_kills": oom_kills() - kills,
        "service_alive": service.alive(),
        "batch_alive": batch.alive(),
        "worst": service.longest() if service.alive() else None,
        "calm": calm,
    }
    batch.end()
    return result


def course(points: list[tuple[float, int]], total: int, gone: float) -> dict:
    """What the samples of available memory say: bytes, bytes/s, seconds."""
    lowest_at, lowest = min(points, key=lambda point: point[1])
    fast = [point for point in points if point[1] < 0.4 * total and point[0] <= lowest_at]
    rate = (fast[0][1] - fast[-1][1]) / (fast[-1][0] - fast[0][0]) if len(fast) > 1 else None
    short = next((moment for moment, available in points if available < TEN * total), None)
    return {"lowest": lowest, "rate": rate, "after_ten": None if short is None else gone - short, "seconds": gone - points[0][0]}


def prepare() -> None:
    Path("/proc/self/oom_score_adj").write_text("-1000")
    for name in ("ls", "client", "daemon", "be/job"):
        (GROUPS / name).mkdir(parents=True)
    for name in ("", "be"):
        (GROUPS / name / "cgroup.subtree_control").write_text("+cpu +memory")
    Path("/tmp/workloads.yaml").write_text(WORKLOADS)
    Path("/tmp/config.yaml").write_text(f"qosManager: {os.environ.get('CONFIG', '{}')}\n")


def under(treatment: str, runs: int, situations: list[Situation], tell: Callable[[dict], None]) -> None:
    """All runs under one treatment. The service is the same for as long as it lives and has the right size."""
    service, total = None, meminfo("MemTotal")
    keeper = None if treatment == "nothing" else Keeper(treatment)
    for situation in situations:
        for number in range(runs):
            size = int(situation.service * total)
            if service is None or service.size != size or not service.alive():
                if service is not None:
                    service.end()
                service = Service(size, DISK)
            if keeper is not None and not keeper.alive():
                keeper = Keeper(treatment)
            time.sleep(1.0)
            row = {"run": number, "situation": situation.name, "treatment": treatment, **run(situation, service)}
            row["rss"] = keeper.rss() if keeper is not None else None
            if os.environ.get("SHOW"):
                row["log"] = keeper.text()[-6000:] if keeper is not None else ""
            tell(row)
    if service is not None:
        service.end()
    if keeper is not None:
        keeper.end()


def main(runs: int, treatments: str, names: list[str]) -> None:
    prepare()
    with PORT.open("w", encoding="ascii") as port:

        def tell(row: dict) -> None:
            port.write(json.dumps(row) + "\n")
            port.flush()

        for treatment in treatments.split(","):
            try:
                under(treatment, runs, [each for each in SITUATIONS if not names or each.name in names], tell)
            except RuntimeError as error:
                tell({"error": str(error)})


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
