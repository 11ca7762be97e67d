"""What a single cycle's evictions came to before the command ends."""

from __future__ import annotations

import pytest

from acting import evict
from measuring import HandClock
from qosmanager.cli.conclusion import concluded
from qosmanager.execute.actuator import Recorder
from qosmanager.model.actions import Plan, Receipt, Result
from records import record

PODS = ("batch/a", "batch/b", "batch/c", "batch/d")
BEGUN = (
    *(Receipt(target=pod, pod=pod, result=Result.APPLIED, action=number, detail="under way") for number, pod in enumerate(PODS[:3])),
    Receipt(target="batch/d", pod="batch/d", result=Result.FAILED, action=3, detail="no process is left in its group"),
)


class Ending(Recorder):
    """One pod goes at the first look, one cannot at the second, one is the API server's affair."""

    def __init__(self):
        self.left = [frozenset(PODS[:3]), frozenset(PODS[1:3]), frozenset()]
        self.told = [
            (Receipt(target="batch/a", result=Result.GONE, detail="no process is left"),),
            (Receipt(target="batch/b", result=Result.FAILED, detail="still there"),),
            (),
        ]

    def unsettled(self):
        return self.left.pop(0)

    def follow(self, _now):
        return self.told.pop(0)


@pytest.fixture
def cycle():
    return record(plan=Plan(actions=tuple(map(evict, PODS))), receipts=BEGUN)


def test_it_waits_until_of_every_pod_it_is_known_whether_it_goes(cycle):
    conclusion = concluded(Ending(), HandClock(), lambda: False)
    assert list(conclusion.lines(cycle)) == [
        "eviction of batch/a: gone, no process is left",
        "eviction of batch/b: failed, still there",
        "eviction of batch/c: accepted by the API server, which sees to it",
        "eviction of batch/d: failed, no process is left in its group",
    ]
    assert [each.target for each in conclusion.after(cycle).receipts] == ["batch/a", "batch/b"]


def test_a_signal_ends_the_wait_and_what_is_not_known_is_said(cycle):
    conclusion = concluded(Ending(), HandClock(), lambda: True)
    assert list(conclusion.lines(cycle))[1:3] == [
        "eviction of batch/b: not known, a signal ended the wait",
        "eviction of batch/c: not known, a signal ended the wait",
    ]


def test_what_is_only_recorded_has_come_to_nothing(cycle):
    receipts = Recorder().apply(cycle.plan, *[None] * 3)
    assert list(concluded(Recorder(), HandClock(), lambda: False).lines(record(plan=cycle.plan, receipts=receipts))) == []
