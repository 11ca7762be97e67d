"""BE's memory and I/O made smaller before anybody is evicted (specification, section 5.1)."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from builders import GIB, NOW, be, decided, ls, of_kind, remembered, snapshot
from qosmanager.config.settings import CpuIsolation, IsolationSettings, NodeQosResourceSettings, Settings, Switch
from qosmanager.model.actions import Evict
from qosmanager.model.qos import Mode
from qosmanager.model.snapshot import PodObserved
from qosmanager.model.state import IoHold, IoLesson, Squeeze, State

MIB = 1 << 20
MEMORY = Settings(isolation=IsolationSettings(memory=Switch.AUTO))
IO = Settings(isolation=IsolationSettings(io=Switch.AUTO))
BATCH = (be("a", rss=4 * GIB), be("b", rss=6 * GIB))
SWAP = {"swap_total": 8 * GIB, "swap_used": 0}


def node(*pods, available=14 * GIB, holds=20 * GIB, **more):
    """100 GiB; BE holds 20, 10 of them no page cache. minAvailable is 10: short under 15, calm above 20."""
    return replace(snapshot(*(pods or BATCH), cpu_usage=1.0, memory_total=100 * GIB, memory_available=available, **more), be_memory=holds)


def held(high=20 * GIB, **more):
    return State(be_memory=Squeeze(**{"high": high, "moved": NOW - 5, "available": 14 * GIB, "gained": NOW - 1, **more}))


def high(reading, state=None, wanted=MEMORY):
    """What is remembered stands in the plan."""
    found = remembered(reading, state, wanted).be_memory
    stands = decided(reading, state, wanted).standing.be_memory_high
    assert stands == (None if found is None else found.high)
    return stands


# -- what stands ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpu", "weight", "idle"),
    [
        (CpuIsolation.AUTO, True, False),
        (CpuIsolation.WEIGHT, True, False),
        (CpuIsolation.IDLE, False, True),
        (CpuIsolation.OFF, False, False),
    ],
)
def test_how_be_is_put_behind(cpu, weight, idle):
    found = decided(node(), settings=Settings(isolation=IsolationSettings(cpu=cpu))).standing
    assert (found.be_weight, found.be_idle) == (weight, idle)


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.OFF])
def test_nothing_stands_unless_the_plugin_enforces(mode):
    isolation = IsolationSettings(cpu=CpuIsolation.IDLE, services=Switch.AUTO, memory=Switch.AUTO, io=Switch.AUTO)
    settings = Settings(isolation=isolation, node_qos_resource=NodeQosResourceSettings(mode=mode))
    found = decided(node(), held(), settings).standing
    assert (found.be_idle, found.services, found.memory_low, found.be_memory_high, found.be_io_weight) == (False, False, False, None, False)
    assert remembered(node(), held(), settings).be_memory is None


@pytest.mark.parametrize("more", [{"paused": True}, {"node_age": 60.0}])
def test_a_pause_or_a_stale_sample_takes_nothing_away(more):
    reading = replace(node(available=90 * GIB), **more)
    both = replace(held(), be_io=limited().be_io)
    kept = decided(reading, both, Settings(isolation=IsolationSettings(services=Switch.AUTO, memory=Switch.AUTO, io=Switch.AUTO))).standing
    assert (kept.services, kept.be_memory_high, kept.be_io_limit) == (True, 20 * GIB, 64 * MIB)


# -- memory --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("available", "expected"), [(15 * GIB, None), (15 * GIB - 1, 20 * GIB - 64 * MIB)])
def test_be_gives_back_when_memory_is_nearly_short(available, expected):
    assert high(node(available=available)) == expected


def test_be_gives_back_at_level_high_too():
    # usage 79 x 0.35, growth 25 and reclaim 20, scaled by 1 / 0.8 without swap: 90.8.
    pressed = node(available=21 * GIB, ls_memory_growth=20.0, pgscan_direct=5000.0, pgscan_kswapd=0.0)
    assert high(pressed) == 20 * GIB - 64 * MIB


@pytest.mark.parametrize(("growth", "expected"), [(8.0, 20 * GIB - 64 * MIB), (6.0, None)])
def test_level_high_begins_at_70(growth, expected):
    # 27.7 + growth x 1.25 + 20, / 0.8: 72.1 and 68.9.
    assert high(node(available=21 * GIB, ls_memory_growth=growth, pgscan_direct=5000.0, pgscan_kswapd=0.0)) == expected


def test_near_level_high_there_is_no_calm():
    # 68.9 and the margin of 3 are above 70.
    pressed = node(available=21 * GIB, ls_memory_growth=6.0, pgscan_direct=5000.0, pgscan_kswapd=0.0)
    assert remembered(pressed, held(calm_since=NOW - 30), MEMORY).be_memory == held().be_memory


def squeeze(reading, state=None):
    return remembered(reading, state, MEMORY).be_memory


def test_what_is_remembered_of_a_step():
    assert squeeze(node()) == Squeeze(high=20 * GIB - 64 * MIB, moved=NOW, available=14 * GIB, gained=NOW)
    # 0.5 percent of the node more is a gain, less is none; calm is over.
    gained, none = held(available=14 * GIB - GIB // 2, calm_since=NOW - 3), held(available=14 * GIB - GIB // 2 + 1, calm_since=NOW - 3)
    assert squeeze(node(), gained) == Squeeze(high=20 * GIB - 64 * MIB, moved=NOW, available=14 * GIB, gained=NOW)
    assert squeeze(node(), none) == Squeeze(high=20 * GIB - 64 * MIB, moved=NOW, available=14 * GIB - GIB // 2 + 1, gained=NOW - 1)
    # No step yet.
    assert squeeze(node(), held(moved=NOW - 0.5, calm_since=NOW - 3)) == held(moved=NOW - 0.5).be_memory


def test_what_is_remembered_of_a_step_back():
    calm = node(available=21 * GIB, holds=20 * GIB)
    back = held(high=18 * GIB, calm_since=NOW - 10, moved=NOW - 1)
    assert squeeze(calm, back) == replace(back.be_memory, high=20 * GIB, moved=NOW)
    # In whole pages: 12,345 bytes of a step are 3 of them.
    odd = replace(calm, node=replace(calm.node, memory_total=100 * GIB + 50 * 12_345))
    assert squeeze(odd, back).high == 20 * GIB + 3 * 4096
    soon = held(high=18 * GIB, calm_since=NOW - 10, moved=NOW - 0.9)
    assert squeeze(calm, soon) == soon.be_memory


def test_without_swap_what_batch_holds_itself_is_all_kept():
    # 10 GiB that are no page cache, whatever is said to be used of no swap.
    assert high(node(holds=10 * GIB + MIB, swap_total=0, swap_used=0)) == 10 * GIB
    assert high(node(holds=10 * GIB + MIB, swap_total=8 * GIB, swap_used=None)) == 10 * GIB
    # 2 GiB of the swap are free: half of that.
    assert high(node(holds=9 * GIB + MIB, swap_total=8 * GIB, swap_used=6 * GIB)) == 9 * GIB


def test_off_by_default():
    assert high(node(available=GIB), wanted=Settings()) is None


def test_one_step_a_second_and_none_while_be_is_behind():
    assert high(node(), held(moved=NOW - 0.5)) == 20 * GIB
    assert high(node(), held(moved=NOW - 1.0)) == 20 * GIB - 64 * MIB
    # 21 GiB are more than 1.02 x 20.
    assert high(node(holds=21 * GIB), held()) == 20 * GIB


def test_it_ends_at_what_be_may_not_lose():
    assert high(node(holds=10 * GIB + MIB)) == 10 * GIB
    # BE holds less than counts as its own (some is swapped out): it may not grow.
    assert high(node(holds=9 * GIB)) == 9 * GIB


def test_swap_takes_half_of_what_is_free_and_at_most_half_of_be():
    # 10 - 8/2 = 6 GiB; with 20 GiB of swap 10/2 = 5.
    assert high(node(holds=6 * GIB + MIB, **SWAP)) == 6 * GIB
    assert high(node(holds=5 * GIB + MIB, swap_total=20 * GIB, swap_used=0)) == 5 * GIB


@pytest.mark.parametrize("reading", [node(be("a", rss=None)), replace(node(), be_memory=None), replace(node(), time=None)])
def test_nothing_moves_on_what_is_not_measured(reading):
    assert high(reading) is None
    assert high(reading, held()) == 20 * GIB


def test_be_gets_it_back_step_by_step_once_calm():
    calm = node(available=21 * GIB, holds=20 * GIB)
    assert remembered(calm, held(), MEMORY).be_memory.calm_since == NOW
    assert high(calm, held(calm_since=NOW - 9)) == 20 * GIB
    assert high(calm, held(calm_since=NOW - 10)) == 22 * GIB
    assert high(calm, held(calm_since=NOW - 60)) is None
    # 25 GiB are 5 percent of the node above what BE holds: no bound any more.
    assert high(calm, held(high=25 * GIB, calm_since=NOW)) is None
    # Between short and calm nothing moves.
    between = node(available=18 * GIB)
    assert remembered(between, held(calm_since=NOW - 30), MEMORY).be_memory == held().be_memory


def victims(reading, state, wanted=MEMORY):
    return [action.pod for action in of_kind(decided(reading, state, wanted), Evict)]


SHORT = node(available=9 * GIB, **SWAP)


def test_nobody_is_evicted_while_giving_back_makes_memory_available():
    assert victims(SHORT, held(available=9 * GIB)) == []
    (refusal,) = [each for each in decided(SHORT, held(available=9 * GIB), MEMORY).refusals if each.rule == "reclaim-first"]
    assert refusal.reason == (
        "available 9.0 percent, minAvailable 10; BE gives back memory (memory.high 20416 MiB), which last made more available 1 s ago"
    )
    # With a step's worth of free swap there is something to wait for; when BE holds only what it may not lose, there is not.
    assert victims(node(available=9 * GIB, swap_total=64 * MIB, swap_used=0), held(available=9 * GIB)) == []
    assert victims(node(available=9 * GIB, swap_total=64 * MIB - 1, swap_used=0), held(available=9 * GIB)) != []
    assert victims(node(available=9 * GIB, holds=6 * GIB, **SWAP), held(available=9 * GIB)) != []
    # Half a percent of the node more than at best so far is a gain.
    gained = remembered(node(available=9 * GIB + GIB // 2, **SWAP), held(available=9 * GIB, gained=NOW - 4), MEMORY).be_memory.gained
    assert gained == NOW


@pytest.mark.parametrize(
    ("reading", "state"),
    [
        (SHORT, held(available=9 * GIB, gained=NOW - 5)),  # no gain for 5 s
        (node(available=9 * GIB), held(available=9 * GIB)),  # no swap: page cache counts as available already
        (node(available=9 * GIB, holds=5 * GIB, **SWAP), held(available=9 * GIB)),  # nothing left to give
        (node(available=2 * GIB, **SWAP), held(available=2 * GIB)),  # OOM risk: under 3 percent
    ],
)
def test_eviction_waits_no_longer_than_it_helps(reading, state):
    assert victims(reading, state) != []


def test_without_the_switch_eviction_does_not_wait():
    assert victims(SHORT, held(available=9 * GIB), Settings()) != []


# -- I/O -----------------------------------------------------------------------------------------------------------------------


def disks(*, stall, read=100 * MIB, write=40 * MIB, services=(None,), **more):
    """Stall alone makes the score: 100 x 0.4 of 0.4 weight is 100. `services`: how much each waits for I/O itself, None: not measured."""
    pods = [replace(ls(f"api-{number}"), observed=PodObserved(io_psi_some=own)) for number, own in enumerate(services)]
    batch = replace(be("a"), observed=PodObserved(io_read=read, io_write=write))
    return snapshot(*pods, batch, cpu_usage=1.0, io_psi_some=stall, **more)


def limit(reading, state=None, wanted=IO):
    """What is remembered stands in the plan."""
    found = remembered(reading, state, wanted).be_io
    stands = decided(reading, state, wanted).standing.be_io_limit
    assert stands == (None if found is None else found.limit)
    return stands


def limited(amount=64 * MIB, moved=NOW - 20, own=100 * MIB):
    return State(be_io=IoHold(limit=amount, own=own, moved=moved))


@pytest.mark.parametrize(("stall", "expected"), [(59.9, None), (60.0, 50 * MIB)])
def test_be_is_limited_from_level_high_on_at_half_of_what_it_moves(stall, expected):
    assert limit(disks(stall=stall)) == expected
    assert limit(disks(stall=stall), wanted=Settings()) is None


def test_a_be_that_moves_next_to_nothing_is_not_limited():
    assert limit(disks(stall=99.0, read=MIB, write=0)) is None


def test_it_falls_by_half_every_20_s_down_to_1_mib():
    assert limit(disks(stall=80.0), limited(moved=NOW - 19)) == 64 * MIB
    assert limit(disks(stall=80.0), limited(moved=NOW - 20)) == 32 * MIB
    assert limit(disks(stall=80.0, read=20 * MIB, write=10 * MIB), limited(moved=NOW - 20)) == 10 * MIB
    assert limit(disks(stall=80.0), limited(MIB, moved=NOW - 20)) == MIB


def test_it_rises_by_a_quarter_every_10_s_and_ends_at_twice_what_be_moved():
    assert limit(disks(stall=58.0), limited()) == 64 * MIB  # within the margin of 3
    assert limit(disks(stall=50.0), limited(moved=NOW - 9)) == 64 * MIB
    assert limit(disks(stall=50.0), limited()) == 80 * MIB
    assert limit(disks(stall=50.0), limited(160 * MIB)) is None


def test_it_rises_while_what_be_moves_is_not_measured_too():
    assert limit(disks(stall=50.0, read=None), limited()) == 80 * MIB


def test_nothing_moves_on_io_that_is_not_measured():
    assert limit(disks(stall=80.0, read=None), limited()) == 64 * MIB
    assert limit(disks(stall=None), limited()) == 64 * MIB


# Without the network the weights left are 0.9: iowait and disk make 50 / 0.9 = 55.6 points, each percent of stall 0.4 / 0.9.
FULL = {"stall": 100.0, "iowait": 50.0, "disk_util": 100.0}


@pytest.mark.parametrize(
    ("services", "expected"),
    [
        ((), None),  # nobody is in BE's way
        ((0.0,), None),  # 55.6: only BE waits
        ((9.9,), None),  # 55.56 + 4.4 = 59.96
        ((10.0,), 50 * MIB),  # 55.56 + 4.44 = 60
        ((0.0, 10.0, 0.0), 50 * MIB),
    ],
)
def test_be_is_limited_for_services_that_wait_not_for_its_own_waiting(services, expected):
    assert limit(disks(services=services, **FULL)) == expected


def test_a_limit_does_not_fall_further_because_be_waits_in_it_and_rises_again():
    waiting_in_it = disks(services=(3.0,), **FULL)  # 56.9: with the margin of 3 below 60
    assert limit(waiting_in_it, limited(moved=NOW - 9)) == 64 * MIB
    assert limit(waiting_in_it, limited()) == 80 * MIB
    assert limit(disks(services=(6.0,), **FULL), limited()) == 64 * MIB  # 58.2: neither way


def test_the_nodes_stall_counts_where_a_services_own_is_not_measured():
    # 0.4 x 100 more, of 0.9: 100.
    assert limit(disks(services=(0.0, None), **FULL), limited()) == 32 * MIB


def late(p99, io, cpu=0.0, slo=0.02, moved=100 * MIB):
    """The disk is busy and nothing else: 22.2 points, and 0.444 for each percent of stall; level HIGH is far."""
    service = replace(ls(p99=p99, slo=slo), observed=PodObserved(io_psi_some=io, cpu_psi_some=cpu))
    batch = replace(be("a"), observed=PodObserved(io_read=moved, io_write=0))
    return snapshot(service, batch, cpu_usage=1.0, io_psi_some=io, iowait=0.0, disk_util=100.0)


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        (late(0.021, 30.0), 50 * MIB),
        (late(0.020, 30.0), None),  # within its SLO
        (late(0.021, 10.0), 50 * MIB),
        (late(0.021, 9.9), None),  # late, and not because of I/O
        (late(0.021, 30.0, cpu=30.0), 50 * MIB),
        (late(0.021, 30.0, cpu=31.0), None),  # it waits for CPU above all
        (late(0.021, None), None),  # how long it waits is not known
        (late(0.021, 30.0, slo=None), None),
    ],
)
def test_be_is_limited_below_level_high_for_a_service_that_is_late_and_waits_for_io(reading, expected):
    assert limit(reading) == expected


@pytest.mark.parametrize(("p99", "expected"), [(0.021, 32 * MIB), (0.017, 64 * MIB), (0.016, 80 * MIB)])
def test_the_limit_stays_while_a_service_is_nearly_late(p99, expected):
    assert limit(late(p99, 30.0), limited()) == expected


def test_what_is_not_measured_of_some_be_pods_does_not_hide_the_others_and_is_said():
    some = disks(stall=80.0)
    some = replace(some, pods=(*some.pods, be("b")))
    assert limit(some) == 50 * MIB
    (refusal,) = (each for each in decided(some, settings=IO).refusals if each.rule == "io-not-measured")
    assert refusal.reason == "BE's I/O limit goes by what is measured: not of 1 BE pod"


@pytest.mark.parametrize(("stall", "state", "said"), [(60.0, None, True), (50.0, None, False), (50.0, limited(), True)])
def test_what_is_not_measured_is_said_where_it_matters(stall, state, said):
    some = disks(stall=stall)
    plan = decided(replace(some, pods=(*some.pods, be("b"))), state, IO)
    assert ("io-not-measured" in {each.rule for each in plan.refusals}) is said


def test_where_no_service_runs_nobody_waits():
    alone = disks(services=(), stall=100.0, iowait=50.0, disk_util=100.0, net_util=100.0)  # 60 points without any stall: level HIGH
    assert (decided(alone, settings=IO).failures, limit(alone), limit(alone, limited())) == ((), None, 80 * MIB)


def cut(amount, severity, moved=NOW - 20, futile=0):
    """BE moved 100 MiB/s when a service began to suffer so much."""
    hold = IoHold(limit=amount, own=100 * MIB, moved=moved, severity=severity)
    return State(be_io=hold, io_lesson=IoLesson(futile=futile))


def test_the_severity_is_kept_from_the_beginning():
    assert remembered(late(0.03, 30.0), None, IO).be_io == IoHold(limit=50 * MIB, own=100 * MIB, moved=NOW, severity=pytest.approx(1.5))
    # A fall later it is as it was; where the limit was rising meanwhile it begins now.
    for before, severity in ((1.4, 1.4), (None, pytest.approx(1.5))):
        assert remembered(late(0.03, 30.0), cut(64 * MIB, before), IO).be_io == IoHold(
            limit=32 * MIB, own=100 * MIB, moved=NOW, severity=severity
        )


# The score of level HIGH begins at 60.
@pytest.mark.parametrize(("stall", "severity"), [(60.0, 1.0), (90.0, 1.5)])
def test_at_level_high_the_severity_is_the_score_against_where_it_begins(stall, severity):
    assert remembered(disks(stall=stall), None, IO).be_io.severity == severity


def test_nine_tenths_of_the_severity_is_no_better():
    # 90 / 60 = 1.5, and 0.9 x 1.667 as well.
    assert remembered(disks(stall=90.0, read=12 * MIB, write=0), cut(100 * MIB // 8, 1.5 / 0.9), IO).io_lesson.futile == 1


def test_a_rise_is_remembered_and_its_next_fall_begins_anew():
    risen = remembered(disks(stall=50.0), cut(64 * MIB, 1.5, moved=NOW - 10), IO).be_io
    assert risen == IoHold(limit=80 * MIB, own=100 * MIB, moved=NOW, severity=None)


@pytest.mark.parametrize(
    ("state", "futile", "seconds"),
    [(cut(100 * MIB // 8, 1.5), 1, 300), (cut(100 * MIB // 8, 1.5, futile=1), 2, 600), (cut(100 * MIB // 8, 1.5, futile=9), 10, 3600)],
)
def test_a_service_as_late_with_be_at_an_eighth_is_late_by_somebody_else(state, futile, seconds):
    found = remembered(late(0.028, 30.0, moved=100 * MIB // 8), state, IO)  # 1.4 times its SLO: more than 0.9 x 1.5
    assert found.be_io is None
    assert found.io_lesson == IoLesson(futile=futile, borne_until=NOW + seconds, borne=pytest.approx(1.4))


@pytest.mark.parametrize(
    ("state", "p99", "expected"),
    [
        (cut(100 * MIB // 8, 1.5, moved=NOW - 19), 0.028, 100 * MIB // 8),  # it has not shown yet
        (cut(100 * MIB // 4, 1.5), 0.028, 100 * MIB // 8),  # not down to an eighth yet
        (cut(100 * MIB // 8, 1.5), 0.0268, 100 * MIB // 16),  # 1.34: better
        (cut(100 * MIB // 8, None), 0.028, 100 * MIB // 16),  # it was rising: this fall is the first
    ],
)
def test_until_that_is_known_it_falls(state, p99, expected):
    found = remembered(late(p99, 30.0, moved=state.be_io.limit), state, IO)
    assert (found.be_io.limit, found.io_lesson) == (expected, IoLesson())


# A limit is each disk's: on eight of them an eighth of it all comes through each. 13.75 MiB/s are 1.1 times an eighth.
@pytest.mark.parametrize(("moved", "futile"), [(14 * MIB, 0), (13.75 * MIB, 1), (MIB, 1)])
def test_a_limit_that_does_not_hold_all_of_be_has_not_been_of_no_use(moved, futile):
    found = remembered(late(0.028, 30.0, moved=moved), cut(100 * MIB // 8, 1.5), IO)
    assert (found.io_lesson.futile, found.be_io is None) == (futile, bool(futile))


def test_a_limit_that_stands_on_many_disks_falls_until_it_holds():
    # Eight disks of 12.5 MiB/s each; the service is late by what BE moves: 4 times its SLO at all of it, less than it at an eighth.
    state = State()
    for second in range(0, 200, 10):
        moved = 8 * min(12.5 * MIB, math.inf if state.be_io is None else state.be_io.limit)
        state = remembered(replace(late(0.014 + 0.066 * moved / (100 * MIB), 30.0, moved=moved), time=NOW + second), state, IO)
    assert (state.io_lesson.futile, moved <= 12.5 * MIB) == (0, True)


@pytest.mark.parametrize(
    ("until", "p99", "expected"),
    [(NOW + 1, 0.028, None), (NOW, 0.028, 50 * MIB), (NOW + 1, 0.042, None), (NOW + 1, 0.0421, 50 * MIB)],
)
def test_what_was_no_fault_of_be_is_borne_for_a_while_unless_it_is_half_as_bad_again(until, p99, expected):
    state = State(io_lesson=IoLesson(futile=1, borne_until=until, borne=1.4))
    assert limit(late(p99, 30.0), state) == expected


def test_it_is_said_that_it_is_borne():
    state = State(io_lesson=IoLesson(futile=1, borne_until=NOW + 120, borne=1.4))
    (refusal,) = (each for each in decided(late(0.028, 30.0), state, IO).refusals if each.rule == "io-of-others")
    assert refusal.reason == (
        "services wait for I/O as long with BE cut to an eighth: it is not limited for that for 120 s more, unless it gets worse"
    )


@pytest.mark.parametrize(("futile", "left"), [(2, 1), (1, 0), (0, 0)])
def test_a_limit_that_could_end_forgives_one_of_no_use(futile, left):
    found = remembered(disks(stall=50.0), cut(160 * MIB, None, futile=futile), IO)
    assert (found.be_io, found.io_lesson.futile) == (None, left)


def test_in_half_an_hour_of_somebody_elses_disk_be_is_held_for_three_minutes():
    state, held = State(), 0
    for second in range(1800):
        rate = 100 * MIB if state.be_io is None else min(100 * MIB, state.be_io.limit)
        service, batch = late(0.03, 30.0).pods
        batch = replace(batch, observed=PodObserved(io_read=rate, io_write=0))
        state = remembered(replace(late(0.03, 30.0), pods=(service, batch), time=NOW + second), state, IO)
        held += state.be_io is not None
    assert held == 180  # from 0, 360 and 1020 s on: each time a minute, then 5, 10 and 20 minutes of peace
    assert state.io_lesson.futile == 3
