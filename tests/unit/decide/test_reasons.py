"""Every action and every refusal says why, in the numbers it was derived from (specification, section 5): the whole text."""

import pytest
from msgspec.structs import replace

from builders import GIB, MB, NOW, be, decided, failing_node_qos_resource, ls, of_kind, slow, snapshot
from qosmanager.config.settings import (
    CpuBurstSettings,
    CpuEvictSettings,
    CpuSuppressSettings,
    MemoryEvictSettings,
    Policy,
    Settings,
    Strategy,
)
from qosmanager.model.actions import Evict, RestoreBeCpuLimit, RestoreBeCpuset, RestoreCpuLimit, SetBeCpuLimit, SetCpuLimit
from qosmanager.model.qos import Level, Mode, Plugin
from qosmanager.model.state import Burst, State


def refused(plan):
    return [(refusal.plugin, refusal.rule, refusal.pod, refusal.reason) for refusal in plan.refusals]


def reasons(plan, kind):
    return [action.reason for action in of_kind(plan, kind)]


# -- CPUBurst ------------------------------------------------------------------------------------------------------------------

FULL = ls(limit=2.0, usage=2.0)  # of 16 CPUs


@pytest.mark.parametrize(("throttled", "told"), [(0.25, "throttled 25.0%"), (None, "throttled unknown")])
def test_a_burst_tells_what_it_was_granted_of(throttled, told):
    # 12 of 16 cores in use: 1 + 0.6 x 0.5.
    plan = decided(snapshot(ls(limit=2.0, usage=2.0, throttled=throttled), be(usage=10.0), cpu_usage=12.0))
    assert reasons(plan, SetCpuLimit) == [f"usage 2 of limit 2, {told}; node idle 25.0% allows x 1.3; min(2.6, usage 2 + headroom 4) = 2.6"]


BURST = Burst(pod="shop/api", base_limit=2.0, limit=3.0, started=NOW - 5)


@pytest.mark.parametrize(
    ("burst", "figures", "node", "mode", "why"),
    [
        ({"started": NOW - 10}, {}, 2.9, Mode.ENFORCE, "10 s are over"),
        ({}, {}, 2.9, Mode.OFF, "CPUBurst is set to off"),
        ({}, {}, 2.9, Mode.OBSERVE, "CPUBurst is set to observe"),
        ({"observed": True}, {}, 2.9, Mode.ENFORCE, "it was only observed, and CPUBurst enforces now"),
        ({"calm_since": NOW - 3}, {"usage": 1.0}, 1.0, Mode.ENFORCE, "usage under 0.9 x limit and hardly throttled for 3 s"),
        ({}, {}, 15.0, Mode.ENFORCE, "node idle 6.2% is under half of minNodeCPUIdle 20.0%"),
    ],
)
def test_the_end_of_a_burst_tells_why(burst, figures, node, mode, why):
    reading = snapshot(ls(**{"limit": 2.0, "usage": 2.9, **figures}), cpu_usage=node)
    plan = decided(reading, State(bursts=(replace(BURST, **burst),)), Settings(cpu_burst=CpuBurstSettings(mode=mode)))
    assert reasons(plan, RestoreCpuLimit) == [f"burst to 3 cores ends: {why}; back to the pod's own 2"]


def test_a_burst_that_a_pause_ends_tells_so():
    plan = decided(snapshot(ls(limit=2.0, usage=2.9), cpu_usage=2.9, paused=True), State(bursts=(BURST,)))
    assert reasons(plan, RestoreCpuLimit) == ["burst to 3 cores ends: the agent is paused; back to the pod's own 2"]


def test_a_burst_that_ends_with_the_pods_own_limit_tells_both():
    plan = decided(snapshot(ls(limit=4.0, usage=2.9), cpu_usage=2.9), State(bursts=(BURST,)))
    assert reasons(plan, RestoreCpuLimit) == ["burst to 3 cores ends: the pod's own limit changed from 2 to 4; back to the pod's own 4"]


