"""Pods of which the running agent lacks a reading that a part of it needs."""

from __future__ import annotations

from msgspec.structs import replace

from qosmanager.config.settings import Settings
from qosmanager.doctor.findings import Mark
from qosmanager.doctor.pods import pod_findings
from qosmanager.model.qos import QoS
from qosmanager.model.snapshot import Pod
from qosmanager.views.status import About, status
from records import WALL, record

NO_FILE = "No such file or directory: /c/unified/a/cpu.pressure"


def of(missing: dict[str, str]):
    pods = (Pod(name="api", namespace="shop", qos=QoS.LS), *(Pod(name=f"job-{n}", namespace="batch", qos=QoS.BE) for n in range(5)))
    plain = record(1)
    seen = replace(plain, snapshot=replace(plain.snapshot, pods=pods, missing=missing))
    return pod_findings(status(seen, Settings(), About(version="1", pid=1, started=WALL)))


def test_nothing_is_said_of_pods_that_are_measured():
    assert of({"node.net_util": "no link", "pods.shop/api.latency.p99": "no source declared"}) == ()


def test_a_service_without_stall_files_is_not_listened_to():
    (found,) = of({"pods.shop/api.observed.cpu_psi_some": NO_FILE, "pods.batch/job-0.observed.cpu_psi_some": NO_FILE})
    assert (found.subject, found.mark) == ("PSI, services", Mark.DEGRADED)
    assert found.text.startswith(f"not of shop/api ({NO_FILE}); ")


def test_batch_without_a_memory_group_is_no_victim_of_memory_evict():
    (found,) = of({f"pods.batch/job-{n}.memory.rss": f"reason {n}" for n in range(5)})
    assert (found.subject, found.mark) == ("memory of BE", Mark.DEGRADED)
    assert found.text == "not of batch/job-0, batch/job-1, batch/job-2 and 2 more (reason 0); MemoryEvict finds no victim there"
