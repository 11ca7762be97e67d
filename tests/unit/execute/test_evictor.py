from __future__ import annotations

import pytest
from msgspec.structs import replace

from acting import evict
from qosmanager.execute.actuator import Recorder
from qosmanager.execute.evictor import Evictor
from qosmanager.model.actions import Plan, Result
from qosmanager.model.qos import Mode, QoS
from qosmanager.model.snapshot import Node, Snapshot
from qosmanager.model.workload import Placement, Workload
from qosmanager.ports import EvictionProgress


class Backend:
    def __init__(self):
        self.begun = []
        self.error = ""
        self.progress = {}

    def begin(self, action, workload, now):
        self.begun.append((action.pod, workload.cgroup, now))
        return self.error

    def unsettled(self):
        return frozenset()

    def poll(self, _now):
        progress, self.progress = self.progress, {}
        return progress


PLACEMENT = Placement(
    workloads={
        "default/job": Workload(name="job", qos=QoS.BE, cgroup="be/job", uid="u1"),
        "default/api": Workload(name="api", qos=QoS.LS, cgroup="api"),
    }
)


@pytest.fixture
def backend():
    return Backend()


@pytest.fixture
def evictor(backend):
    return Evictor(backend)


def apply(evictor, *actions):
    return [(each.result, each.action, each.pod) for each in evictor.apply(Plan(actions=actions), PLACEMENT, 5.0)]


def test_eviction_begins_once_and_ends_once(evictor, backend):
    assert apply(evictor, evict("default/job")) == [(Result.APPLIED, 0, "default/job")]
    assert apply(evictor, evict("default/job")) == [(Result.UNCHANGED, 0, "default/job")]
    assert backend.begun == [("default/job", "be/job", 5.0)]
    backend.progress = {"default/job": EvictionProgress(done=False)}
    assert apply(evictor) == []
    backend.progress = {"default/job": EvictionProgress(done=True)}
    assert apply(evictor) == [(Result.GONE, None, "default/job")]
    assert apply(evictor, evict("default/job")) == [(Result.APPLIED, 0, "default/job")]


def test_the_end_of_a_pod_is_not_that_of_its_successor(evictor, backend):
    def cycle(uid):
        job = replace(PLACEMENT.workloads["default/job"], uid=uid)
        plan = Plan(actions=(replace(evict("default/job"), uid=uid),))
        return [(each.result, each.action, each.uid) for each in evictor.apply(plan, Placement(workloads={"default/job": job}), 5.0)]

    assert cycle("u1") == [(Result.APPLIED, 0, "")]
    # Chosen while the first one still ends: nobody has begun with this one.
    assert cycle("u2") == [(Result.APPLIED, 0, "")]
    backend.progress = {"default/job": EvictionProgress(done=True)}
    assert cycle("u3") == [(Result.GONE, None, "u2"), (Result.APPLIED, 0, "")]
    backend.progress = {"default/job": EvictionProgress(done=False, error="stuck")}
    assert cycle("u4") == [(Result.FAILED, None, "u3"), (Result.APPLIED, 0, "")]
    assert len(backend.begun) == 4


def test_what_cannot_begin_or_end_is_a_failure(evictor, backend):
    backend.error = "no"
    assert apply(evictor, evict("default/job")) == [(Result.FAILED, 0, "default/job")]
    backend.error = ""
    apply(evictor, evict("default/job"))
    backend.progress = {"default/job": EvictionProgress(done=False, error="stuck")}
    assert apply(evictor) == [(Result.FAILED, None, "default/job")]


def test_only_be_pods_are_evicted(evictor, backend):
    assert apply(evictor, evict("default/api")) == [(Result.REFUSED, 0, "default/api")]
    assert backend.begun == []


def test_pods_that_are_not_there_are_gone(evictor):
    assert apply(evictor, evict("default/none")) == [(Result.GONE, 0, "default/none")]
    assert apply(evictor, replace(evict("default/job"), uid="u2")) == [(Result.GONE, 0, "default/job")]


def test_observed_and_dry_run_evictions_only_record(evictor, backend):
    assert apply(evictor, replace(evict("default/job"), mode=Mode.OBSERVE)) == [(Result.RECORDED, 0, "default/job")]
    (receipt,) = Recorder().apply(Plan(actions=(evict("default/job"),)), PLACEMENT, Snapshot(node=Node(cpus=1)), 0.0)
    assert (receipt.result, receipt.target) == (Result.RECORDED, "default/job")
    assert backend.begun == []