@pytest.mark.parametrize(
    ("reading", "state", "refusal"),
    [
        (snapshot(FULL, cpu_usage=14.0), None, ("node-idle", "shop/api", "node idle 12.5% is under minNodeCPUIdle 20.0%")),
        (
            snapshot(FULL, cpu_usage=2.0),
            State(burst_cooldown_until={"shop/api": NOW + 7}),
            ("cooldown", "shop/api", "cooling down for another 7 s"),
        ),
        (
            snapshot(FULL, be(usage=14.0), cpu_usage=8.0),
            None,
            ("headroom", "shop/api", "usage 2 + headroom 0 gives 2, not above limit 2 x 1.01"),
        ),
        (
            snapshot(failing_node_qos_resource(), FULL, cpu_usage=2.0),
            None,
            ("plugin-failed", None, "a plugin failed in this cycle: no new burst"),
        ),
    ],
    ids=["node-idle", "cooldown", "headroom", "plugin-failed"],
)
def test_a_burst_that_is_refused_tells_why(reading, state, refusal):
    assert refused(decided(reading, state)) == [(Plugin.CPU_BURST, *refusal)]


# -- CPUSuppress ---------------------------------------------------------------------------------------------------------------

# 16 CPUs of which nothing is used: LOW, 12 for batch.
IDLE = snapshot(ls(request=4.0, usage=0.0), cpu_usage=0.0)
FAILED = snapshot(failing_node_qos_resource(), ls(request=4.0, usage=0.0), cpu_usage=0.0)


def suppress(**more):
    return Settings(cpu_suppress=CpuSuppressSettings(**more))


def held(be_limit, **more):
    return State(time=NOW - 1, be_limit=be_limit, suppress_level=Level.LOW, **more)


@pytest.mark.parametrize(
    ("before", "told"),
    [(None, "no limit was in force"), (15.0, "falls at once from 15"), (11.0, "from 11"), (10.0, "from 10 one step to 11.6")],
)
def test_a_limit_tells_its_terms_and_the_way_to_it(before, told):
    terms = "LOW: (node 16 - LS claim 4) x 1, at most 16 beside LS demand, at least 0.1: target 12"
    assert reasons(decided(IDLE, held(before)), SetBeCpuLimit) == [f"{terms}; {told}"]


def test_a_limit_of_the_strategy_usage_tells_its_own_terms():
    reading = snapshot(ls(request=9.0, usage=2.0), be(usage=3.0), cpu_usage=6.0)
    assert reasons(decided(reading, None, suppress(strategy=Strategy.USAGE)), SetBeCpuLimit) == [
        "16 CPUs x 0.65 - LS usage 2 - system 1, at most 13 beside LS demand, at least 0.1: target 7.4; no limit was in force"
    ]


@pytest.mark.parametrize(
    ("state", "kind", "told"),
    [
        ({"be_limit": 9.0}, RestoreBeCpuLimit, "9 cores"),
        ({"be_limit": 4.0, "be_cpus": "0-3"}, RestoreBeCpuset, "4 cores and CPUs 0-3"),
        ({"be_limit": None, "be_cpus": "0-3"}, RestoreBeCpuset, "CPUs 0-3"),
    ],
)
def test_what_is_given_back_when_switched_off_tells_what_it_was(state, kind, told):
    plan = decided(IDLE, held(**state), suppress(mode=Mode.OFF))
    assert [(type(action), action.reason) for action in plan.actions] == [(kind, f"CPUSuppress is set to off; BE was held at {told}")]


def test_from_quota_to_cpus_and_back_each_tells_what_holds_instead():
    to_cpus = decided(IDLE, held(12.0), suppress(policy=Policy.CPUSET))
    assert reasons(to_cpus, RestoreBeCpuLimit) == ["0-11 hold BE instead of the quota of 12 cores"]
    back = decided(IDLE, held(12.0, be_cpus="0-11"))
    assert reasons(back, RestoreBeCpuset) == ["the quota of 12 cores holds BE instead of CPUs"]
    assert reasons(back, SetBeCpuLimit)[0].endswith("target 12; from 12")


def test_a_quota_because_cpus_were_refused_tells_so():
    plan = decided(IDLE, held(None, cpuset_refused=NOW - 1), suppress(policy=Policy.CPUSET))
    assert reasons(plan, SetBeCpuLimit)[0].endswith("; no limit was in force; as a quota, for CPUs could not be set 1 s ago")
    assert refused(plan) == [(Plugin.CPU_SUPPRESS, "cpuset-refused", None, "CPUs could not be set: a quota instead, CPUs again after 60 s")]


