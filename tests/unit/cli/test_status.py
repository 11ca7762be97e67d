from __future__ import annotations

import io
import json
import os
import pty
import select
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from rich.console import Console

from agents import agent, many_pods, with_pods
from qosmanager.cli.main import main
from qosmanager.cli.pod_table import rows_wanted
from qosmanager.cli.screen import Moment, Room, screen, span
from qosmanager.config.settings import CpuEvictSettings, Settings
from qosmanager.engine.shadow import Shadow
from qosmanager.http.board import Board
from qosmanager.http.server import Listen, Server
from qosmanager.linux.agent_file import RunningAgent, publish
from qosmanager.model.actions import Knob, KnobState, PluginFailure, Result
from qosmanager.model.own_use import STEPS, OwnUse
from qosmanager.model.pause import Pause
from qosmanager.model.qos import Mode, Plugin
from qosmanager.model.snapshot import PodLatency
from qosmanager.model.state import State
from qosmanager.views.beside import Beside
from qosmanager.views.cluster import ClusterView
from qosmanager.views.recording import RecordingView
from qosmanager.views.status import About, status
from records import API, CRUNCH, LIMIT, MIB, WALL, receipt, record


def run(*arguments, columns=100):
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(main, list(arguments))


def shown(*records, columns=100, settings=None, command="status"):
    with agent(*records, settings=settings or Settings()) as server:
        done = run(command, "--url", server.url, columns=columns)
    assert done.exit_code == 0, done.output
    return [line.rstrip() for line in done.output.splitlines()]


def line(lines, start):
    return next(line for line in lines if line.startswith(start))


def test_a_limit_that_is_only_observed_is_shown_as_one():
    of = record()
    lines = shown(replace(of, state=replace(of.state, be_observed=True)))
    assert line(lines, "BE ") == "BE      0.50 of 0.60 cores (only observed); 2 pods, 1 not measured"


def test_the_screen_shows_node_levels_and_pods_by_class():
    lines = shown(record(5, own=OwnUse(cpu=0.012, rss=45 * MIB, lag=0.0)))
    assert lines[0] == "qosmanager 1.2.3, pid 42, up 1 min, now 08:00:05Z"
    assert line(lines, "agent") == "agent   cycle 5 took 7.5 ms, uses 0.012 cores, holds 45Mi"
    assert line(lines, "node") == "node    1.50 of 2 CPUs, load -, memory not measured"
    assert line(lines, "cpu") == "cpu     ███░░░░░░░  30.0 HIGH     stalled     -  usage 30.0"
    assert line(lines, "level") == "level   HIGH for 4 s, matrix RELAX_BE_LIMIT, SLO ok"
    assert line(lines, "BE ") == "BE      0.50 of 0.60 cores; 2 pods, 1 not measured"
    table = lines[lines.index(line(lines, "QOS")) :]
    assert [row.split() for row in table[1:6]] == [
        ["LS", "1", "pod", "0.75", "0.05", "0%", "100Mi"],
        ["shop/api", "0.75", "0.05", "0%", "2.00", "3.00", "100Mi", "40.0/50.0"],
        ["BE", "2", "pods", "0.50", "-", "-", "0.60", "300Mi"],
        ["batch/crunch", "0.50", "-", "-", "-", "-", "300Mi", "-"],
        ["batch/silent", "-", "-", "-", "-", "-", "-", "-"],
    ]


def test_the_last_actions_come_with_their_reasons_newest_first():
    done = (receipt(0, Result.APPLIED),)
    steps = [record(n, actions=(replace(LIMIT, cores=0.5 + n / 10),), receipts=done) for n in (1, 2, 3)]
    lines = shown(*steps)
    start = lines.index("last actions and events, newest first")
    assert lines[start + 1 : start + 3] == [
        "08:00:03 CPUSuppress set_be_cpu_limit BE 0.60 .. 0.80 cores in 3 steps  applied",
        "         target 0.6 = 1.2 x 0.5",
    ]


def test_what_is_not_as_it_should_be_stands_on_top():
    base = record(1)
    troubled = replace(
        base,
        pause=Pause(boot_id="b", ends=701.0, since=WALL, until=WALL + 601, by="alice", reason="ticket 4711"),
        snapshot=replace(base.snapshot, paused=True),
        plan=replace(base.plan, degraded=("node_stale", "paused"), failures=(PluginFailure(Plugin.CPU_BURST, "KeyError: x"),)),
        state=State(time=5000.0, be_limit=0.1, floor_since=4000.0, oscillating=True),
        assessment=replace(base.assessment, oom=replace(base.assessment.oom, present=True, reasons=("12 s left",))),
        own=OwnUse(thrift=1, reason="0.050 cores used, allowed 0.03"),
    )
    lines = shown(troubled, columns=200, settings=Settings(cpu_evict=CpuEvictSettings(mode=Mode.OBSERVE)))
    assert lines[1:9] == [
        "PAUSED for 10 min more by alice: ticket 4711",
        "DEGRADED nothing is relaxed, nobody gets a burst, nobody is evicted: node_stale",
        "FAILED CPUBurst: KeyError: x",
        "OOM RISK 12 s left",
        "STARVING BE has been held at its floor for 16 min",
        "OSCILLATING the BE limit goes up and down; it rises at half speed",
        f"READS LESS 0.050 cores used, allowed 0.03: {STEPS[0]}",
        "NOT ENFORCED CPUEvict observe",
    ]


