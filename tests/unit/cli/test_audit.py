import json
import os
from contextlib import ExitStack

import msgspec
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from qosmanager.cli.audit import audited, opened, read_audit
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
INTENDED = replace(BEGUN, receipts=())
OVER = record(
    3,
    outcomes=(
        Outcome(plugin=Plugin.CPU_EVICT, kind="evict", target="batch/crunch", verdict=Verdict.EFFECTIVE, since=101.0, detail="gone"),
    ),
)


def begun(tmp_path, behind, stack):
    return audited(opened(tmp_path / "audit.log", tmp_path), behind, stack)


def agent(tmp_path, *records):
    """An agent's life: its cycles, then a clean stop."""
    behind = Behind()
    with ExitStack() as stack:
        auditor = begun(tmp_path, behind, stack)
        for each in records:
            auditor.cycle_done(each, Settings())
    return behind


def killed(tmp_path, *steps):
    """An agent's life that ends with a kill after these steps: what was noted then is what its successor finds."""
    with ExitStack() as stack:
        auditor = begun(tmp_path, Behind(), stack)
        for step in steps:
            step(auditor)
        note = (tmp_path / "evictions.json").read_bytes()
    (tmp_path / "evictions.json").write_bytes(note)


def noted(tmp_path):
    return [(line["pod"], line["outcome"]) for line in json.loads((tmp_path / "evictions.json").read_text())]


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
    killed(tmp_path, lambda auditor: auditor.about_to_evict(INTENDED))
    agent(tmp_path)
    agent(tmp_path)
    (line,) = read_audit(tmp_path / "audit.log")
    assert (line.pod, line.reason, line.outcome) == ("batch/crunch", EVICT_CPU.reason, "unknown")


def test_what_was_intended_and_went_on_is_one_line(tmp_path):
    with ExitStack() as stack:
        auditor = begun(tmp_path, Behind(), stack)
        auditor.about_to_evict(INTENDED)
        for each in (BEGUN, OVER):
            auditor.cycle_done(each, Settings())
    agent(tmp_path)
    assert outcomes(tmp_path) == [("batch/crunch", "effective")]


def test_an_eviction_that_is_over_gets_no_second_line_when_the_log_was_moved_away(tmp_path):
    with ExitStack() as stack:
        auditor = begun(tmp_path, Behind(), stack)
        auditor.about_to_evict(INTENDED)
        for each in (BEGUN, OVER):
            auditor.cycle_done(each, Settings())
    (tmp_path / "audit.log").rename(tmp_path / "audit.log-20270116")
    agent(tmp_path)
    assert outcomes(tmp_path) == []


def test_what_was_intended_and_not_begun_is_not_noted_for_long(tmp_path):
    with ExitStack() as stack:
        auditor = begun(tmp_path, Behind(), stack)
        auditor.about_to_evict(INTENDED)
        assert noted(tmp_path) == [("batch/crunch", "")]
        auditor.cycle_done(replace(BEGUN, receipts=(receipt(0, Result.UNCHANGED, target="batch/crunch"),)), Settings())
    assert (noted(tmp_path), outcomes(tmp_path)) == ([], [])


def test_a_cycle_that_failed_after_it_may_have_evicted_leaves_a_line(tmp_path):
    behind = Behind()
    with ExitStack() as stack:
        auditor = begun(tmp_path, behind, stack)
        auditor.about_to_evict(INTENDED)
        auditor.cycle_failed(error := OSError("no memory"))
        auditor.cycle_failed(error)
    (line,) = read_audit(tmp_path / "audit.log")
    assert (line.pod, line.outcome, line.detail) == ("batch/crunch", "unknown", "the cycle that began it failed")
    assert behind.seen == [error, error]


def test_a_kill_while_the_disk_is_full_loses_neither_what_is_over_nor_what_is_under_way(tmp_path):
    other = replace(INTENDED, number=4, wall=INTENDED.wall + 3, plan=replace(BEGUN.plan, actions=(replace(EVICT_CPU, pod="batch/silent"),)))

    def fill(auditor):
        del auditor
        (tmp_path / "audit.log").unlink()
        (tmp_path / "audit.log").mkdir()

    steps = (fill, *(lambda auditor, each=each: auditor.cycle_done(each, Settings()) for each in (BEGUN, OVER)))
    killed(tmp_path, *steps, lambda auditor: auditor.about_to_evict(other))
    assert noted(tmp_path) == [("batch/crunch", "effective"), ("batch/silent", "")]
    (tmp_path / "audit.log").rmdir()
    agent(tmp_path)
    assert outcomes(tmp_path) == [("batch/crunch", "effective"), ("batch/silent", "unknown")]
    assert noted(tmp_path) == []


def test_what_was_seen_gone_is_not_said_to_be_cut_off(tmp_path):
    gone = record(2, receipts=(receipt(None, Result.GONE, target="batch/crunch"),))
    agent(tmp_path, BEGUN, gone)
    (line,) = read_audit(tmp_path / "audit.log")
    (tmp_path / "audit.log").unlink()
    (tmp_path / "evictions.json").write_bytes(msgspec.json.encode([replace(line, outcome="", detail="")]))
    agent(tmp_path)
    (line,) = read_audit(tmp_path / "audit.log")
    assert (line.outcome, line.detail) == ("unknown", "it was seen gone; what that was good for has not been judged")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_has_the_name_of_an_older_file_and_is_none_stops_nobody(tmp_path, make):
    killed(tmp_path, lambda auditor: auditor.about_to_evict(INTENDED))
    make(tmp_path / "audit.log.1")
    agent(tmp_path)
    assert outcomes(tmp_path) == [("batch/crunch", "unknown")]


def test_older_files_that_cannot_be_read_stop_nobody_and_that_is_said(tmp_path, caplog):
    killed(tmp_path, lambda auditor: auditor.about_to_evict(INTENDED))
    log = opened(tmp_path / "audit.log", tmp_path)
    (tmp_path / "audit.log").unlink()  # whoever opens it to read finds nothing
    with ExitStack() as stack:
        audited(log, Behind(), stack)
    assert outcomes(tmp_path) == [("batch/crunch", "unknown")]
    assert f"AuditUnread file={tmp_path}/audit.log" in caplog.text


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


def test_explain_says_for_how_many_a_line_stands(tmp_path):
    failing = [record(number, actions=(EVICT_CPU,), receipts=(receipt(0, Result.FAILED, target="batch/crunch"),)) for number in range(1, 5)]
    agent(tmp_path, *failing)
    first, last = explain(tmp_path).output.split("\n\n")[:2]
    assert "alike" not in first
    assert "  alike    2 others in the hour before, for the same reason" in last.splitlines()


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