@pytest.mark.parametrize(
    ("reading", "state", "wanted", "rule", "why"),
    [
        (FAILED, held(2.0), suppress(), "plugin-failed", "a plugin failed in this cycle: nothing is relaxed"),
        (
            FAILED,
            held(2.0),
            suppress(mode=Mode.OFF),
            "plugin-failed",
            "a plugin failed in this cycle: BE stays limited although the mode is off",
        ),
        (
            snapshot(ls(request=4.0, usage=0.0), *(be(name) for name in "dcba"), cpu_usage=0.0),
            held(2.0),
            suppress(),
            "not-measured",
            "BE is not raised while the CPU usage of some pod is unknown: batch/a, batch/b, batch/c",
        ),
        (
            snapshot(ls(request=16.0, usage=0.0), cpu_usage=0.0),
            held(0.1, floor_since=NOW - 660),
            suppress(),
            "starving",
            "BE has been at its floor of 0.1 cores for 11 minutes",
        ),
    ],
    ids=["failed", "failed, off", "not measured", "starving"],
)
def test_batch_that_is_not_raised_tells_why(reading, state, wanted, rule, why):
    assert refused(decided(reading, state, wanted)) == [(Plugin.CPU_SUPPRESS, rule, None, why)]


# -- CPUEvict ------------------------------------------------------------------------------------------------------------------

# 16 CPUs in full use: usage 40, ls_ratio 12 / 8 x 30 = 45, load 10: EMERGENCY, so all that batch uses is needed. LS wants 12 + 3 of 16 - 4.
TRIED = State(time=NOW - 1, be_limit=4.0, suppress_level=Level.CRITICAL, suppress_since=NOW - 5)
ONES = tuple(be(f"b{number}", usage=1.0) for number in range(4))


def full(*batch, **service):
    return snapshot(slow(**{"usage": 12.0, "request": 8.0, "wait": 3.0, **service}), *(batch or ONES), cpu_usage=16.0, load1=16.0)


def test_a_victim_for_the_cpu_tells_shortage_need_and_share():
    assert reasons(decided(full(), TRIED), Evict) == [
        f"score 95.0, SLO violated; LS lacks 3 cores, need 4; victim {place} of 2: priority 0, 1 cores" for place in (1, 2)
    ]


def test_a_victim_of_the_matrix_for_the_cpu_tells_its_action():
    # 85 percent of CPU, 90 of memory, a latency that rises: CRITICAL. LS wants 9.6 + 4 of 16 - 4; x 1.2.
    service = slow(usage=9.6, request=8.0, wait=4.0, trend=9.0)
    reading = snapshot(service, *ONES, cpu_usage=13.6, memory_total=100, memory_available=10)
    assert reasons(decided(reading), Evict) == [
        f"EVICT_BE_IMMEDIATELY; LS lacks 1.6 cores, need 1.92; victim {place} of 2: priority 0, 1 cores" for place in (1, 2)
    ]


@pytest.mark.parametrize(
    ("state", "rule", "why"),
    [
        ({"cooldown_until": {"CPUEvict": NOW + 7}}, "cooldown", "cooling down for another 7 s"),
        ({"evict_rounds": 2}, "no-effect", "2 rounds left the SLO violated: standing down until it has been ok once"),
        ({"suppress_level": Level.HIGH}, "suppress-first", "suppression at CRITICAL has not been tried yet"),
        ({"suppress_since": NOW - 4}, "suppress-first", "suppression at CRITICAL has held for 4.0 s of 5"),
        ({"be_limit": None}, "suppress-first", "no BE limit is in force yet"),
        ({"be_limit": 3.6}, "suppress-first", "BE still uses 4 cores, more than 1.1 x its limit 3.6"),
        ({"be_limit": 2.2, "be_cpus": "0-2"}, "suppress-first", "BE still uses 4 cores, more than 1.1 x its limit 3"),
        ({"be_limit": 3.0 + 2e-10, "be_cpus": "0-2"}, "suppress-first", "BE still uses 4 cores, more than 1.1 x its limit 3"),
        ({"be_limit": 0.6, "be_cpus": "0"}, "suppress-first", "BE still uses 4 cores, more than 1.1 x its limit 0.6"),
    ],
)
def test_an_eviction_that_is_not_due_tells_why(state, rule, why):
    assert refused(decided(full(), replace(TRIED, **state))) == [(Plugin.CPU_EVICT, rule, None, why)]


