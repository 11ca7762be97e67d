"""The node judged: what stands in the way of what, and the fix."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qosmanager.config.settings import (
    CpuEvictSettings,
    CpuSuppressSettings,
    IsolationSettings,
    MemoryEvictSettings,
    Policy,
    Settings,
    Switch,
    Trigger,
)
from qosmanager.doctor.findings import Mark, findings
from qosmanager.doctor.host import Host, Kubelet, Trial
from qosmanager.doctor.plugins import Ability, plugin_findings
from qosmanager.model.qos import Mode

GIB = 1 << 30
YES = Trial(True, "can be written")
GOOD = Host(
    kernel="6.12.1",
    root=True,
    cgroup_root="/sys/fs/cgroup",
    versions={"cpu": 2, "cpuacct": 2, "cpuset": 2, "memory": 2, "freezer": 2, "unified": 2},
    writes={"cpu": YES, "cpuset": YES, "memory": YES},
    node_stall=YES,
    group_stall=YES,
    memory_total=64 * GIB,
    swap_total=0,
    synchronised=True,
    state_dir="/run/qosmanager",
    state_filesystem="tmpfs",
    state_write=YES,
    open_files=65536,
    oom_score=YES,
    systemd=True,
)


def marks(host: Host, settings: Settings | None = None) -> dict[str, Mark]:
    return {finding.subject: finding.mark for finding in findings(host, settings or Settings())}


def abilities(host: Host, settings: Settings | None = None) -> dict[str, Ability]:
    return {finding.plugin: finding.ability for finding in plugin_findings(host, settings or Settings())}


def fixes(host: Host) -> list[str]:
    return [finding.fix for finding in findings(host, Settings()) if finding.mark in (Mark.DEGRADED, Mark.IMPOSSIBLE)]


def test_a_good_node_has_nothing_in_the_way():
    assert set(marks(GOOD).values()) == {Mark.OK, Mark.NOTE}
    assert set(abilities(GOOD).values()) == {Ability.ACTIVE}


@pytest.mark.parametrize(
    ("changes", "subject", "mark"),
    [
        ({"kernel": "5.10.0-8-amd64"}, "kernel", Mark.DEGRADED),
        ({"kernel": "5.14.0"}, "kernel", Mark.OK),
        ({"cgroup_problem": "no cgroup hierarchy at /x", "versions": {}}, "cgroups", Mark.IMPOSSIBLE),
        ({"versions": {**GOOD.versions, "memory": None}}, "cgroups", Mark.IMPOSSIBLE),
        ({"root": False}, "rights", Mark.UNKNOWN),
        ({"writes": {"cpu": Trial(False, "Read-only file system")}}, "cpu limit", Mark.IMPOSSIBLE),
        ({"writes": {"cpu": Trial(None, "not tried: not root")}}, "cpu limit", Mark.UNKNOWN),
        ({"node_stall": Trial(False, "no /proc/pressure/cpu")}, "PSI, node", Mark.DEGRADED),
        ({"group_stall": Trial(False, "no cgroup v2 tree")}, "PSI, groups", Mark.DEGRADED),
        ({"swap_total": None}, "swap", Mark.UNKNOWN),
        ({"foreign": "koordlet runs"}, "other agents", Mark.IMPOSSIBLE),
        ({"synchronised": False}, "clock", Mark.NOTE),
        ({"state_write": Trial(False, "/run cannot be written")}, "state directory", Mark.IMPOSSIBLE),
        ({"state_filesystem": "ext4"}, "journal", Mark.DEGRADED),
        ({"state_filesystem": ""}, "journal", Mark.DEGRADED),
        ({"open_files": 1024}, "open files", Mark.DEGRADED),
        ({"open_files": 4096}, "open files", Mark.OK),
        ({"oom_score": Trial(False, "Read-only file system")}, "oom_score_adj", Mark.DEGRADED),
        ({"systemd": False}, "systemd", Mark.NOTE),
        ({"kubelet": Kubelet(static=None, problem="Permission denied")}, "kubelet CPUs", Mark.DEGRADED),
        ({"kubelet": Kubelet(static=True)}, "kubelet CPUs", Mark.OK),
        ({"kubelet": Kubelet(static=True, problem="no file")}, "kubelet eviction", Mark.UNKNOWN),
    ],
)
def test_each_fact_is_judged(changes, subject, mark):
    host = replace(GOOD, **changes)
    assert marks(host)[subject] is mark
    if mark in (Mark.DEGRADED, Mark.IMPOSSIBLE):
        assert all(fixes(host)), "what stands in the way has a fix"


@pytest.mark.parametrize(
    ("threshold", "least", "mark"),
    [
        # MemoryEvict waits for 10 percent of 64 GiB: 6.4 GiB.
        ("100Mi", 0.1, Mark.OK),
        ("7Gi", 0.1, Mark.DEGRADED),
        ("10%", 0.1, Mark.DEGRADED),
        ("5%", 0.1, Mark.OK),
        ("5%", 0.04, Mark.DEGRADED),
        ("what?", 0.1, Mark.OK),
    ],
)
def test_kubelet_must_not_evict_before_the_agent(threshold, least, mark):
    host = replace(GOOD, kubelet=Kubelet(static=False, eviction={"hard memory.available": threshold, "hard nodefs.available": "90%"}))
    assert marks(host, Settings(memory_evict=MemoryEvictSettings(min_available=least)))["kubelet eviction"] is mark


@pytest.mark.parametrize(
    ("changes", "impossible"),
    [
        ({"foreign": "koordlet runs"}, {"CPUBurst", "CPUSuppress", "CPUEvict", "MemoryEvict"}),
        ({"state_write": Trial(False, "no")}, {"CPUBurst", "CPUSuppress", "CPUEvict", "MemoryEvict"}),
        ({"writes": {"cpu": Trial(False, "no")}}, {"CPUBurst", "CPUSuppress"}),
        ({"versions": {**GOOD.versions, "cpu": None}}, {"CPUBurst", "CPUSuppress"}),
        ({"versions": {**GOOD.versions, "memory": None}}, {"MemoryEvict"}),
        ({"group_stall": Trial(False, "no")}, {"CPUEvict"}),
        ({"versions": {"memory": 1}, "writes": {}}, {"SystemQOSResource", "CPUBurst", "CPUSuppress"}),
    ],
)
def test_what_a_plugin_cannot_do_without(changes, impossible):
    found = abilities(replace(GOOD, **changes))
    assert {name for name, ability in found.items() if ability is Ability.IMPOSSIBLE} == impossible


def test_either_trigger_needs_no_waiting():
    settings = Settings(cpu_evict=CpuEvictSettings(trigger=Trigger.EITHER))
    assert abilities(replace(GOOD, group_stall=Trial(False, "no")), settings)["CPUEvict"] is Ability.DEGRADED


def test_the_cpuset_policy_needs_cpusets_not_quotas():
    settings = Settings(cpu_suppress=CpuSuppressSettings(policy=Policy.CPUSET))
    without_quota = replace(GOOD, writes={"cpu": Trial(False, "no"), "cpuset": YES})
    assert abilities(without_quota, settings)["CPUSuppress"] is Ability.ACTIVE
    assert abilities(replace(GOOD, writes={"cpu": YES, "cpuset": Trial(False, "no")}), settings)["CPUSuppress"] is Ability.IMPOSSIBLE
    for static, ability in ((True, Ability.DEGRADED), (None, Ability.DEGRADED), (False, Ability.ACTIVE)):
        host = replace(GOOD, kubelet=Kubelet(static=static), versions={**GOOD.versions, "cpuset": 1})
        assert abilities(host, settings)["CPUSuppress"] is ability


def test_without_root_nothing_is_called_impossible_that_was_not_tried():
    host = replace(GOOD, root=False, writes={"cpu": Trial(None, "not tried: not root")})
    found = abilities(host)
    assert {name for name, ability in found.items() if ability is Ability.UNKNOWN} == {"CPUBurst", "CPUSuppress", "CPUEvict", "MemoryEvict"}
    assert Ability.IMPOSSIBLE not in found.values()


def test_memory_eviction_goes_on_without_stalls_and_scores():
    assert abilities(replace(GOOD, node_stall=Trial(False, "no")))["MemoryEvict"] is Ability.DEGRADED
    assert abilities(replace(GOOD, oom_score=Trial(False, "no")))["MemoryEvict"] is Ability.DEGRADED


def test_modes_are_told_and_an_observer_that_could_not_act_is_impossible():
    settings = Settings(cpu_evict=CpuEvictSettings(mode=Mode.OFF), cpu_suppress=CpuSuppressSettings(mode=Mode.OBSERVE))
    found = abilities(GOOD, settings)
    assert (found["CPUEvict"], found["CPUSuppress"]) == (Ability.OFF, Ability.OBSERVES)
    found = abilities(replace(GOOD, foreign="koordlet runs"), settings)
    assert (found["CPUEvict"], found["CPUSuppress"]) == (Ability.OFF, Ability.IMPOSSIBLE)


@pytest.mark.parametrize(
    ("isolation", "mark"),
    [
        (IsolationSettings(), Mark.NOTE),
        (IsolationSettings(memory=Switch.AUTO), Mark.DEGRADED),
    ],
)
def test_a_knob_that_is_not_there_is_a_lack_only_where_it_is_asked_for(isolation, mark):
    host = replace(GOOD, knobs={"memory: memory.low, high": Trial(False, "cgroup v1 has neither"), "cpu: BE idle": YES})
    found = marks(host, Settings(isolation=isolation))
    assert (found["memory.low, high"], found["BE idle"]) == (mark, Mark.OK)


def test_on_cgroup_v1_the_fast_path_hears_only_services_in_the_v2_tree_too():
    hybrid = replace(GOOD, versions={**GOOD.versions, "cpu": 1})
    (found,) = (finding for finding in findings(hybrid, Settings()) if finding.subject == "fast path")
    assert found.mark is Mark.NOTE
    assert found.text.startswith("of services whose processes sit in a v2 group of the same path too: services are looked at every 100 ms")
