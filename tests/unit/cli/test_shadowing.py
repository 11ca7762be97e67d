"""`run --shadow`: the listener beside the agent, what is shown of it, and its file."""

import subprocess
import sys

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest

from kernel_tree import KernelTree
from qosmanager.cli.daemon import ObservedSources, Sources
from qosmanager.cli.shadowing import Shadowed
from qosmanager.config.settings import CpuSuppressSettings, Settings
from qosmanager.documents.problem import DocumentError
from qosmanager.http.board import Board
from qosmanager.http.client import AgentClient
from qosmanager.http.server import Listen, Server
from qosmanager.linux.clock import LinuxClock
from qosmanager.model.qos import Mode, Plugin
from qosmanager.model.state import State
from qosmanager.views.beside import Beside
from qosmanager.views.metrics import Metrics
from qosmanager.views.recording import RecordingView
from qosmanager.views.status import About
from records import record

OFF = Settings(cpu_suppress=CpuSuppressSettings(mode=Mode.OFF))


class Behind:
    def __init__(self) -> None:
        self.told: list[object] = []

    def cycle_done(self, record, settings) -> None:
        del settings
        self.told.append(record.number)

    def cycle_failed(self, error) -> None:
        self.told.append(error)


@pytest.fixture
def behind():
    return Behind()


@pytest.fixture
def shadowed(behind):
    return Shadowed("other.yaml", OFF, State(), behind)


def test_it_decides_and_tells_on(shadowed, behind):
    shadowed.cycle_done(record(1), Settings())
    error = ValueError("x")
    shadowed.cycle_failed(error)
    assert behind.told == [1, error]
    assert (shadowed.view().cycles, shadowed.view().failure) == (1, "")


def test_a_fault_in_it_ends_it_and_nothing_else(shadowed, behind, caplog):
    broken = replace(record(1), snapshot=replace(record(1).snapshot, node=replace(record(1).snapshot.node, cpus=0.0)))
    for each in (broken, record(2)):
        shadowed.cycle_done(each, Settings())
    assert behind.told == [1, 2]
    assert (shadowed.view().cycles, shadowed.view().failure) == (0, "ZeroDivisionError: float division by zero")
    assert sum("ShadowFailed" in entry.getMessage() for entry in caplog.records) == 1


def shown(shadowed):
    recording = RecordingView(directory="/r", cycles=7, bytes=1000, lost=2, stopped="No space left on device")
    return Beside(recording=recording, shadow=shadowed.view())


def test_metrics_tell_of_both(shadowed):
    metrics = Metrics(About(version="1.2.3", pid=1, started=0.0), Settings())
    shadowed.cycle_done(record(1), Settings())
    metrics.beside = lambda: shown(shadowed)
    registry = CollectorRegistry()
    registry.register(metrics)
    text = generate_latest(registry).decode()
    for line in (
        "koordlet_qos_recording 0.0",
        "koordlet_qos_recorded_cycles_total 7.0",
        "koordlet_qos_recorded_bytes_total 1000.0",
        "koordlet_qos_record_lost_cycles_total 2.0",
        "koordlet_qos_shadow_cycles_total 1.0",
        'koordlet_qos_shadow_evict_total{plugin="MemoryEvict"} 0.0',
        "koordlet_qos_shadow_failed 0.0",
    ):
        assert line in text.splitlines()


def test_without_them_nothing_is_said_of_them():
    registry = CollectorRegistry()
    registry.register(Metrics(About(version="1.2.3", pid=1, started=0.0), Settings()))
    assert "shadow" not in generate_latest(registry).decode()
    assert "record" not in generate_latest(registry).decode()


def test_the_status_tells_of_both(shadowed):
    board = Board(About(version="1.2.3", pid=42, started=0.0), Settings())
    board.publish(record(1), Settings())
    board.show(lambda: shown(shadowed))
    with Server(board, Listen("127.0.0.1", 0)) as server:
        status = AgentClient(server.url, LinuxClock()).status()
    assert status.shadow is not None
    assert status.shadow.config == "other.yaml"
    assert status.recording is not None
    assert status.recording.stopped == "No space left on device"


def test_its_file_is_one_of_those_that_are_watched_and_refused_like_the_other(tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text("qosManager: {cpuBurst: {burstRatio: 9}}")
    sources = Sources(None, (), other)
    assert len(sources.seen().marks) == 1
    with pytest.raises(DocumentError, match=r"other\.yaml:1: qosManager\.cpuBurst\.burstRatio"):
        sources.shadow_settings()
    other.write_text("qosManager: {cpuBurst: {burstRatio: 2}}")
    assert sources.shadow_settings().cpu_burst.burst_ratio == 2.0
    assert Sources(None, ()).shadow_settings() is None


def test_beside_a_dry_run_it_observes_too(tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text("qosManager: {}")
    assert ObservedSources(None, (), other).shadow_settings().mode(Plugin.CPU_BURST) is Mode.OBSERVE


def run_agent(tmp_path, *options):
    tree = KernelTree(tmp_path / "cgroup")
    command = [sys.executable, "-m", "qosmanager", "run", "--dry-run", "--cgroup-root", str(tree.root), "--once", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("place", ["127.0.0.1:0", "nonsense"])
def test_one_cycle_is_served_to_nobody(tmp_path, place):
    ended = run_agent(tmp_path, "--listen", place)
    assert ended.returncode == 2
    said = "--listen and --once do not go together: a single cycle is explained on standard output and served to nobody"
    assert ended.stderr == f"qosmanager: {said}\n"


def test_one_cycle_has_nothing_to_compare(tmp_path):
    ended = run_agent(tmp_path, "--shadow", "other.yaml")
    assert ended.returncode == 2
    assert ended.stderr == "qosmanager: --shadow compares from cycle to cycle; --once is a single one\n"


def test_one_cycle_can_be_recorded(tmp_path):
    ended = run_agent(tmp_path, "--record", str(tmp_path / "r"))
    assert ended.returncode == 0, ended.stderr
    (file,) = (tmp_path / "r").iterdir()
    replayed = subprocess.run([sys.executable, "-m", "qosmanager", "replay", str(file)], capture_output=True, text=True, check=False)
    assert replayed.stdout.startswith("1 cycle in 1 file"), replayed.stderr


@pytest.mark.parametrize(
    ("place", "options", "said"),
    [
        ("file", (), "--record {}: this is no directory; files are made in it"),
        ("r", ("--record-keep", "1k"), "'1k' is no size of at least 1Mi"),
    ],
)
def test_a_place_that_cannot_be_one_is_refused(tmp_path, place, options, said):
    (tmp_path / "file").write_text("x")
    ended = run_agent(tmp_path, "--record", str(tmp_path / place), *options)
    assert ended.returncode == 2
    assert said.format(tmp_path / place) in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_directory_that_cannot_be_made_does_not_keep_the_agent_from_running(tmp_path):
    ended = run_agent(tmp_path, "--record", "/proc/nowhere/r")
    assert ended.returncode == 0
    assert "RecordStopped" in ended.stderr
    assert "the agent goes on without recording" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_an_agent_that_does_not_record_imports_nothing_of_it():
    names = "[name for name in sys.modules if name.startswith(('qosmanager.record', 'backports', 'qosmanager.engine.shadow', 'pyarrow'))]"
    code = f"import sys; import qosmanager.cli.main, qosmanager.cli.run, qosmanager.http.server; print({names})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