def test_slowness_from_elsewhere_is_told():
    assert refused(decided(full(wait=0.24), TRIED)) == [
        (Plugin.CPU_EVICT, "slow-elsewhere", None, "no LS pod above its SLO waits for CPU that others have more than 2% of its usage")
    ]


def test_after_a_failure_it_is_told_that_nobody_is_evicted():
    plan = decided(full(failing_node_qos_resource(), *ONES), TRIED)
    assert refused(plan) == [(Plugin.CPU_EVICT, "plugin-failed", None, "a plugin failed in this cycle: nobody is evicted")]


@pytest.mark.parametrize(
    ("freed", "left"),
    [(2.4, "nothing more to free"), (2.35, "another 0.05 would be no more than the 0.1 that BE may always have")],
)
def test_what_is_freed_already_is_told(freed, left):
    # CRITICAL: LS wants 10 + 4 of 16 - 4, x 1.2; the mean of the one that goes is on its way.
    batch = (be("gone", usage=1.0, usage_mean=freed, terminating=True), be("b", usage=3.0))
    reading = snapshot(slow(usage=10.0, request=8.0, wait=4.0), *batch, cpu_usage=14.0, load1=14.0)
    plan = decided(reading, TRIED, Settings(cpu_evict=CpuEvictSettings(evict_threshold=80.0)))
    assert refused(plan) == [(Plugin.CPU_EVICT, "no-need", None, f"LS lacks 2 cores, {freed:g} are being freed already: {left}")]


def test_when_no_pod_may_go_for_its_cpu_each_tells_why():
    batch = (be("a", usage=4.0, critical=True), be("b"), be("c", usage=0.0))
    assert refused(decided(full(*batch), TRIED)) == [
        (Plugin.CPU_EVICT, "no-victim", "batch/a", "it is critical"),
        (Plugin.CPU_EVICT, "no-victim", "batch/b", "its CPU usage is not measured"),
        (Plugin.CPU_EVICT, "no-victim", "batch/c", "it uses no CPU"),
        (Plugin.CPU_EVICT, "no-victim", None, "need 4 cores, but no BE pod may be evicted"),
    ]


# -- MemoryEvict ---------------------------------------------------------------------------------------------------------------

# Of 100 GiB 9 are available: the relief is 100 x 0.2 - 9 = 11.
BATCH = (be("a", rss=4 * GIB), be("b", rss=6 * GIB), be("c", rss=5 * GIB))


def node(*pods, available=9, cpu_usage=1.0, **more):
    return snapshot(*pods, cpu_usage=cpu_usage, memory_total=100 * GIB, memory_available=available * GIB, **more)


def memory(**more):
    return Settings(memory_evict=MemoryEvictSettings(**more), cpu_evict=CpuEvictSettings(mode=Mode.OFF))


def test_a_victim_of_short_memory_tells_need_and_share():
    assert reasons(decided(node(*BATCH)), Evict) == [
        "available 9.0 percent, minAvailable 10; need 11.00 GiB; victim 1 of 1: holds 6.00 GiB"
    ]


def test_each_of_several_victims_tells_its_place_and_a_leak():
    # 100 x 0.12 - 2 = 10: the leak holds 7 of it.
    plan = decided(
        node(*BATCH, be("l", rss=7 * GIB, growth=5.1 * MB), available=2, memory_psi_full=30.0), None, memory(target_utilization=0.88)
    )
    cause = (
        "OOM risk: available 2.00 GiB is under the floor of 3.00 GiB; tasks stall on memory 30 percent of the time with 2.0 percent left"
        " and available 2.0 percent, minAvailable 10; need 10.00 GiB"
    )
    assert reasons(plan, Evict) == [
        f"{cause}; victim 1 of 2: leaking 5.1 MB/min, which uses up what the node has available in 7.0 h, holds 7.00 GiB",
        f"{cause}; victim 2 of 2: holds 6.00 GiB",
    ]


