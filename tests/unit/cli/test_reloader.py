"""When files are taken anew (specification, section 6)."""

import os

import pytest

from qosmanager.cli.daemon import Reloader, Sources

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
        sources = Sources(self.config, (self.workloads,))
        self.told = 0
        self.reloader = Reloader(sources, self.board, self._use_settings, self._use_rules, self._tell)

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
