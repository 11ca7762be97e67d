"""What is installed on a cluster for the agent (the chart of deploy/), and the agent itself, as a process of the test's."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from deploy_tools import DEPLOY, tool
from real_cluster.objects import account, namespace, placed_pod
from real_cluster.server import ApiServer
from real_groups import RealGroups

NODE = "worker-1"
SYSTEM = "qosmanager-system"


def install(server: ApiServer) -> None:
    """Install the chart, and make what controllers would: the accounts of namespaces. Pods are to go to the namespace batch."""
    server.apply(namespace(SYSTEM, **{"pod-security.kubernetes.io/enforce": "privileged"}), namespace("batch"))
    chart = [tool("helm"), f"--kubeconfig={server.kubeconfig('admin')}", f"--namespace={SYSTEM}"]
    chart += ["install", "qosmanager", str(DEPLOY / "chart/qosmanager"), "--set", "publishBatchResources=true"]
    subprocess.run(chart, check=True, timeout=300)
    server.wait(lambda: server.kubectl("get", "namespace", "kube-system").returncode == 0, "the namespaces of the system")
    server.apply(account("default", "batch"), account("default", "kube-system"))


def give_agents_token(server: ApiServer, pod: str) -> None:
    """Give the agent a token of a pod that is made for it, as kubelet does."""
    server.apply(placed_pod(pod, SYSTEM, NODE, serviceAccountName="qosmanager"))
    uid = server.get("pod", pod, "-n", SYSTEM)["metadata"]["uid"]
    bound = ("--bound-object-kind=Pod", f"--bound-object-name={pod}", f"--bound-object-uid={uid}")
    server.give_token("agent", server.done("-n", SYSTEM, "create", "token", "qosmanager", *bound).strip())


class Agent:
    """`qosmanager run --kubernetes` whose node is the test's own cgroup."""

    def __init__(self, server: ApiServer, groups: RealGroups, directory: Path, config: str, *options: str) -> None:
        file, self._log = directory / "config.yaml", directory / "agent.log"
        file.write_text(config)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "qosmanager", "run", "--kubernetes", "--node-name", NODE, "--listen", "127.0.0.1:0"),
                    *("--kubeconfig", str(server.kubeconfig("agent")), "--config", str(file), "--node-cgroup", groups.top),
                    *("--state-dir", str(directory / "state"), *options),
                ],
                stdout=log,
                stderr=log,
            )
        self._directory = directory

    @property
    def log(self) -> str:
        text = self._log.read_text()
        assert self._process.poll() is None, text
        return text

    def status(self) -> dict[str, Any]:
        """What it says of itself; nothing while it does not answer."""
        command = [sys.executable, "-m", "qosmanager", "status", "--output", "json", "--state-dir", str(self._directory / "state")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def misses(self) -> list[str] | None:
        """What it says that it cannot hear of the cluster."""
        return self.status().get("cluster", {}).get("problems")

    def knows(self, name: str) -> bool:
        """Whether the cluster has named this pod to it, and nothing is wrong."""
        seen = self.status()
        return bool(self.log) and f"batch/{name}" in {each["key"] for each in seen.get("pods", ())} and not seen["cluster"]["problems"]

    def pause(self) -> None:
        """It sees and does nothing until `resume`."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> str:
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(60) == 0, self._log.read_text()
        return self._log.read_text()

    def kill(self) -> None:
        """Whatever has become of it, it is no more."""
        self._process.kill()
        self._process.wait()
