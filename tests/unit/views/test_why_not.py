import pytest
from msgspec.structs import replace

from agents import with_pods
from qosmanager.config.settings import CpuBurstSettings, CpuEvictSettings, MemoryEvictSettings, Settings, Trigger
from qosmanager.decide.plugins import cpu_burst
from qosmanager.model.actions import PluginFailure, Refusal, Result
from qosmanager.model.qos import Mode, Plugin, QoS
from qosmanager.model.snapshot import Node
from qosmanager.model.state import State
from qosmanager.views.status import About, status
from qosmanager.views.why_not import why_not
from records import API, CRUNCH, EVICT_CPU, SILENT, receipt, record

DEFAULTS = Settings()
CALM = State(time=101.0, be_limit=0.6)


def reasons(pod, settings=DEFAULTS, **changes):
    changes = {"state": CALM, "plan": replace(record().plan, refusals=()), **changes}
    view = status(with_pods(pod, **changes), settings, About(version="1", pid=1, started=0.0))
    return {reason.about: reason.text for reason in why_not(view, pod.key)}


def refused(plugin, pod, rule="some-rule"):
    return {"plan": replace(record().plan, refusals=(Refusal(plugin, pod, rule, "numbers"),))}


def test_the_rule_and_the_readings_stand_where_nothing_else_settles_it():
    assert reasons(API)["CPUBurst"] == (
        "a burst begins at 0.9 x its limit, or when it is throttled above 5%: it uses 0.75 of 2 cores, throttled 0.0%"
    )


def test_the_bounds_it_names_are_the_plugins_own():
    text = reasons(API)["CPUBurst"]
    assert f"at {cpu_burst._BUSY:g} x its limit" in text
    assert f"above {cpu_burst._THROTTLED:.0%}" in text


@pytest.mark.parametrize(
    ("cpu", "text"),
    [
        ({"limit": None}, "it has no CPU limit of its own: there is nothing to raise"),
        ({"usage": None}, "its CPU usage is not measured: no reason given"),
    ],
)
def test_what_a_pod_lacks(cpu, text):
    assert reasons(replace(API, cpu=replace(API.cpu, **cpu)))["CPUBurst"] == text


def test_a_limit_that_is_declared_but_not_in_the_kernel_is_told_from_none():
    bare = with_pods(replace(API, cpu=replace(API.cpu, limit=None)), state=CALM, plan=replace(record().plan, refusals=()))
    view = status(bare, DEFAULTS, About(version="1", pid=1, started=0.0))
    texts = {
        why: {reason.about: reason.text for reason in why_not(replace(view, missing={"pods.shop/api.cpu.limit": why}), "shop/api")}[
            "CPUBurst"
        ]
        for why in ("no limit", "a limit is declared, but the kernel holds none for this group")
    }
    assert list(texts.values()) == [
        "it has no CPU limit of its own: there is nothing to raise",
        "it has no CPU limit of its own (a limit is declared, but the kernel holds none for this group): there is nothing to raise",
    ]


def test_a_refusal_comes_before_the_rule():
    assert reasons(API, **refused(Plugin.CPU_BURST, "shop/api", "headroom"))["CPUBurst"] == "numbers [headroom]"
    assert reasons(API, **refused(Plugin.CPU_BURST, "shop/other"))["CPUBurst"].startswith("a burst begins")


def test_a_burst_that_runs_and_one_that_cools_down():
    assert reasons(API, state=record().state)["CPUBurst"] == "a burst runs: its limit is raised from 2 to 3 cores"
    cooling = State(time=101.0, burst_cooldown_until={"shop/api": 121.0})
    assert reasons(API, state=cooling)["CPUBurst"] == "its last burst has ended: another may begin in 20 s"


@pytest.mark.parametrize(
    ("mode", "text"), [(Mode.OFF, "it is off"), (Mode.OBSERVE, "it only observes: it reports what it would do, and does nothing")]
)
def test_a_plugin_that_does_not_enforce(mode, text):
    assert reasons(API, Settings(cpu_burst=CpuBurstSettings(mode=mode)))["CPUBurst"] == text


