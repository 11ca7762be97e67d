from msgspec.structs import replace
from rich.console import Console

from qosmanager.config.settings import Settings
from qosmanager.demo.live import SETTINGS
from qosmanager.demo.screen import closing, decision, line, live
from qosmanager.demo.story import ALONE, MANAGED, QUIET, UNMANAGED, Difference, Measured, Now, Proof, stages
from qosmanager.model.actions import Result
from qosmanager.views.decisions import Decisions
from qosmanager.views.status import About, status
from records import EVICT_MEMORY, LIMIT, outcome, receipt, record


def text(renderable, width=140):
    console = Console(width=width, height=50, record=True, file=open("/dev/null", "w"))  # noqa: SIM115 - closed below
    console.print(renderable)
    console.file.close()
    return console.export_text()


def now(**fields):
    decisions = Decisions()
    decisions.observe(record(1, actions=(LIMIT, EVICT_MEMORY), receipts=(receipt(0, Result.APPLIED), receipt(1, Result.APPLIED))))
    decisions.observe(record(3, outcomes=(outcome(101.0),)))
    base = Now(
        stage=stages(120.0, 200.0, 400.0)[5],
        index=5,
        count=8,
        left=12.4,
        settings="shortened: syncPeriod 500ms",
        p50=3.14,
        p99=25.0,
        slo=20.0,
        history=(5.0, 25.0, None),
        ls_cores=0.5,
        be_cores=0.58,
        status=status(record(3), Settings(), About(version="1", pid=1, started=0.0)),
        decisions=decisions.last(10),
    )
    return replace(base, **fields)


def test_the_screen_shows_measured_scored_decided_and_why():
    shown = text(live(now(), 50))
    for part in ("BE managed", "p50 3.1  p99 25.0 ms, SLO 20.0", "limit 0.60 cores", "BE 0.58 cores", "30.0 HIGH", "usage 30.0"):
        assert part in shown
    rows = [row.strip("│ ") for row in shown.splitlines()]
    newest = rows.index("08:00:01 MemoryEvict evict batch/crunch")
    assert rows[newest + 1] == "12 s left"
    assert rows[newest + 2] == "08:00:01 CPUSuppress set_be_cpu_limit BE 0.60 cores  effective"
    assert rows[newest + 3] == "target 0.6 = 1.2 x 0.5"
    assert "shortened: syncPeriod 500ms" in shown


def test_a_small_terminal_has_the_whole_screen_with_fewer_decisions():
    shown = text(live(now(), 24), width=80).rstrip("\n").splitlines()
    assert len(shown) == 24
    assert [line[0] for line in shown if line[0] != "│"] == ["╭", "╰"] * 4
    assert "batch gets what the service leaves" in shown[2]


def test_the_longest_lines_fit_80_columns():
    for stage in stages(120.0, 200.0, 400.0):
        shown = text(live(now(stage=stage, settings=SETTINGS), 24), width=80)
        assert stage.what in shown
        assert SETTINGS in shown


def test_the_slo_signal_comes_with_the_latency_it_rests_on():
    assert "SLO ok (its own p99 40.0 ms)" in text(live(now(), 50))


def test_the_same_again_is_counted():
    decisions = Decisions()
    for number in (1, 2, 3):
        decisions.observe(record(number, actions=(replace(LIMIT, reason=f"step {number}"),)))
    assert "CPUSuppress set_be_cpu_limit BE 0.60 cores, 3 times " in text(live(now(decisions=decisions.last(10)), 50))


def test_steps_that_end_where_they_began_are_steps():
    decisions = Decisions()
    for number, cores in ((1, 0.8), (2, 0.7), (3, 0.8)):
        decisions.observe(record(number, actions=(replace(LIMIT, cores=cores),)))
    assert "BE 0.80 .. 0.80 cores in 3 steps" in text(live(now(decisions=decisions.last(10)), 50))


def test_steps_of_a_slow_rise_are_put_together():
    decisions = Decisions()
    for number, cores in ((1, 0.6), (2, 0.7), (3, 0.8)):
        decisions.observe(record(number, actions=(replace(LIMIT, cores=cores, reason=f"step {number}"),)))
    shown = text(live(now(decisions=decisions.last(10)), 50))
    assert "08:00:03 CPUSuppress set_be_cpu_limit BE 0.60 .. 0.80 cores in 3 steps" in shown
    assert "step 3" in shown
    assert "step 1" not in shown


def test_the_screen_keeps_its_height():
    full, empty = text(live(now(), 50)), text(live(now(decisions=()), 50))
    assert full.count("\n") == empty.count("\n")


def test_without_an_agent_nobody_decides():
    shown = text(live(now(status=None, decisions=()), 50))
    assert "no agent in this part" in shown
    assert "no limit" in shown


def test_what_is_not_known_is_a_dash():
    assert "p50 - p99 - | LS - BE - cores" in line(now(p50=None, p99=None, ls_cores=None, be_cores=None))


def test_lines_tell_the_same():
    assert line(now()) == (
        "[5/8] BE managed, quiet | 12 s left | p50 3.1 ms p99 25.0 ms | LS 0.50 BE 0.58 cores | cpu 30 memory 10 | level HIGH BE limit 0.60"
    )
    limit = next(entry for entry in now().decisions if entry.kind == "set_be_cpu_limit")
    assert decision(limit).strip() == "08:00:01 CPUSuppress set_be_cpu_limit BE 0.60 cores: target 0.6 = 1.2 x 0.5 [effective]"


def measured(part, p99, be, **fields):
    return Measured(
        key="k", part=part, name=QUIET, requests=100, p50=3.0, p99=p99, ls_cores=0.5, be_cores=be, other_cores=0.25, seconds=8.0, **fields
    )


def test_one_table_compares_the_three_parts():
    managed = measured(MANAGED, 9.0, 0.6, evictions=("x",), unanswered=2)
    shown = text(closing([measured(ALONE, 7.0, 0.0), measured(UNMANAGED, 31.0, 1.18), managed], [], None))
    rows = {row.split("│")[1].strip(): [cell.strip() for cell in row.split("│")[2:5]] for row in shown.splitlines() if row.count("│") == 5}
    assert rows["LS p50 / p99 ms, quiet"] == ["3.0 / 7.0", "3.0 / 31.0", "3.0 / 9.0"]
    assert rows["BE CPU cores, quiet"] == ["0.00", "1.18", "0.60"]
    assert rows["CPU cores of others"] == ["0.25", "0.25", "0.25"]
    assert rows["evictions"] == ["0", "0", "1"]
    assert rows["requests unanswered"] == ["0", "0", "2"]


def test_the_proof_says_none_or_names_each_file():
    assert "40 kernel values compared, 3 of them changed" in text(closing([], [], Proof(compared=40, changed=3, differ=())))
    shown = text(closing([], [], Proof(compared=40, changed=3, differ=(Difference("cpu:/x/cpu.shares", "1024", "2"),))))
    assert "NOT back" in shown
    assert "cpu:/x/cpu.shares" in shown
