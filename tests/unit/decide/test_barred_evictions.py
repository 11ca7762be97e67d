"""No way to evict anybody: said, refused, and degraded while memory runs out (sections 5.5, 5.6 and 9)."""

import pytest
from msgspec.structs import replace

from builders import GIB, NOW, be, decided, of_kind, slow, snapshot
from qosmanager.config.settings import MemoryEvictSettings, Settings
from qosmanager.model.actions import Evict
from qosmanager.model.qos import Level, Mode, Plugin
from qosmanager.model.snapshot import EVICTIONS
from qosmanager.model.state import State

TRIED = State(time=NOW - 1, be_limit=4.0, suppress_level=Level.CRITICAL, suppress_since=NOW - 60)
SHORT_OF_CPU = snapshot(slow(usage=12.0, request=8.0, wait=3.0), be(usage=4.0), cpu_usage=16.0, load1=16.0)
OOM_RISK = snapshot(be(usage=1.0, rss=40 * GIB), cpu_usage=1.0, memory_total=100 * GIB, memory_available=GIB)
UNREACHED = {EVICTIONS: "the API server is not reached: no route to host"}
BARRED = [
    ({"missing": UNREACHED}, "the API server is not reached: no route to host"),
    ({"pods_age": 31.0}, "what is known of the pods is 31 s old, more than 30"),
]


@pytest.mark.parametrize(("change", "why"), BARRED)
def test_cpu_evict_says_that_nobody_can_be_evicted(change, why):
    assert of_kind(decided(SHORT_OF_CPU, TRIED), Evict)
    plan = decided(replace(SHORT_OF_CPU, **change), TRIED)
    assert of_kind(plan, Evict) == []
    assert (Plugin.CPU_EVICT, "barred", why) in [(refusal.plugin, refusal.rule, refusal.reason) for refusal in plan.refusals]


@pytest.mark.parametrize(("change", "why"), BARRED)
def test_memory_evict_at_oom_risk_is_then_degraded(change, why):
    assert of_kind(decided(OOM_RISK), Evict)
    plan = decided(replace(OOM_RISK, **change))
    assert of_kind(plan, Evict) == []
    assert plan.degraded[-1] == f"evictions_barred: {why}"
    assert (Plugin.MEMORY_EVICT, "barred", why) in [(refusal.plugin, refusal.rule, refusal.reason) for refusal in plan.refusals]


def test_without_oom_risk_or_without_memory_evict_nothing_is_degraded():
    assert decided(replace(SHORT_OF_CPU, missing=UNREACHED), TRIED).degraded == ()
    observing = Settings(memory_evict=MemoryEvictSettings(mode=Mode.OBSERVE))
    assert decided(replace(OOM_RISK, missing=UNREACHED), settings=observing).degraded == ()


def test_pods_known_too_long_ago_are_said_so_whatever_the_pressure():
    assert decided(replace(SHORT_OF_CPU, pods_age=30.1), TRIED).degraded == ("pods_stale",)
    assert decided(replace(SHORT_OF_CPU, pods_age=30.0), TRIED).degraded == ()
    assert decided(SHORT_OF_CPU, TRIED).degraded == ()


def test_pods_known_half_a_minute_ago_are_known_well_enough():
    assert of_kind(decided(replace(OOM_RISK, pods_age=30.0)), Evict)