def test_classes():
    assert reasons(API)["agent"] == "it is of class LS: only BE is suppressed or evicted"
    assert reasons(replace(API, qos=QoS.SYSTEM)) == {"agent": "it is of class SYSTEM: outside co-location, measured and never touched"}
    assert reasons(replace(API, qos=QoS.LSE))["CPUBurst"] == "an LSE pod owns its cores; it needs no burst"
    assert reasons(CRUNCH)["CPUBurst"] == "only LS and LSR pods get a burst"


def test_the_be_limit_is_one_for_all():
    assert reasons(CRUNCH)["CPUSuppress"] == "the limit is one for all BE: 0.6 cores at level HIGH, of which BE uses 0.5"
    assert reasons(CRUNCH, state=State(time=101.0))["CPUSuppress"] == "no BE limit is in force"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"critical": True}, "it is critical: never evicted"),
        ({"owner": "DaemonSet"}, "its owner is a DaemonSet, which would start it again here: never evicted"),
        ({"labelled": False}, "it has no QoS label of its own and evictUnlabelled is false: never evicted"),
        ({"terminating": True}, "it is on its way out already"),
    ],
)
def test_who_is_no_victim(changes, text):
    found = reasons(replace(CRUNCH, **changes))
    assert (found["CPUEvict"], found["MemoryEvict"]) == (text, text)


def test_what_is_not_measured_is_no_victim():
    assert reasons(SILENT)["MemoryEvict"] == "its memory is not measured (no reason given): it is no victim"


def test_a_refusal_about_the_pod_comes_before_one_about_all():
    both = replace(
        record().plan,
        refusals=(Refusal(Plugin.CPU_EVICT, None, "cooldown", "12 s left"), Refusal(Plugin.CPU_EVICT, "batch/crunch", "no-victim", "tiny")),
    )
    assert reasons(CRUNCH, plan=both)["CPUEvict"] == "tiny [no-victim]"
    assert reasons(CRUNCH, **refused(Plugin.CPU_EVICT, None, "cooldown"))["CPUEvict"] == "numbers [cooldown]"


def test_others_came_first():
    evicting = replace(record(actions=(EVICT_CPU,)).plan, refusals=())
    other = replace(CRUNCH, name="other")
    found = reasons(other, plan=evicting, receipts=(receipt(0, Result.APPLIED),))
    assert found["CPUEvict"] == "others came first in the last cycle: batch/crunch"


def test_a_trigger_that_does_not_hold_stands_with_its_readings():
    either = Settings(cpu_evict=CpuEvictSettings(trigger=Trigger.EITHER), memory_evict=MemoryEvictSettings(evict_threshold=80.0))
    found = reasons(CRUNCH, either)
    assert found["CPUEvict"] == "it acts when the CPU score is above 90 or the SLO is violated: the score is 30.0, the SLO signal ok"
    assert found["MemoryEvict"] == (
        "it acts above score 80, below 10% available, or at OOM risk: the score is 10.0, available is not measured, OOM risk no"
    )
    node = Node(cpus=2.0, cpu_usage=1.5, memory_total=8 << 30, memory_available=2 << 30)
    snapshot = replace(record().snapshot, node=node, pods=(CRUNCH,))
    view = status(record(snapshot=snapshot), DEFAULTS, About(version="1", pid=1, started=0.0))
    assert any("available is 2Gi (25%)" in reason.text for reason in why_not(view, "batch/crunch"))


def test_an_agent_that_holds_back_says_so_first():
    plan = replace(record().plan, refusals=(), degraded=("node_stale",), failures=(PluginFailure(Plugin.CPU_SUPPRESS, "KeyError: x"),))
    found = reasons(CRUNCH, plan=plan)
    assert found["agent"] == "degraded (node_stale): nothing is relaxed, nobody gets a burst, nobody is evicted"


def test_a_dry_run_says_so():
    view = status(record(), DEFAULTS, About(version="1", pid=1, started=0.0, dry_run=True))
    assert why_not(view, "shop/api")[0].text == "it is a dry run: it decides and reports, and changes nothing"
