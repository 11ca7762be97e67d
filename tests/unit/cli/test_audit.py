import json
from contextlib import ExitStack

import msgspec
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from qosmanager.cli.audit import audited, read_audit
from qosmanager.cli.errors import CannotRunError
from qosmanager.cli.main import main
from qosmanager.config.settings import Settings
from qosmanager.model.actions import Outcome, Result, Verdict
from qosmanager.model.qos import Plugin
from records import EVICT_CPU, receipt, record


class Behind:
    def __init__(self):
        self.seen = []

    def cycle_done(self, record, settings):
        self.seen.append((record.number, settings))

    def cycle_failed(self, error):
        self.seen.append(error)


BEGUN = record(1, actions=(EVICT_CPU,), receipts=(receipt(0, Result.APPLIED, target="batch/crunch"),))
OVER = record(
    3,
    outcomes=(
        Outcome(plugin=Plugin.CPU_EVICT, kind="evict", target="batch/crunch", verdict=Verdict.EFFECTIVE, since=101.0, detail="gone"),
    ),
)


def agent(tmp_path, *records):
    """An agent's life: its cycles, then a clean stop."""
    behind = Behind()
    with ExitStack() as stack:
        auditor = audited(tmp_path / "audit.log", tmp_path, behind, stack)
        for each in records:
            auditor.cycle_done(each, Settings())
    return behind


def outcomes(tmp_path):
    return [(line.pod, line.outcome) for line in read_audit(tmp_path / "audit.log")]


def explain(tmp_path, *arguments):
    return CliRunner().invoke(main, ["explain", "--audit", "--state-dir", str(tmp_path), *arguments])


def test_an_eviction_is_one_line_and_the_listener_behind_is_told(tmp_path):
    behind = agent(tmp_path, BEGUN, record(2), OVER)
    assert outcomes(tmp_path) == [("batch/crunch", "effective")]
    assert [number for number, _ in behind.seen] == [1, 2, 3]
    assert json.loads((tmp_path / "evictions.json").read_text()) == []


def test_a_clean_stop_in_the_middle_is_told(tmp_path):
    agent(tmp_path, BEGUN)
    assert outcomes(tmp_path) == [("batch/crunch", "unknown")]


def test_what_a_kill_cut_off_is_finished_by_the_successor_once(tmp_path):
    agent(tmp_path, BEGUN)
    (line,) = read_audit(tmp_path / "audit.log")
    (tmp_path / "audit.log").unlink()
    (tmp_path / "evictions.json").write_bytes(msgspec.json.encode([replace(line, outcome="", detail="")]))
    agent(tmp_path)
    agent(tmp_path)
    assert outcomes(tmp_path) == [("batch/crunch", "unknown")]


def test_whom_a_kill_cut_off_before_the_cycle_was_over_is_told_by_the_successor_once(tmp_path):
    with ExitStack() as stack:
        auditor = audited(tmp_path / "audit.log", tmp_path, Behind(), stack)
        auditor.about_to_evict(replace(BEGUN, receipts=()))
        # killed here: neither the log nor the note of what is under way knows of it
    agent(tmp_path)
    agent(tmp_path)
    (line,) = read_audit(tmp_path / "audit.log")
    assert (line.pod, line.reason, line.outcome) == ("batch/crunch", EVICT_CPU.reason, "unknown")


def test_what_was_intended_and_went_on_is_one_line(tmp_path):
    with ExitStack() as stack:
        auditor = audited(tmp_path / "audit.log", tmp_path, Behind(), stack)
        auditor.about_to_evict(replace(BEGUN, receipts=()))
        for each in (BEGUN, OVER):
            auditor.cycle_done(each, Settings())
    agent(tmp_path)
    assert outcomes(tmp_path) == [("batch/crunch", "effective")]


def test_a_kill_between_the_line_and_the_note_writes_no_second_line(tmp_path):
    agent(tmp_path, BEGUN, OVER)
    (line,) = read_audit(tmp_path / "audit.log")
    (tmp_path / "evictions.json").write_bytes(msgspec.json.encode([replace(line, outcome="")]))
    agent(tmp_path)
    assert outcomes(tmp_path) == [("batch/crunch", "effective")]


@pytest.mark.parametrize("left", [b"", b"{", b'[{"pod": 1}]', b"\xff"])
def test_a_note_that_cannot_be_understood_stops_nobody(tmp_path, left):
    (tmp_path / "evictions.json").write_bytes(left)
    agent(tmp_path, BEGUN, OVER)
    assert outcomes(tmp_path) == [("batch/crunch", "effective")]


def test_a_log_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "audit.log").mkdir()
    with pytest.raises(CannotRunError, match=rf"--audit-log {tmp_path}/audit.log: Is a directory"):
        agent(tmp_path)


def test_explain_reads_it_without_an_agent(tmp_path):
    agent(tmp_path, BEGUN, OVER)
    done = explain(tmp_path)
    assert done.exit_code == 0
    assert (
        done.output
        == """\
2027-01-15T08:00:01Z CPUEvict batch/crunch: effective
  rule     short of 0.4 cores
  level    HIGH, score 30.0, SLO ok
  held     0.5 cores and 300Mi of memory
  outcome  gone after 2.0 s; gone

"""
    )
    assert [line["outcome"] for line in json.loads(explain(tmp_path, "--output", "json").output)] == ["effective"]


def test_explain_takes_one_pod_and_the_last_few(tmp_path):
    agent(tmp_path, BEGUN, OVER)
    (line,) = read_audit(tmp_path / "audit.log")
    with (tmp_path / "audit.log").open("ab") as file:
        file.write(b"not JSON\n" + msgspec.json.encode(replace(line, pod="batch/other")) + b"\n")
    assert [each["pod"] for each in json.loads(explain(tmp_path, "--output", "json").output)] == ["batch/crunch", "batch/other"]
    assert [each["pod"] for each in json.loads(explain(tmp_path, "--output", "json", "--last", "1").output)] == ["batch/other"]
    assert explain(tmp_path, "--pod", "crunch").output.count("batch/crunch") == 1
    assert explain(tmp_path, "--pod", "nobody").output == "No eviction is written down of nobody.\n"


def test_no_audit_log_is_one_line(tmp_path):
    done = explain(tmp_path)
    assert done.exit_code == 1
    assert done.stderr == f"qosmanager: {tmp_path}/audit.log: No such file or directory; --audit-log says where the agent keeps it\n"