def test_a_service_above_its_objective_is_counted_as_late():
    late = replace(API, latency=PodLatency(p99=0.2, slo=0.05))
    lines = shown(with_pods(late))
    assert line(lines, "LS").endswith("1 late")
    assert line(lines, "       shop/api").endswith("200/50.0")


def test_the_actions_end_where_their_text_ends():
    with agent(record(1, actions=(LIMIT,))) as server:
        said = run("status", "--url", server.url, columns=200).output
    actions = said.partition("newest first\n")[2].splitlines()
    assert actions
    assert all(line == line.rstrip() for line in actions)


def test_no_pods_is_said():
    assert "no pods: nothing is declared, and kubelet's tree holds none" in shown(with_pods())


@pytest.mark.parametrize("columns", [80, 140])
@pytest.mark.parametrize("count", [0, 3, 110])
def test_no_line_is_wider_than_the_terminal(columns, count):
    named = tuple(replace(pod, name=f"{pod.name}-with-quite-a-long-name-7f9c6d8b5-x2x9k") for pod in many_pods(count))
    lines = shown(with_pods(*named), columns=columns)
    assert max(map(len, lines)) <= columns
    assert sum("pod-" in row or "shop/" in row for row in lines) >= count


@pytest.mark.parametrize(
    ("columns", "headings", "service", "batch"),
    [
        (25, "POD CPU", "shop/api 0.75", "batch/crunch 0.50"),
        (40, "POD CPU P99/SLO", "shop/api 0.75 12345/10000", "batch/crunch 0.50 -"),
        (60, "POD CPU WAIT NOW MEMORY P99/SLO", "shop/api 0.75 0.05 3.00 100Mi 12345/10000", "batch/crunch 0.50 - - 300Mi -"),
        (
            80,
            "POD CPU WAIT THR LIMIT NOW MEMORY P99/SLO",
            "shop/api 0.75 0.05 0% 2.00 3.00 100Mi 12345/10000",
            "batch/crunch 0.50 - - - - 300Mi -",
        ),
    ],
)
def test_a_narrow_terminal_shows_less_of_each_pod_and_that_whole(columns, headings, service, batch):
    late = replace(API, latency=PodLatency(p99=12.345, slo=10.0))
    lines = [" ".join(row.split()) for row in shown(with_pods(late, CRUNCH), columns=columns)]
    start = lines.index(f"QOS {headings}")
    assert (lines[start + 2], lines[start + 4]) == (service, batch)


def test_no_room_for_how_many_are_shown_in_words_is_room_for_figures():
    lines = shown_on_top(with_pods(*many_pods(20)), Room(36, 24))
    assert line(lines, "LS").split() == ["LS", "4/10", "pods", "0.90"]


def test_a_line_is_cut_between_two_words():
    lines = shown_on_top(record(5), Room(34, 24))
    assert line(lines, "node") == "node    1.50 of 2 CPUs, load -, …"
    assert line(lines, "cpu") == "cpu     ███░░░░░░░  30.0 HIGH …"


def shown_on_top(of, room):
    moment = Moment(status=status(of, Settings(), About(version="1", pid=1, started=0.0)), decisions=())
    console = Console(width=room.width, record=True, file=io.StringIO())
    console.print(screen(moment, room))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_json_is_what_the_agent_answers():
    with agent(record(3)) as server:
        document = json.loads(run("status", "--output", "json", "--url", server.url).output)
    assert (document["cycle"], document["be"]["limit"]) == (3, 0.6)


def test_the_state_directory_tells_where_the_agent_listens(tmp_path):
    with agent(record(3)) as server:
        publish(tmp_path, RunningAgent.this_process(server.url))
        assert run("status", "--state-dir", str(tmp_path)).exit_code == 0


@pytest.mark.parametrize("command", ["status", "top"])
def test_no_agent_is_one_line_and_exit_code_1(command):
    done = run(command, "--url", "http://127.0.0.1:1")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        "qosmanager: no agent answers at http://127.0.0.1:1: connection refused; `qosmanager run` starts one, "
        "--url and --state-dir say where it is\n"
    )


def test_an_agent_that_does_not_listen_is_named(tmp_path):
    publish(tmp_path, RunningAgent.this_process(None))
    done = run("status", "--state-dir", str(tmp_path))
    assert (done.exit_code, done.stderr) == (
        1,
        f"qosmanager: the agent (process {os.getpid()}) does not listen: it runs with --listen off\n",
    )


def test_an_address_that_is_none_is_a_wrong_usage():
    done = run("status", "--url", "node:9316")
    assert (done.exit_code, done.stderr) == (2, "qosmanager: --url 'node:9316' is not an address; allowed is http://HOST:PORT\n")


