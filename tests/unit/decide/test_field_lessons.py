"""Faults that users of such agents met, each with the behaviour that ours must have."""

from msgspec.structs import replace

from builders import GIB, MB, NOW, be, decided, ls, of_kind, remembered, rules, run, slow, snapshot
from qosmanager.config.settings import CpuBurstSettings, CpuSuppressSettings, Settings
from qosmanager.engine.step import step
from qosmanager.model.actions import Evict, RestoreBeCpuLimit, RestoreCpuLimit, SetBeCpuLimit, SetCpuLimit
from qosmanager.model.qos import Level, Mode, QoS
from qosmanager.model.state import Burst, State
from qosmanager.verify import observe

IDLE = snapshot(ls(request=4.0, usage=0.0), cpu_usage=0.0)
SHORT = {"cpu_usage": 16.0, "load1": 16.0}
TRIED = State(time=NOW - 1, be_limit=4.0, suppress_level=Level.CRITICAL, suppress_since=NOW - 60)


def test_from_unlimited_the_first_limit_is_not_refused_by_the_growth_limiter():
    assert [action.cores for action in of_kind(decided(IDLE, State(time=NOW - 1)), SetBeCpuLimit)] == [12.0]


def test_a_quota_of_a_few_millicores_recovers():
    floor = Settings(cpu_suppress=CpuSuppressSettings(min_cores=0.01))
    limits = [state.be_limit for state, _, _ in run([IDLE] * 10, State(time=NOW - 1, be_limit=0.01, suppress_level=Level.LOW), floor)]
    assert limits[-1] == 12.0


def test_batch_with_less_than_a_core_left_can_still_be_evicted():
    state = replace(TRIED, be_limit=0.4)
    pods = (slow(usage=15.0, request=8.0, wait=3.0), be(usage=0.4))
    assert [action.pod for action in of_kind(decided(snapshot(*pods, **SHORT), state), Evict)] == ["batch/etl"]


def test_pods_without_metrics_are_no_victims_and_no_crash():
    pods = (slow(usage=12.0, request=8.0, wait=3.0), be("dark"), ls("darker"))
    plan = decided(snapshot(*pods, **SHORT, memory_total=100 * GIB, memory_available=GIB), TRIED)
    assert plan.failures == ()
    assert of_kind(plan, Evict) == []
    assert {refusal.pod for refusal in plan.refusals if refusal.rule == "no-victim"} >= {"batch/dark"}


def test_not_measured_is_not_zero():
    # As zero, the two dark pods would leave 16 - 4 of claims; the node's 14 used cores would be the system's.
    dark = snapshot(ls(request=4.0), be(), cpu_usage=14.0)
    state = State(time=NOW - 1, be_limit=2.0, suppress_level=Level.LOW, system_usage=1.0)
    plan = decided(dark, state)
    assert plan.resources.system_reserved == 1.0
    assert plan.actions == ()
    assert remembered(dark, state).system_usage == 1.0


def test_an_eviction_does_not_come_before_suppression_in_the_same_cycle():
    pods = (slow(usage=12.0, request=8.0, wait=3.0), be(usage=4.0))
    plan = decided(snapshot(*pods, **SHORT), State())
    assert of_kind(plan, Evict) == []
    assert "suppress-first" in rules(plan)


def test_a_service_that_is_slow_because_of_its_database_has_no_batch_evicted():
    pods = (slow(usage=12.0, request=8.0, wait=0.01), be(usage=4.0))
    plan = decided(snapshot(*pods, **SHORT), TRIED)
    assert of_kind(plan, Evict) == []
    assert "slow-elsewhere" in rules(plan)


def test_evictions_without_effect_stand_down():
    # The service stays slow whatever goes. A minute passes between the readings; batch keeps to its limit.
    state, left = TRIED, [f"b{number}" for number in range(10)]
    rounds = []
    for number in range(4):
        batch = [be(name, usage=min(4.0, state.be_limit) / len(left)) for name in left]
        reading = replace(snapshot(slow(usage=12.0, request=8.0, wait=3.0), *batch, **SHORT), time=NOW + 61 * number)
        state, _, plan = step(observe(state, reading)[0], reading, Settings())
        gone = {action.pod.partition("/")[2] for action in of_kind(plan, Evict)}
        left = [name for name in left if name not in gone]
        rounds.append(len(gone))
    assert rounds == [3, 3, 0, 0]  # ceil(0.3 x 10), ceil(0.3 x 7), and no more


