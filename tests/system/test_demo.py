import os
import signal
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import pytest
from click.testing import CliRunner

from qosmanager.cli.main import main
from qosmanager.demo.groups import PREFIX, Groups, GroupsError
from qosmanager.linux.cgroup import CgroupRootError, Hierarchies
from waiting import wait

ROOT = Path("/sys/fs/cgroup")
COMMAND = [sys.executable, "-c", "from qosmanager.cli.main import main; main()", "demo", "--plain"]


def obstacle():
    if os.geteuid() != 0:
        return "needs root"
    try:
        Groups.create(Hierarchies.probe(ROOT), 2**28).remove()
    except (CgroupRootError, GroupsError) as error:
        return str(error)
    return None


WHY_NOT = obstacle()
real = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


class Demo:
    """A demo and whatever it starts, known by a mark in the environment."""

    def __init__(self, *options):
        self.mark = f"DEMO_TEST_MARK={uuid.uuid4()}"
        name, _, value = self.mark.partition("=")
        environment = os.environ | {name: value, "COLUMNS": "200"}
        self.process = subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        self.said = ""

    def until(self, words):
        """Read until a line holds these words; return that line."""
        for line in self.process.stdout:
            self.said += line
            if words in line:
                return line
        raise AssertionError(f"never said {words!r}, but:\n{self.said}")

    def end(self):
        self.said += self.process.communicate(timeout=300)[0]
        return self.process.returncode

    def processes(self):
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if self.mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    def groups(self):
        return Groups.found(Hierarchies.probe(ROOT), f"{PREFIX}{self.process.pid}").left()


@pytest.fixture
def start():
    started = []

    def starting(*options):
        started.append(Demo(*options))
        return started[-1]

    yield starting
    for demo in started:
        for pid in demo.processes():
            os.kill(pid, signal.SIGKILL)
        demo.process.wait()
        demo.process.stdout.close()


@real
def test_the_whole_demo_measures_three_parts_puts_all_back_and_leaves_nothing(start, tmp_path):
    demo = start("--duration", "20", "--save", str(tmp_path / "recording"))
    assert demo.end() == 0, demo.said
    for words in (
        "LS alone, quiet",
        "BE unmanaged, surge",
        "BE managed, memory runs out",
        "CPUSuppress set_be_cpu_limit",
        "What it came to",
    ):
        assert words in demo.said
    assert "changed by the agent while it ran; different now: none" in demo.said
    assert " 0 of them changed" not in demo.said
    assert (tmp_path / "recording").stat().st_size > 0
    assert demo.processes() == []
    assert demo.groups() == []


@real
@pytest.mark.parametrize(("number", "when"), [(signal.SIGINT, "BE managed, quiet |"), (signal.SIGTERM, "BE unmanaged, quiet |")])
def test_a_signal_in_the_middle_leaves_nothing(start, number, when):
    demo = start("--duration", "30")
    demo.until(when)
    assert demo.groups() != []
    demo.process.send_signal(number)
    assert demo.end() == 128 + number
    assert "Traceback" not in demo.said
    assert demo.processes() == []
    assert demo.groups() == []


@real
def test_after_a_kill_no_process_lives_on_and_the_next_demo_removes_the_groups(start):
    killed = start("--duration", "30")
    killed.until("BE managed, quiet |")
    killed.process.kill()
    killed.process.wait()
    wait(lambda: not killed.processes(), 20, "its processes to end with it")
    assert killed.groups() != []
    following = start("--duration", "40")
    following.until(f"removed {PREFIX}{killed.process.pid}")
    following.process.send_signal(signal.SIGINT)
    following.end()
    assert killed.groups() == following.groups() == []
    assert list(Path(tempfile.gettempdir()).glob(f"{PREFIX}{killed.process.pid}-*")) == []


def test_without_cgroups_it_says_why_and_decides_recorded_readings(start, tmp_path):
    demo = start("--cgroup-root", str(tmp_path))
    assert "Not measured here: " in demo.until("Recorded readings")
    demo.until("CPUSuppress set_be_cpu_limit")
    demo.process.send_signal(signal.SIGINT)
    assert demo.end() == 130
    assert "Traceback" not in demo.said


@pytest.mark.parametrize("duration", ["19", "3601", "x"])
def test_a_duration_that_cannot_be_is_refused(duration):
    refused = CliRunner().invoke(main, ["demo", "--plain", "--duration", duration])
    assert refused.exit_code == 2
    assert "--duration" in refused.output