def test_a_victim_of_a_high_score_tells_both_triggers():
    # 80 x 0.35 + 25 + 20 + 90 x 0.2; 100 x 0.3 - 20 = 10.
    pressed = {"ls_memory_growth": 20.0, "pgscan_direct": 5000.0, "pgscan_kswapd": 0.0, "swap_total": 10, "swap_used": 9}
    assert reasons(decided(node(*BATCH, available=20, **pressed), None, memory(target_utilization=0.7)), Evict) == [
        "score 91.0 above 85 and score 91.0 and LS memory growing 20.0 percent a minute; need 10.00 GiB; victim 1 of 1: holds 6.00 GiB"
    ]


def test_a_victim_of_the_matrix_tells_its_action():
    # 85 percent of CPU, 86 of memory, a latency that rises; 20 - 14 = 6.
    reading = node(slow(usage=13.6, request=8.0, trend=9.0), *BATCH, available=14, cpu_usage=13.6)
    assert reasons(decided(reading, None, memory()), Evict) == ["EVICT_BE_IMMEDIATELY; need 6.00 GiB; victim 1 of 1: holds 6.00 GiB"]


def test_memory_that_nobody_is_evicted_for_tells_why():
    # A target of 0.75 needs 100 x 0.25 - 9 = 16, to the byte.
    gone = be("gone", rss=16 * GIB, terminating=True)
    refusals = {
        "cover": decided(node(*BATCH, gone), None, memory(target_utilization=0.75)),
        "waits": decided(node(*BATCH, replace(gone, memory=replace(gone.memory, rss=2 * GIB)))),
        "nobody": decided(node()),
        "enough": decided(node(*BATCH, available=25, memory_available_trend=-float(GIB))),
        "failed": decided(node(failing_node_qos_resource(), *BATCH)),
        "observed": decided(node(*BATCH), State(cooldown_until={"MemoryEvict": NOW + 1}), memory(mode=Mode.OBSERVE)),
    }
    assert {name: refused(plan)[-1] for name, plan in refusals.items()} == {
        "cover": (
            Plugin.MEMORY_EVICT,
            "pending-release",
            None,
            "need 16.00 GiB, 0.00 GiB of it still to free: victims on their way cover it",
        ),
        "waits": (
            Plugin.MEMORY_EVICT,
            "pending-release",
            None,
            "need 11.00 GiB, 9.00 GiB of it still to free: waiting for the victim on its way",
        ),
        "nobody": (
            Plugin.MEMORY_EVICT,
            "no-victim",
            None,
            "need 11.00 GiB, 11.00 GiB of it still to free, but no BE pod may be evicted",
        ),
        "enough": (
            Plugin.MEMORY_EVICT,
            "no-need",
            None,
            "OOM risk: available 25.00 GiB is gone in 25 s at the present rate, but enough is left for what LS asked for and no pod leaks",
        ),
        "failed": (Plugin.MEMORY_EVICT, "plugin-failed", None, "a plugin failed in this cycle: nobody is evicted"),
        "observed": (
            Plugin.MEMORY_EVICT,
            "observed",
            None,
            "a victim was reported within terminationTimeout; observing ends nobody",
        ),
    }


@pytest.mark.parametrize(
    ("figures", "why"),
    [
        ({"rss": None}, "its memory is not measured"),
        ({"rss": 0}, "it holds no memory"),
        ({"terminating": True}, "it is terminating already"),
        ({"critical": True}, "it is critical"),
        ({"owner": "DaemonSet"}, "its owner is a DaemonSet, which would start it again here"),
        ({"labelled": False}, "it has no QoS label of its own and evictUnlabelled is false"),
    ],
)
def test_a_pod_that_is_no_victim_tells_why(figures, why):
    plan = decided(node(be("x", **{"rss": GIB, **figures})))
    assert refused(plan)[0] == (Plugin.MEMORY_EVICT, "no-victim", "batch/x", why)
