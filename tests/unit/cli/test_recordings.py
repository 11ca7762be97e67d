"""`qosmanager replay` and `qosmanager record`: what a person is told of a recording."""

import csv
import io
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from qosmanager.cli.main import main
from qosmanager.model.actions import Evict
from recordings import run, written

CYCLES = run(130)
KEPT = Path(__file__).parents[2] / "kept"


@pytest.fixture(scope="module")
def tape(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tape")
    written(directory, CYCLES[:100])
    written(directory, CYCLES[100:])
    return directory


def call(*arguments, code=0):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == code, (done.output, done.exception)
    assert "Traceback" not in done.output
    return done


def test_a_replay_that_comes_out_the_same_says_so(tape):
    said = call("replay", tape).stdout
    assert said == ("130 cycles in 2 files, 2027-01-15T08:00:01.000Z to 2027-01-15T08:02:10.000Z (2 min): every plan is the same\n")


def test_a_difference_is_shown_with_its_time_and_both_values(tmp_path):
    cycle = CYCLES[3]
    spoilt = replace(cycle, record=replace(cycle.record, plan=replace(cycle.record.plan, degraded=("node_stale",))))
    written(tmp_path, [*CYCLES[:3], spoilt, *CYCLES[4:10]])
    assert call("replay", tmp_path, code=1).stdout == (
        "cycle 4 at 2027-01-15T08:00:04.000Z: plan.degraded[0] is not the same\n"
        "  recorded  node_stale\n"
        "  now       nothing\n"
        "3 cycles before it came out the same; `--at 2027-01-15T08:00:04.000Z` explains this one\n"
    )


def test_a_difference_to_a_recording_by_earlier_rules_is_said_to_be_no_fault():
    said = call("replay", KEPT / "recording-0.1.0.qosrec", code=1).stdout
    assert "is not the same" in said
    assert "it was recorded under rules 1 (qosmanager 0.1.0) and is decided by rules 3 now: a difference is no fault" in said


def test_one_cycle_is_explained_with_what_came_of_it(tape):
    number = next(cycle.record.number for cycle in CYCLES if any(isinstance(a, Evict) for a in cycle.record.plan.actions))
    said = call("replay", tape, "--at", f"2027-01-15T08:{number // 60:02}:{number % 60:02}Z").stdout
    assert said.startswith(f"cycle {number} at 2027-01-15T08:01:51.000Z, recorded by qosmanager 0.1.0\n")
    assert "Memory pressure" in said
    assert "MemoryEvict: evict batch/scan" in said
    assert "What was done, and what came of it" in said
    assert "outcome  pending at 08:01:52Z: still here after 1 s" in said


@pytest.mark.parametrize("at", ["08:00:10", "2027-01-15T08:00:10Z", "2027-01-15T09:00:10+01:00", "1800000010", "08:00:10.9"])
def test_a_time_may_be_written_in_many_ways(tape, at):
    assert call("replay", tape, "--at", at).stdout.startswith("cycle 10 at 2027-01-15T08:00:10.000Z")


def test_a_time_after_the_last_cycle_is_told_how_far(tape):
    assert "This is the last cycle before 2027-01-15T09:00:00.000Z, 57 min before it" in call("replay", tape, "--at", "09:00:00").stdout


def test_a_time_before_the_first_cycle_is_told(tape):
    said = call("replay", tape, "--at", "07:00:00", code=1).output
    assert said == "no cycle was recorded at or before 2027-01-15T07:00:00.000Z; the recording begins at 2027-01-15T08:00:01.000Z\n"


@pytest.mark.parametrize("at", ["noon", "nan", "inf", "1e20", "-1e308"])
def test_a_time_that_is_none_is_refused(tape, at):
    assert f"--at {at}: a time such as" in call("replay", tape, "--at", at, code=2).output


def test_a_torn_file_is_told_and_read_as_far_as_it_is_whole(tmp_path):
    path = written(tmp_path, CYCLES[:50])
    path.write_bytes(path.read_bytes()[:-40])
    done = call("replay", path)
    assert "every plan is the same" in done.stdout
    assert "the file ends in the middle of a block" in done.stderr
    assert "what follows in this file is lost" in done.stderr


def test_a_damaged_file_among_others_costs_only_itself(tmp_path):
    written(tmp_path, CYCLES[:40])
    path = written(tmp_path, CYCLES[40:50])
    path.write_bytes(b"x" + path.read_bytes()[1:])
    written(tmp_path, CYCLES[50:60])
    done = call("replay", tmp_path)
    assert done.stdout.startswith("50 cycles in 3 files")
    assert f"{path}: this is no recording of qosmanager, at byte 0" in done.stderr


@pytest.mark.parametrize("command", [["replay"], ["record", "info"], ["record", "export"]])
def test_what_is_no_recording_is_one_line(tmp_path, command):
    (tmp_path / "x").write_text("hello")
    after = ["-"] if command[-1] == "export" else []
    for path, why in ((tmp_path / "x", "no recording of qosmanager"), (tmp_path / "y", "No such file"), (tmp_path, "no recording in this")):
        done = call(*command, path, *after, code=2)
        assert why in done.output
        assert len(done.output.splitlines()) == 1


def test_info_says_what_there_is(tape):
    said = call("record", "info", tape).stdout
    assert "span       2027-01-15T08:00:01.000Z to 2027-01-15T08:02:10.000Z (2 min)\n" in said
    assert "cycles     130, of 1 configuration\n" in said
    assert "pods       2 to 4\n" in said
    assert "version    0.1.0\n" in said
    assert "gaps       0\n" in said
    assert "MemoryEvict batch/scan: applied, " in said
    assert ".qosrec: 100 cycles, " in said


def test_info_as_data_has_all(tmp_path):
    written(tmp_path, [*CYCLES[:30], *CYCLES[60:]])
    found = json.loads(call("record", "info", tmp_path, "--output", "json").stdout)
    assert found["gaps"] == [{"after": 1800000030.0, "until": 1800000061.0, "from_cycle": 30, "to_cycle": 61}]
    assert (found["cycles"], found["pods_least"], found["pods_most"]) == (100, 2, 4)
    evictions = [a for cycle in CYCLES for a in cycle.record.plan.actions if isinstance(a, Evict)]
    assert [each["pod"] for each in found["evictions"]] == [action.pod for action in evictions]
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert found["bytes"] == size
    assert found["bytes_per_day"] == pytest.approx(size / (29 + 69) * 86_400, rel=0.001)


def test_cycles_are_a_table_of_what_was_measured_judged_and_held(tape):
    rows = list(csv.DictReader(io.StringIO(call("record", "export", tape, "-").stdout)))
    assert len(rows) == 130
    last = CYCLES[-1].record
    assert rows[-1]["time"] == "2027-01-15T08:02:10.000Z"
    assert float(rows[-1]["cpu_usage"]) == last.snapshot.node.cpu_usage
    assert float(rows[-1]["cpu_score"]) == last.assessment.cpu.score
    assert rows[-1]["level"] == last.plan.level.value
    assert float(rows[-1]["be_limit"]) == last.state.be_limit
    assert rows[-1]["iowait"] == ""


def test_pods_and_actions_are_tables_too(tape):
    pods = list(csv.DictReader(io.StringIO(call("record", "export", tape, "-", "--table", "pods").stdout)))
    assert len(pods) == sum(len(cycle.record.snapshot.pods) for cycle in CYCLES)
    assert pods[0]["pod"] == "shop/api"
    assert float(pods[0]["latency_p99"]) == CYCLES[0].record.snapshot.pods[0].latency.p99
    actions = list(csv.DictReader(io.StringIO(call("record", "export", tape, "-", "--table", "actions").stdout)))
    assert len(actions) == sum(len(cycle.record.plan.actions) for cycle in CYCLES)
    assert {row["result"] for row in actions} == {"applied"}


def test_parquet_holds_the_same(tape, tmp_path):
    import pyarrow.parquet as pq  # noqa: PLC0415 - large, and only for this

    for table in ("cycles", "pods", "actions"):
        file = tmp_path / f"{table}.parquet"
        call("record", "export", tape, file, "--table", table)
        rows = list(csv.DictReader(io.StringIO(call("record", "export", tape, "-", "--table", table).stdout)))
        found = pq.read_table(file)
        assert found.column_names == list(rows[0])
        assert found.num_rows == len(rows)
        for name in found.column_names:
            assert [_written(value) for value in found[name].to_pylist()] == [row[name] for row in rows]


def _written(value) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and value == int(value) == 0:
        return "0.0"
    return "" if value is None else str(value)


def test_without_pyarrow_the_extra_is_named(tape, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = call("record", "export", tape, tmp_path / "x.parquet", code=2).output
    assert "Parquet needs the extra `parquet`: " in said
    assert " -m pip install 'backports.zstd>=1.0' 'pyarrow>=18'" in said


@pytest.mark.parametrize("command", [["replay", "x"], ["record", "info", "x"], ["record", "export", "x", "-"]])
def test_without_zstd_the_extra_is_named(command, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("qosmanager.record.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    monkeypatch.setitem(sys.modules, "backports", None)
    said = call(*command, code=2).output
    assert f"recordings need the extra `record`: {sys.executable} -m pip install 'backports.zstd>=1.0'" in said


def test_a_format_that_is_not_known_is_refused(tape, tmp_path):
    assert "it ends in .csv or .parquet, or is - for CSV" in call("record", "export", tape, tmp_path / "x.xlsx", code=2).output


def test_a_file_that_cannot_be_written_is_one_line(tape, tmp_path):
    for name in ("x.csv", "x.parquet"):
        assert "cannot be written: No such file or directory" in call("record", "export", tape, tmp_path / "none" / name, code=1).output


def test_a_demo_without_an_agent_cannot_be_recorded(tmp_path):
    assert "no agent runs that could be recorded" in call("demo", "--recorded", "--record", tmp_path, code=2).output