def test_no_further_victims_while_the_first_still_terminate():
    def reading(*terminating):
        batch = [be(name, usage=2.0, terminating=name in terminating) for name in ("a", "b")]
        return snapshot(slow(usage=12.0, request=8.0, wait=3.0), *batch, **SHORT)

    # EMERGENCY needs all 4 cores; the cooldown is over.
    assert [action.pod for action in of_kind(decided(reading(), TRIED), Evict)] == ["batch/a"]
    assert [action.pod for action in of_kind(decided(reading("a"), TRIED), Evict)] == ["batch/b"]
    plan = decided(reading("a", "b"), TRIED)
    assert of_kind(plan, Evict) == []
    assert "no-need" in rules(plan)


def test_a_strategy_does_not_run_although_off_and_runs_when_on():
    full = snapshot(
        slow(usage=12.0, request=8.0, limit=12.0, wait=3.0),
        be(usage=1.0, rss=GIB),
        cpu_usage=13.0,
        load1=40.0,
        memory_total=100,
        memory_available=2,
    )
    off = Settings(cpu_suppress=CpuSuppressSettings(mode=Mode.OFF), cpu_burst=CpuBurstSettings(mode=Mode.OFF))
    assert not {SetBeCpuLimit, SetCpuLimit} & {type(action) for action in decided(full, State(), off).actions}
    assert SetBeCpuLimit in {type(action) for action in decided(full).actions}
    assert SetCpuLimit in {type(action) for action in decided(snapshot(ls(usage=2.0, limit=2.0), cpu_usage=2.0)).actions}


def test_deleting_the_policy_does_not_keep_the_old_limit():
    plan = decided(IDLE, TRIED, Settings(plugins=()))
    assert [type(action) for action in plan.actions] == [RestoreBeCpuLimit]


def test_a_limit_that_a_person_raised_is_not_lowered_by_the_end_of_a_burst():
    burst = Burst(pod="shop/api", base_limit=2.0, limit=3.0, started=NOW - 60)
    plan = decided(snapshot(ls(limit=6.0, usage=2.0), cpu_usage=2.0), State(bursts=(burst,)))
    assert [action.cores for action in of_kind(plan, RestoreCpuLimit)] == [6.0]


def test_a_stall_without_a_shortage_evicts_nobody():
    plan = decided(snapshot(be(rss=GIB), cpu_usage=1.0, memory_total=100 * GIB, memory_available=60 * GIB, memory_psi_full=90.0))
    assert of_kind(plan, Evict) == []


def test_a_stall_that_outlives_its_cause_takes_no_second_victim():
    def reading(time):
        found = snapshot(be(rss=GIB), cpu_usage=1.0, memory_total=100 * GIB, memory_available=19 * GIB, memory_psi_full=50.0)
        return replace(found, time=time)

    assert of_kind(decided(reading(NOW), State(victim_ended=NOW - 12)), Evict) == []
    assert of_kind(decided(reading(NOW), State(victim_ended=NOW - 15)), Evict) != []


def test_batch_is_not_throttled_by_its_own_use():
    # Whatever batch uses, what LS claims is all that is taken off.
    for usage in (0.0, 3.0, 9.0):
        reading = snapshot(ls(request=4.0, usage=0.0), be("a", usage=usage / 3), be("b", usage=usage * 2 / 3), cpu_usage=usage)
        assert remembered(reading).be_limit == 12.0


def test_an_upgrade_goes_on_where_the_old_one_stopped():
    adopted = State(be_limit=3.6, suppress_level=Level.CRITICAL, suppress_since=NOW - 30, time=NOW - 20)
    after = remembered(IDLE, adopted)
    assert after.suppress_level is Level.CRITICAL
    assert after.be_limit == 3.6


def test_a_leak_is_a_persons_to_decide():
    pods = (be("leak", rss=9 * GIB, growth=6.0 * MB), be("big", rss=20 * GIB))
    found = of_kind(decided(snapshot(*pods, cpu_usage=1.0, memory_total=100 * GIB, memory_available=9 * GIB)), Evict)
    assert [(action.pod, action.leaking) for action in found] == [("batch/leak", True)]


def test_page_cache_and_system_pods_take_no_part_in_the_choice():
    pods = (ls("dns", QoS.SYSTEM, usage=15.0, rss=50 * GIB), be("a", rss=GIB))
    found = of_kind(decided(snapshot(*pods, cpu_usage=15.0, memory_total=100 * GIB, memory_available=9 * GIB)), Evict)
    assert [action.pod for action in found] == ["batch/a"]
