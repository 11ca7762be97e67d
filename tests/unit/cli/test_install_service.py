"""install-service and uninstall over a directory of the test's own."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from click.testing import CliRunner

from qosmanager.cli.install_service import unseen
from qosmanager.cli.main import main
from qosmanager.config.parse import read_settings
from qosmanager.config.settings import Settings
from qosmanager.documents.workloads import load_workloads
from qosmanager.linux.service_files import UNITS, placings
from qosmanager.model.qos import Mode, Plugin


def run(*arguments: object):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def units(tmp_path):
    return tmp_path / "etc/systemd/system"


@pytest.fixture
def installed(tmp_path):
    ended = run("install-service", "--prefix", tmp_path)
    assert ended.exit_code == 0, ended.output
    return tmp_path


def test_it_creates_units_and_examples_and_says_so_line_by_line(tmp_path, units):
    ended = run("install-service", "--prefix", tmp_path)
    assert ended.exit_code == 0
    expected = [units / name for name in UNITS] + [tmp_path / "etc/qosmanager" / name for name in ("config.yaml", "workloads.yaml")]
    assert ended.output.splitlines()[:5] == [f"created   {path}" for path in expected]
    assert all(path.is_file() for path in expected)


def test_a_dry_run_writes_nothing(tmp_path):
    ended = run("install-service", "--dry-run", "--prefix", tmp_path)
    assert ended.output.count("to create") == 5
    assert list(tmp_path.iterdir()) == []


def test_once_more_changes_nothing(installed):
    ended = run("install-service", "--prefix", installed)
    assert [line.split()[0] for line in ended.output.splitlines()[:5]] == ["unchanged", "unchanged", "unchanged", "kept", "kept"]


def test_a_unit_changed_by_hand_is_kept_and_the_difference_shown(installed, units):
    unit = units / "qosmanager.service"
    theirs = unit.read_text().replace("RestartSec=5s", "RestartSec=9s")
    unit.write_text(theirs)
    ended = run("install-service", "--prefix", installed)
    assert unit.read_text() == theirs
    assert "    -RestartSec=9s\n    +RestartSec=5s\n" in ended.output


def test_a_unit_of_an_earlier_version_is_updated(installed, units):
    earlier = next(placing for placing in placings(installed / "elsewhere", "/opt/old/bin/qosmanager") if placing.path.name == UNITS[0])
    (units / UNITS[0]).write_text(earlier.text)
    ended = run("install-service", "--prefix", installed)
    assert f"updated   {units / UNITS[0]}" in ended.output
    assert "/opt/old" not in (units / UNITS[0]).read_text()


def test_a_masked_unit_stays_masked(tmp_path, units):
    units.mkdir(parents=True)
    (units / UNITS[0]).symlink_to("/dev/null")
    run("install-service", "--prefix", tmp_path)
    assert (units / UNITS[0]).is_symlink()


def test_a_configuration_is_never_overwritten(tmp_path):
    (tmp_path / "etc/qosmanager").mkdir(parents=True)
    mine = tmp_path / "etc/qosmanager/config.yaml"
    mine.write_text("qosManager: {syncPeriod: 2s}\n")
    ended = run("install-service", "--prefix", tmp_path)
    assert f"kept      {mine} (yours)" in ended.output
    assert mine.read_text() == "qosManager: {syncPeriod: 2s}\n"


def test_the_examples_are_valid_and_only_observe(installed):
    settings = read_settings(installed / "etc/qosmanager/config.yaml")
    acting = (Plugin.NODE_QOS_RESOURCE, Plugin.CPU_SUPPRESS, Plugin.CPU_BURST, Plugin.CPU_EVICT, Plugin.MEMORY_EVICT)
    assert {settings.mode(plugin) for plugin in acting} == {Mode.OBSERVE}
    assert settings.cpu_pressure == Settings().cpu_pressure
    text = (installed / "etc/qosmanager/workloads.yaml").read_text()
    assert load_workloads(text, "workloads.yaml") == ()
    # The commented lines are an example that works as it stands.
    uncommented = text.partition("workloads: []\n")[2].replace("# ", "", 1).replace("\n# ", "\n")
    assert [rule.key for rule in load_workloads(f"workloads:\n{uncommented}", "workloads.yaml")] == ["default/api", "default/batch"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.usefixtures("installed")
def test_systemd_finds_no_fault_with_the_units(units):
    ended = subprocess.run(
        ["systemd-analyze", "verify", *(str(units / name) for name in UNITS)], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.usefixtures("installed")
def test_the_service_stays_hardened(units):
    ended = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=25", str(units / UNITS[0])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-200:] + ended.stderr


# What the agent calls beyond the everyday: limits and signals, systemctl as a child, its lock, its sockets, locked memory.
CALLED = {
    *("pidfd_open", "pidfd_send_signal", "kill", "flock", "fsync", "rename", "mlockall", "prlimit64", "clock_gettime", "getdents64"),
    *("pipe2", "vfork", "clone3", "execve", "wait4", "dup2", "close_range"),
    *("socket", "bind", "listen", "accept4", "connect", "sendto", "epoll_wait", "socketpair"),
}


def system_calls(name: str) -> set[str]:
    """The calls of a group (@name), with those of the groups in it."""
    told = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True).stdout
    names = [line.strip() for line in told.splitlines()[1:] if line.strip() and not line.strip().startswith("#")]
    return {call for each in names for call in (system_calls(each) if each.startswith("@") else {each})}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("unit", UNITS[:2])
def test_the_filter_lets_the_agent_do_what_it_does(units, unit):
    allowed: set[str] = set()
    for line in (units / unit).read_text().splitlines():
        key, _, value = line.partition("=")
        if key == "SystemCallFilter":
            named = {call for group in value.removeprefix("~").split() for call in system_calls(group)}
            allowed = allowed - named if value.startswith("~") else allowed | named
    assert CALLED - allowed - system_calls("@default") == set()


def test_uninstall_removes_what_was_installed_and_leaves_the_configuration(installed, units, tmp_path):
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    for name in ("pause.json", "forecast.json", "evictions.json", "evictions.json.next", "kubernetes.json", "config-map.yaml"):
        (state / name).write_text("{}")
    (state / "audit.log").write_text("")
    ended = run("uninstall", "--yes", "--prefix", installed, "--state-dir", state)
    assert ended.exit_code == 0, ended.output
    assert list(units.iterdir()) == []
    assert f"left      {installed}/etc/qosmanager (yours; --purge removes it)" in ended.output
    assert f"removed   {state}/pause.json" in ended.output
    assert f"removed   {state}/evictions.json.next" in ended.output
    assert [path.name for path in state.iterdir()] == ["audit.log"]


def test_purge_leaves_nothing(installed, tmp_path):
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "audit.log").write_text("")
    ended = run("uninstall", "--yes", "--purge", "--prefix", installed, "--state-dir", state)
    assert ended.exit_code == 0, ended.output
    assert not state.exists()
    assert not (installed / "etc/qosmanager").exists()


def test_a_file_that_is_not_the_agents_stays_with_its_directory(installed, tmp_path):
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "lockers.txt").write_text("mine")
    ended = run("uninstall", "--yes", "--purge", "--prefix", installed, "--state-dir", state)
    assert (state / "lockers.txt").read_text() == "mine"
    assert f"left      {state}, which holds lockers.txt" in ended.output


def test_nothing_is_removed_while_the_journal_cannot_be_used(installed, units, tmp_path):
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "journal.json").write_text("not a journal")
    ended = run("uninstall", "--yes", "--prefix", installed, "--state-dir", state)
    assert ended.exit_code != 0
    assert "nothing is removed" in ended.output
    assert len(list(units.iterdir())) == 3


def test_without_a_terminal_it_wants_yes(installed, units):
    ended = run("uninstall", "--prefix", installed)
    assert ended.exit_code == 2
    assert "--yes" in ended.output
    assert len(list(units.iterdir())) == 3


@pytest.mark.parametrize(
    ("command", "interpreter", "told"),
    [
        ("/opt/qosmanager/bin/qosmanager", "/usr/bin/python3.11", []),
        ("/tmp/v/bin/qosmanager", "/usr/bin/python3.11", ["/tmp/v/bin/qosmanager"]),
        ("/home/me/v/bin/qosmanager", "/usr/bin/python3.11", ["/home/me/v/bin/qosmanager"]),
        (
            "/opt/qosmanager/bin/qosmanager",
            "/root/.pyenv/versions/3.11.7/bin/python3.11",
            ["it runs with /root/.pyenv/versions/3.11.7/bin/python3.11,"],
        ),
    ],
)
def test_what_the_service_could_not_start_is_told(command, interpreter, told):
    notes = unseen(command, interpreter)
    assert len(notes) == len(told)
    assert all(note.startswith(start) and "cannot see" in note for note, start in zip(notes, told, strict=True))
