"""What the agent costs: N pods of two containers with a process each, on real cgroups, a real `qosmanager run` beside them.

    python benchmarks/agent.py --pods 10 --pods 110 --pods 500 --seconds 60
    python benchmarks/agent.py --pods 110 --kubernetes          the pods are named by an API server on loopback, that of the tests

Prints a Markdown table: milliseconds of a cycle from collect to the last write (p50, p99), CPU of the whole agent in percent of one
core, resident memory. Needs root and writable cgroups. Makes its groups below one of its own and removes them.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from qosmanager.linux.cgroup import Hierarchies
from qosmanager.model.workload import CgroupFile

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "blkio", "freezer", "unified")
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Tree:
    """A kubelet-like tree (cgroupfs driver) below a group of this process's own."""

    def __init__(self, hierarchies: Hierarchies) -> None:
        self.hierarchies = hierarchies
        self.controllers = [name for name in CONTROLLERS if hierarchies.version(name) is not None]
        self.name = f"qosmanager-bench-{os.getpid()}"
        self.groups: list[str] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self.pods: list[tuple[str, str]] = []  # uid, tier

    def make(self, group: str) -> None:
        self.groups.append(group)
        for controller in self.controllers:
            os.makedirs(self.hierarchies.directory(controller, group), exist_ok=True)
            if self.hierarchies.version(controller) == 2:
                self.delegate(group)
            elif controller == "cpuset":
                above = os.path.dirname(group)
                for name in ("cpuset.mems", "cpuset.cpus"):
                    text = self.hierarchies.read(CgroupFile("cpuset", above, name))
                    self.hierarchies.write(CgroupFile("cpuset", group, name), text)

    def delegate(self, group: str) -> None:
        available = self.hierarchies.read(CgroupFile("unified", group, "cgroup.controllers")).split()
        for controller in {"cpu", "cpuset", "memory"}.intersection(available):
            self.hierarchies.write(CgroupFile("unified", group, "cgroup.subtree_control"), f"+{controller}")

    def pod(self, number: int) -> None:
        """Every third pod is BestEffort, the others are Burstable."""
        tier = "besteffort" if number % 3 == 2 else "burstable"
        uid = f"{number:08x}-0000-4000-8000-{os.getpid():012x}"
        self.pods.append((uid, tier))
        pod = f"{self.name}/kubepods/{tier}/pod{uid}"
        self.make(pod)
        for container in range(2):
            group = f"{pod}/{number:032x}{container:032x}"
            self.groups.append(group)
            for controller in self.controllers:
                os.makedirs(self.hierarchies.directory(controller, group), exist_ok=True)
            if self.hierarchies.version("cpuset") == 1:
                for name in ("cpuset.mems", "cpuset.cpus"):
                    text = self.hierarchies.read(CgroupFile("cpuset", pod, name))
                    self.hierarchies.write(CgroupFile("cpuset", group, name), text)
            # One process each, which does not fork: what the agent costs is measured, not what the pods do.
            process = subprocess.Popen(["sleep", "infinity"], start_new_session=True)
            self.processes.append(process)
            for controller in self.controllers:
                self.hierarchies.write(CgroupFile(controller, group, "cgroup.procs"), str(process.pid))

    def remove(self) -> None:
        for process in self.processes:
            os.killpg(process.pid, signal.SIGKILL)
        for process in self.processes:
            process.wait()
        for group in sorted(self.groups, key=len, reverse=True):
            for controller in self.controllers:
                for _ in range(100):
                    try:
                        os.rmdir(self.hierarchies.directory(controller, group))
                        break
                    except FileNotFoundError:
                        break
                    except OSError:
                        time.sleep(0.02)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def rss(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def get(url: str) -> dict[str, object]:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return json.load(answer)


class Alone:
    """No cluster."""

    def join(self, tree: Tree, directory: Path, stack: ExitStack) -> list[str]:  # noqa: ARG002 - as `Loopback`
        return []


class Loopback:
    """A cluster that names the pods, each with what a real one's object has beside the few fields that matter."""

    def join(self, tree: Tree, directory: Path, stack: ExitStack) -> list[str]:
        sys.path.append(str(Path(__file__).parents[1] / "tests"))
        from loopback_api.objects import NODE, node, pod  # noqa: PLC0415
        from loopback_api.server import LoopbackApi  # noqa: PLC0415

        server = stack.enter_context(LoopbackApi())
        server.store.create("nodes", node())
        for number, (uid, tier) in enumerate(tree.pods):
            qos, request = ("BE", {}) if tier == "besteffort" else ("LS", {"requests": {"cpu": "1"}})
            labels, rest = {"koordinator.sh/qosClass": qos}, {"rest": "x" * 8000}
            server.store.create("pods", pod(f"p-{number}", uid=uid, labels=labels, annotations=rest, resources=request))
        kubeconfig = server.write_kubeconfig(directory / "kubeconfig")
        return ["--kubernetes", "--kubeconfig", str(kubeconfig), "--node-name", NODE, "--pods-from", "api"]


def measure(pods: int, seconds: float, warm_up: float, cluster: Alone | Loopback) -> str:
    tree = Tree(Hierarchies.probe(ROOT))
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        log = Path(directory, "agent.log")
        try:
            for group in ("", "/kubepods", "/kubepods/burstable", "/kubepods/besteffort"):
                tree.make(tree.name + group)
            for number in range(pods):
                tree.pod(number)
            more = cluster.join(tree, Path(directory), stack)
            with log.open("wb") as output:
                agent = subprocess.Popen(
                    [sys.executable, "-m", "qosmanager", "run", "--state-dir", f"{directory}/state", "--listen", "127.0.0.1:0", *more],
                    stderr=output,
                    stdout=output,
                )
            try:
                return run(agent, log, pods, seconds, warm_up)
            finally:
                agent.send_signal(signal.SIGTERM)
                agent.wait(30)
        finally:
            tree.remove()


def run(agent: subprocess.Popen[bytes], log: Path, pods: int, seconds: float, warm_up: float) -> str:
    time.sleep(warm_up)
    text = log.read_text()
    if agent.poll() is not None or "http=" not in text:
        raise SystemExit(f"the agent did not start:\n{text[-2000:]}")
    url = text.split("http=")[1].split()[0]
    seen = get(f"{url}/status")
    if len(seen["pods"]) != pods:  # type: ignore[arg-type]
        raise SystemExit(f"the agent sees {len(seen['pods'])} pods of {pods}")  # type: ignore[arg-type]
    before, began = cpu_seconds(agent.pid), time.monotonic()
    time.sleep(seconds)
    spent = (cpu_seconds(agent.pid) - before) / (time.monotonic() - began)
    # The log's own cycle lines hold each cycle's time; the first ones warm up.
    lines = [line for line in log.read_text().splitlines() if " cycle " in line and " ms=" in line]
    totals = [float(line.split(" ms=")[1].split()[0]) for line in lines][int(warm_up) :]
    p99 = statistics.quantiles(totals, n=100, method="inclusive")[98]
    return (
        f"| {pods} | {len(totals)} | {statistics.median(totals):.2f} | {p99:.2f} | {max(totals):.2f} "
        f"| {spent * 100:.2f} | {rss(agent.pid) / 1e6:.1f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, action="append", help="how many pods; may be given more than once")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--warm-up", type=float, default=15.0)
    parser.add_argument("--kubernetes", action="store_true", help="have the pods named by an API server")
    arguments = parser.parse_args()
    cluster = Loopback() if arguments.kubernetes else Alone()
    print("| pods | cycles | cycle p50 ms | cycle p99 ms | cycle max ms | agent CPU, percent of a core | agent RSS, MB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for pods in arguments.pods or [10, 110, 500]:
        print(measure(pods, arguments.seconds, arguments.warm_up, cluster), flush=True)


if __name__ == "__main__":
    main()