def test_top_without_a_terminal_is_one_screen():
    assert shown(record(5), command="top")[0].startswith("qosmanager 1.2.3, pid 42")


def test_classes_share_the_room_and_none_is_left_out():
    pods = status(with_pods(*many_pods(10), API), Settings(), About(version="", pid=1, started=0.0)).pods  # 6 LS, 5 BE
    assert rows_wanted(pods, None) == {"LS": 6, "BE": 5}
    assert rows_wanted(pods, 3 + 3) == {"LS": 2, "BE": 1}
    assert rows_wanted(pods, 0) == {"LS": 0, "BE": 0}
    assert rows_wanted(pods, 99) == {"LS": 6, "BE": 5}


@pytest.mark.parametrize(("seconds", "text"), [(59.9, "59 s"), (60, "1 min"), (3600, "1 h 0 min"), (90061, "1 d 1 h")])
def test_spans(seconds, text):
    assert span(seconds) == text


class Terminal:
    """`qosmanager top` on a terminal of its own."""

    def __init__(self, *arguments, term="xterm"):
        self.master, slave = pty.openpty()
        os.set_blocking(self.master, False)
        command = [sys.executable, "-m", "qosmanager", "top", *arguments]
        environment = {**os.environ, "TERM": term, "COLUMNS": "80", "LINES": "24"}
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True)
        os.close(slave)
        self.text = ""

    def read_until(self, text):
        deadline = time.monotonic() + 60
        while text not in self.text and time.monotonic() < deadline:
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.text += os.read(self.master, 65536).decode()
                except OSError:
                    break
        assert text in self.text

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)


@pytest.fixture
def terminal():
    opened = []

    def begin(*arguments, **given):
        opened.append(Terminal(*arguments, **given))
        return opened[-1]

    yield begin
    for each in opened:
        each.close()


def test_top_refreshes_says_when_the_agent_is_gone_and_leaves_on_q(terminal):
    with agent(record(5)) as server:
        watching = terminal("--url", server.url, "--interval", "0.1")
        watching.read_until("cycle 5 took")
    watching.read_until("NO ANSWER since 08:00:05Z")
    os.write(watching.master, b"q")
    watching.read_until("\x1b[?1049l")  # the terminal's own screen again
    assert watching.process.wait(60) == 0


def test_top_on_a_dumb_terminal_is_one_screen(terminal):
    with agent(record(5)) as server:
        watching = terminal("--url", server.url, term="dumb")
        watching.read_until("newest first")
        assert watching.process.wait(60) == 0


def test_a_dry_run_is_shown():
    about = About(version="1", pid=1, started=0.0, dry_run=True)
    moment = Moment(status=status(record(), Settings(), about), decisions=())
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(screen(moment, Room(100)))
    assert "DRY RUN it decides and reports, and changes nothing\n" in console.export_text()


def test_a_recording_that_has_stopped_and_another_configuration_are_told():
    recording = RecordingView(directory="/r", cycles=7, bytes=1000, lost=0, stopped="No space left on device")
    shadow = replace(Shadow("other.yaml", Settings(), State()).view, cycles=9, differing=4, differences=("level LOW instead of HIGH",))
    board = Board(About(version="1.2.3", pid=42, started=WALL - 60), Settings())
    board.publish(record(1), Settings())
    board.show(lambda: Beside(recording=recording, shadow=replace(shadow, evictions={"MemoryEvict": 2})))
    with Server(board, Listen("127.0.0.1", 0)) as server:
        said = run("status", "--url", server.url, columns=140).output
    assert "NOT RECORDED any more in /r: No space left on device\n" in said
    assert "BESIDE other.yaml: level LOW instead of HIGH; so far it differed in 4 of 9 cycles and would have evicted 2\n" in said


def test_whose_word_on_the_pods_counts_is_shown_and_how_old_it_is():
    cluster = ClusterView(node_name="worker-1", origin="kubelet", age=125.0, pods=3, problems=("pods from api: no route", "another"))
    about = About(version="1", pid=1, started=0.0)
    moment = Moment(status=status(record(), Settings(), about, Beside(cluster=cluster)), decisions=())
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(screen(moment, Room(100)))
    assert "cluster 3 pods of worker-1 by the kubelet, 2 min old; pods from api: no route\n" in console.export_text()


def test_what_stands_in_the_kernel_is_shown_and_what_is_refused_with_its_reason():
    knobs = (
        Knob("BE CPU weight", KnobState.IN_FORCE, ""),
        Knob("LS kernel burst", KnobState.REFUSED, "EINVAL"),
        Knob("x", KnobState.OFF, ""),
    )
    about = About(version="1", pid=1, started=0.0)
    moment = Moment(status=status(record(), Settings(), about, Beside(isolation=knobs)), decisions=())
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(screen(moment, Room(100)))
    text = console.export_text()
    assert "IN THE KERNEL BE CPU weight\n" in text
    assert "REFUSED LS kernel burst: EINVAL\n" in text
