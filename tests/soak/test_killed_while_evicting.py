"""kill -9 of the agent when its eviction has reached the API server and nobody has answered it yet: nobody else is evicted for the same
reason, and the audit log has a line of it."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

import pytest

from loopback_api.faults import Faults, Planned
from loopback_api.objects import NODE, node, pod
from loopback_api.server import LoopbackApi
from real_daemon import Daemon, wait
from real_groups import obstacle, real_groups

WHY_NOT = obstacle()
pytestmark = [pytest.mark.soak, pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))]
groups = pytest.fixture(real_groups)

MEMORY = 200 << 20  # of the node, of which half is to be free
# By priority: which of the two has more memory yet is chance.
MEMORY_EVICT = "{targetUtilization: 0.5, minAvailable: 0.5, order: priority}"
CONFIG = f"qosManager: {{syncPeriod: 200ms, cpuEvict: {{enabled: false}}, memoryEvict: {MEMORY_EVICT}}}"
PODS = {name: f"{number:08x}-aaaa-bbbb-cccc-000000000000" for number, name in enumerate(("one", "two"))}
HOG = "import time\nheld = bytearray(76 << 20)\nfor at in range(0, len(held), 4096): held[at] = 1\ntime.sleep(600)"


class Deadly(Faults):
    """Kills who first asks for an eviction, before it is answered; `lost`: the request comes to nothing."""

    def __init__(self, lost: bool) -> None:
        super().__init__()
        self.lost = lost
        self.victim: Daemon | None = None
        self.struck = threading.Event()

    def take(self, method: str, path: str) -> Planned | None:
        if self.victim is None or method != "POST" or not path.endswith("/eviction"):
            return super().take(method, path)
        agent, self.victim = self.victim, None
        os.kill(agent.process.pid, signal.SIGKILL)
        agent.process.wait()
        self.struck.set()
        return Planned(503, b"", "text/plain", {}) if self.lost else None


@pytest.mark.parametrize("lost", [False, True])
def test_one_pod_goes_and_has_its_line(groups, tmp_path, lost):
    groups.put(groups.top, "memory.limit_in_bytes", str(MEMORY))
    with LoopbackApi() as api:
        api.faults = deadly = Deadly(lost)
        api.store.create("nodes", node())
        for name in ("kubepods", "kubepods/besteffort", "api", "be"):
            groups.add(name)
        for priority, (name, uid) in enumerate(PODS.items(), 5500):
            api.store.create("pods", pod(name, uid=uid, labels={"koordinator.sh/qosClass": "BE"}, owner=name, priority=priority, grace=2))
            groups.add(f"kubepods/besteffort/pod{uid}")
            groups.start(f"kubepods/besteffort/pod{uid}", sys.executable, "-c", HOG)
        (tmp_path / "config.yaml").write_text(CONFIG)
        kubeconfig = str(api.write_kubeconfig(tmp_path / "kubeconfig"))
        more = ("--kubernetes", "--node-name", NODE, "--kubeconfig", kubeconfig, "--pods-from", "api")
        more += ("--audit-log", str(tmp_path / "audit.log"))

        victim = deadly.victim = Daemon(groups, tmp_path, more=more)
        try:
            wait(deadly.struck.is_set, 20, "the first eviction", victim.lines)
        finally:
            victim.stop(signal.SIGKILL)
        successor = Daemon(groups, tmp_path, more=more)
        try:
            wait(lambda: "cycle number=10 " in successor.lines(), 60, "ten cycles", successor.lines)
            if lost:
                wait(lambda: len(api.asked("POST", "/eviction")) == 2, 60, "the eviction to be asked for again", successor.lines)
        finally:
            successor.stop()
        assert {request.path.split("/")[-2] for request in api.asked("POST", "/eviction")} == {"one"}
        lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
        first, *again = sorted(lines, key=lambda line: line["begun"])
        assert (first["pod"], first["plugin"], first["outcome"]) == ("batch/one", "MemoryEvict", "unknown")
        assert {line["pod"] for line in again} <= {"batch/one"}
