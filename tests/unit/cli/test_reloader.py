"""When files are taken anew (specification, section 6)."""

import os

import pytest

from qosmanager.cli.daemon import Reloader, Sources
from qosmanager.documents.problem import DocumentError

WORKLOADS = "workloads: [{name: api, qos: LS, cgroup: shop/api}]"


class Events:
    """A board that keeps the kinds of events."""

    def __init__(self) -> None:
        self.kinds: list[str] = []

    def event(self, kind: str, about: str, reason: str) -> None:
        del about, reason
        self.kinds.append(kind)


class Agent:
    """A reloader over two files, and what it told whom."""

    def __init__(self, path) -> None:
        self.config, self.workloads = path / "qos.yaml", path / "workloads.yaml"
        self.config.write_text("qosManager: {}")
        self.workloads.write_text(WORKLOADS)
        self.periods: list[float] = []
        self.pods: list[list[str]] = []
        self.board = Events()
        self.sources = Sources(self.config, (self.workloads,))
        self.told = 0
        self.reloader = self.reloading()

    def reloading(self):
        return Reloader(self.sources, self.board, self._use_settings, self._use_rules, self._tell)

    def _tell(self) -> None:
        self.told += 1

    def _use_settings(self, settings) -> None:
        self.periods.append(settings.sync_period)

    def _use_rules(self, rules) -> None:
        self.pods.append([rule.name for rule in rules])


@pytest.fixture
def agent(tmp_path):
    return Agent(tmp_path)


def test_a_changed_file_is_taken_once_it_stands_still(agent):
    agent.reloader.look()
    agent.config.write_text("qosManager: {syncPeriod: 2s}")
    agent.reloader.look()
    assert agent.periods == []
    for _ in range(3):
        agent.reloader.look()
    assert (agent.periods, agent.pods, agent.board.kinds, agent.told) == ([2.0], [["api"]], ["reloaded"], 1)


def test_a_file_that_is_being_written_does_not_take_the_pods_away(agent):
    agent.workloads.write_text("")
    agent.reloader.look()
    agent.workloads.write_text(WORKLOADS.replace("name: api", "name: web"))
    for _ in range(3):
        agent.reloader.look()
    assert agent.pods == [["web"]]


def test_a_signal_reloads_at_once(agent):
    agent.config.write_text("qosManager: {syncPeriod: 2s}")
    agent.reloader.asked = True
    agent.reloader.look()
    agent.reloader.look()
    assert (agent.periods, agent.told) == ([2.0], 1)


def test_a_refused_file_changes_nothing_of_either_and_is_told_once(agent):
    agent.workloads.write_text(WORKLOADS.replace("name: api", "name: web"))
    agent.config.write_text("qosManager: {syncPeriod: never}")
    for _ in range(4):
        agent.reloader.look()
    assert (agent.periods, agent.pods, agent.board.kinds) == ([], [], ["reload_refused"])


def test_a_configuration_that_becomes_a_pipe_does_not_hold_the_agent_up(agent):
    agent.config.unlink()
    os.mkfifo(agent.config)
    for _ in range(3):
        agent.reloader.look()
    assert (agent.periods, agent.pods, agent.board.kinds) == ([], [], ["reload_refused"])


class Volume:
    """A directory in which kubelet keeps a ConfigMap: `..data` leads to the directory of now, each file leads there through it."""

    def __init__(self, path):
        self._path = path
        self._count = 0
        self.file = path / "koordlet-config.yaml"
        self.file.symlink_to("..data/koordlet-config.yaml")

    def swap(self, text):
        self._count += 1
        fresh = self._path / f"..2026_11_30_{self._count}"
        fresh.mkdir()
        (fresh / "koordlet-config.yaml").write_text(text)
        (self._path / "..data_tmp").symlink_to(fresh.name)
        (self._path / "..data_tmp").rename(self._path / "..data")


@pytest.fixture
def mounted(tmp_path):
    volume = Volume(tmp_path)
    volume.swap("qosManager: {syncPeriod: 3s}")
    return volume


class Cluster:
    """What a reloader over a mounted ConfigMap told, and the node's labels."""

    def __init__(self, file):
        self.labels = {}
        self.taken = []
        self.refused = []
        sources = Sources(file, (), labels=lambda: self.labels)
        self.reloader = Reloader(sources, Events(), self.taken.append, lambda _: None, lambda: None)
        self.reloader.refused = self.refused.append

    def periods(self):
        self.reloader.look()
        return [settings.sync_period for settings in self.taken]


def test_what_changed_after_it_was_read_first_is_taken_at_the_first_look(agent):
    seen = agent.sources.seen()
    agent.config.write_text("qosManager: {syncPeriod: 2s}")
    late = agent.reloading()
    late.in_force = seen
    late.look()
    late.look()
    assert agent.periods == [2.0]


def test_labels_that_came_after_it_was_read_first_are_taken_at_the_first_look(mounted):
    cluster = Cluster(mounted.file)
    cluster.reloader.in_force = cluster.reloader.in_force._replace(labels=None)
    assert cluster.periods() == [3.0]


def test_a_config_map_that_is_swapped_is_taken_at_the_next_look(mounted):
    cluster = Cluster(mounted.file)
    assert cluster.periods() == []
    mounted.swap("qosManager: {syncPeriod: 2s}")
    assert cluster.periods() == [2.0]
    assert cluster.periods() == [2.0]


def test_a_config_map_that_is_refused_leaves_the_old_one_and_is_told(mounted):
    cluster = Cluster(mounted.file)
    mounted.swap("qosManager: {syncPeriod: never}")
    assert cluster.periods() == []
    assert len(cluster.refused) == 1
    assert "qosManager.syncPeriod: never is not allowed" in cluster.refused[0]
    mounted.swap("qosManager: {syncPeriod: 2s}")
    assert cluster.periods() == [2.0]


def test_other_labels_of_the_node_choose_anew_at_once(mounted):
    mounted.swap("qosManager: {nodeStrategies: [{nodeSelector: {matchLabels: {pool: batch}}, syncPeriod: 5s}]}")
    cluster = Cluster(mounted.file)
    assert cluster.periods() == []
    cluster.labels = {"pool": "batch"}
    assert cluster.periods() == [5.0]
    cluster.labels = {"pool": "web"}
    assert cluster.periods() == [5.0, 1.0]


def test_what_is_wrong_with_any_file_is_told_at_once_file_by_file(agent, tmp_path):
    agent.config.write_text("qosManager:\n  preset: balanced\n  syncPeriod: 0s\n")
    agent.workloads.write_text("workloads: [{name: api, qos: XX, cgroup: a}]")
    other = tmp_path / "other.yaml"
    other.write_text("workloads: [{name: api, qos: LS, cgroup: /a}]")
    with pytest.raises(DocumentError) as caught:
        Sources(agent.config, (agent.workloads, other)).read()
    assert [(problem.source, problem.path) for problem in caught.value.problems] == [
        (str(agent.config), "qosManager.syncPeriod"),
        (str(agent.workloads), "workloads[0].qos"),
        (str(other), "workloads[0].cgroup"),
    ]
