"""The real process as one of a cluster that is a loopback API server: configured, paused and watched through it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from loopback_api.objects import NODE, config_map, node
from loopback_api.server import LoopbackApi
from real_daemon import CONFIG, Daemon, calm_groups, limit_in_force, wait
from real_groups import obstacle, real_groups

WHY_NOT = obstacle()
FASTER = CONFIG % 0.4
STATUS, PAUSE = "qosmanager.io/status", "qosmanager.io/pause"


@pytest.fixture
def server():
    with LoopbackApi() as api:
        api.store.create("nodes", node())
        yield api


def joined(server, path):
    """The options that make an agent one of the cluster."""
    return ("--kubernetes", "--node-name", NODE, "--kubeconfig", str(server.write_kubeconfig(path / "kubeconfig")), "--pods-from", "api")


def change_node(server, **metadata):
    """Change labels or annotations of the node, as a person does."""
    changed = server.store.get("nodes", "", NODE)
    for part, values in metadata.items():
        changed["metadata"][part] = {**changed["metadata"].get(part, {}), **values}
        changed["metadata"][part] = {key: value for key, value in changed["metadata"][part].items() if value is not None}
    server.store.replace("nodes", changed)


def status(server):
    text = server.store.get("nodes", "", NODE)["metadata"]["annotations"].get(STATUS)
    return None if text is None else json.loads(text)


def batch(server):
    found = server.store.get("nodes", "", NODE)["status"]["allocatable"]
    return {key for key in found if key.startswith("kubernetes.io/batch-")}


class Volume:
    """A mounted ConfigMap: `..data` is swapped to a new directory."""

    def __init__(self, path):
        self._path = path
        self._count = 0
        (path / "config.yaml").symlink_to("..data/config.yaml")

    def swap(self, text):
        self._count += 1
        fresh = self._path / f"..{self._count}"
        fresh.mkdir()
        (fresh / "config.yaml").write_text(text)
        (self._path / "..data_tmp").symlink_to(fresh.name)
        (self._path / "..data_tmp").rename(self._path / "..data")


@pytest.fixture
def groups():
    yield from real_groups()


@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
def test_a_node_is_configured_paused_and_watched_through_the_cluster(server, groups, tmp_path):
    calm_groups(groups)
    volume = Volume(tmp_path)
    volume.swap(FASTER)
    daemon = Daemon(groups, tmp_path, more=(*joined(server, tmp_path), "--publish-batch-resources"))
    try:
        wait(lambda: limit_in_force(groups), 30, "a BE limit", daemon.lines)
        wait(lambda: (status(server) or {}).get("agent") == "running", 30, "the node's status", daemon.lines)
        wait(lambda: batch(server) == {"kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"}, 30, "the batch resources", daemon.lines)

        volume.swap(FASTER.replace("0.4", "many"))
        daemon.wait_for("ReloadRefused")
        wait(lambda: "QoSConfigRejected" in [event["reason"] for event in server.events()], 30, "the event", daemon.lines)
        assert "koordlet_qos_reload_refused_total 1.0" in daemon.get("/metrics")
        volume.swap(f"{FASTER}  nodeStrategies: [{{nodeSelector: {{matchLabels: {{pool: quiet}}}}, cpuSuppress: {{enabled: false}}}}]\n")
        daemon.wait_for("Reloaded")
        assert limit_in_force(groups)
        change_node(server, labels={"pool": "quiet"})
        wait(lambda: not limit_in_force(groups), 30, "CPUSuppress to be off for this node", daemon.lines)

        change_node(server, annotations={PAUSE: "10m"})
        assert f'by="annotation {PAUSE} of the node"' in daemon.wait_for("Paused")
        change_node(server, annotations={PAUSE: None})
        daemon.wait_for("Resumed")
        change_node(server, annotations={PAUSE: "soon"})
        daemon.wait_for("'soon' pauses nothing")

        assert daemon.stop() == 0, daemon.lines()
        assert (status(server)["agent"], batch(server)) == ("stopped", set())
    finally:
        daemon.stop(signal.SIGKILL)


class Watching:
    """A dry run, or one that keeps something in a state directory, by a ConfigMap's name."""

    def __init__(self, server, path, *more):
        self._log = (path / "agent.log").open("w+")
        command = [sys.executable, "-m", "qosmanager", "run", *joined(server, path), "--config-map", "kube-system/koordlet"]
        self.process = subprocess.Popen([*command, "--listen", "off", *more], stdout=self._log, stderr=self._log)
        self._path = path / "agent.log"

    def log(self):
        return self._path.read_text()

    def wait_for(self, text):
        wait(lambda: text in self.log(), 60, repr(text), self.log)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self._log.close()
        return code


def say(server, text):
    server.store.replace("configmaps", config_map("koordlet", text))


def test_a_config_map_is_watched_by_its_name(server, tmp_path):
    server.store.create("configmaps", config_map("koordlet", "qosManager: {syncPeriod: 200ms}"))
    agent = Watching(server, tmp_path, "--dry-run")
    try:
        agent.wait_for("cycle number=2")
        say(server, "qosManager: {syncPeriod: 300ms}")
        agent.wait_for("Reloaded")
        say(server, "qosManager: {syncPeriod: never}")
        agent.wait_for("ReloadRefused")
        server.store.delete("configmaps", "kube-system", "koordlet")
        agent.wait_for("ConfigMap kube-system/koordlet does not exist; what it last said stays in force")
        assert server.asked("POST", "") == []  # a dry run tells the cluster nothing
        assert server.asked("PATCH", "") == []
    finally:
        assert agent.stop() == 0


def test_a_config_map_that_does_not_exist_is_said_and_the_agent_does_not_begin(server, tmp_path):
    agent = Watching(server, tmp_path, "--dry-run")
    assert agent.process.wait(60) == 1
    assert "--config-map kube-system/koordlet: " in agent.log()
    assert "does not exist" in agent.log()
    agent.stop()
