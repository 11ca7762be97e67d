"""Another configuration decided on the same readings, without acting."""

from builders import be, ls, snapshot
from qosmanager.config.settings import CpuSuppressSettings, MemoryEvictSettings, Settings, Strategy
from qosmanager.engine.shadow import Shadow
from qosmanager.engine.step import step
from qosmanager.model.qos import Mode
from qosmanager.model.record import CycleRecord
from qosmanager.model.state import State

GIB = 1 << 30


def cycles(*readings, settings=None):
    """Run cycles in which everything that is decided is in force at once."""
    state = State()
    for number, reading in enumerate(readings, 1):
        state, assessment, plan = step(state, reading, settings or Settings())
        yield CycleRecord(number=number, wall=1_800_000_000.0 + number, snapshot=reading, assessment=assessment, plan=plan, state=state)


def looked(settings, *readings):
    shadow = Shadow("other.yaml", settings, State())
    for record in cycles(*readings):
        shadow.look(record)
    return shadow.view


def busy(second: float):
    return snapshot(ls(usage=8.0, request=4.0), be(usage=4.0), cpu_usage=13.0, time=10_000.0 + second)


def short(second: float):
    pods = (ls(usage=1.0, request=1.0), be(usage=1.0, rss=4 * GIB), be("scan", usage=1.0, rss=8 * GIB))
    return snapshot(*pods, cpu_usage=4.0, memory_total=64 * GIB, memory_available=5 * GIB, time=10_000.0 + second)


def test_the_same_configuration_decides_the_same():
    view = looked(Settings(), busy(0), busy(1), busy(2))
    assert (view.cycles, view.differing, view.differences) == (3, 0, ())
    assert (view.config, view.limits) == ("other.yaml", 1)


def test_another_limit_is_told_with_both_values():
    # Score 32.5 + 60, EMERGENCY: `pressure` holds BE at 0.1 x (16 - 1 for the system - 4 requested); `usage` at 16 x 0.65 - 8 - 1, and
    # without BE's 4 cores the score is 22.5 + 60, CRITICAL.
    view = looked(Settings(cpu_suppress=CpuSuppressSettings(strategy=Strategy.USAGE)), busy(0))
    assert view.be_limit == 1.4
    assert view.differences == ("level CRITICAL instead of EMERGENCY", "BE at 1.4 cores instead of at 1.1 cores")
    assert view.differing == 1


def test_an_eviction_that_only_the_other_would_do_is_told_and_counted_once():
    off = Settings(memory_evict=MemoryEvictSettings(mode=Mode.OFF))
    shadow = Shadow("other.yaml", Settings(), State())
    for record in cycles(short(0), short(1), short(2), settings=off):
        shadow.look(record)
    view = shadow.view
    assert view.evictions == {"MemoryEvict": 1}
    assert [(victim.pod, victim.plugin, victim.time) for victim in view.evicted] == [
        ("batch/scan", "MemoryEvict", "2027-01-15T08:00:01.000Z")
    ]
    assert view.differing == 1


def test_an_eviction_that_the_other_would_not_do_is_told():
    view = looked(Settings(memory_evict=MemoryEvictSettings(mode=Mode.OFF)), short(0))
    assert view.differences[-1] == "would not evict batch/scan"
    assert view.evictions == {}


def test_a_configuration_that_is_taken_anew_goes_on_from_its_own_state():
    shadow = Shadow("other.yaml", Settings(), State())
    first, second = cycles(busy(0), busy(1))
    shadow.look(first)
    shadow.settings = Settings(cpu_suppress=CpuSuppressSettings(mode=Mode.OFF))
    shadow.look(second)
    assert shadow.view.differences == ("BE without a limit instead of at 1.1 cores",)
    assert shadow.view.cycles == 2
