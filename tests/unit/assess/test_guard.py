"""The CPU score without BE, which decides where BE makes way (strategies usage and slo)."""

import pytest

from builders import be, judged, ls, snapshot
from qosmanager.config.settings import CpuSuppressSettings, Settings, Strategy
from qosmanager.model.qos import Level, MatrixAction, Mode

# 16 cores in use of 20, 9 of them BE's; LS 5 of the 10 it asked for, waiting for 1 core.
FULL = snapshot(ls(request=10.0, usage=5.0, wait=1.0), be(usage=9.0), cpus=20.0, cpu_usage=16.0, load1=30.0, cpu_trend=0.0)


def by(strategy, mode=Mode.ENFORCE):
    return judged(FULL, None, Settings(cpu_suppress=CpuSuppressSettings(strategy=strategy, mode=mode)))


def points(pressure):
    return {factor.name: pytest.approx(factor.points) for factor in pressure.factors}


@pytest.mark.parametrize("strategy", [Strategy.USAGE, Strategy.SLO])
def test_a_second_score_leaves_be_out_and_the_first_stays(strategy):
    found = by(strategy)
    # 80 percent x 0.4; 5 / 10 x 30; 30 / 20 x 10.
    assert points(found.cpu) == {"usage": 32.0, "ls_ratio": 15.0, "trend": 0.0, "load": 15.0}
    # 7 of 20 cores are 35 percent; of the load at most those 7 and the core that LS waits for.
    assert points(found.guard) == {"usage": 14.0, "ls_ratio": 15.0, "trend": 0.0, "load": 4.0}
    assert found.deciding is found.guard


def test_its_factors_tell_their_own_readings():
    usage, _, _, load = by(Strategy.USAGE).guard.factors
    assert usage.inputs == {"cpu_percent_without_be": pytest.approx(35.0)}
    assert load.inputs == {"load1": 30.0, "load_without_be": pytest.approx(8.0), "cpus": 20.0}


def test_where_waiting_is_not_measured_the_load_is_what_all_others_use():
    unheard = snapshot(ls(request=10.0, usage=5.0), be(usage=9.0), cpus=20.0, cpu_usage=16.0, load1=30.0)
    load = judged(unheard, None, Settings(cpu_suppress=CpuSuppressSettings(strategy=Strategy.USAGE))).guard.factors[-1]
    assert load.inputs["load_without_be"] == pytest.approx(7.0)


def test_of_a_node_that_batch_alone_uses_next_to_nothing_is_left():
    usage, *_ = judged(
        snapshot(be(usage=9.0), cpus=20.0, cpu_usage=9.4), None, Settings(cpu_suppress=CpuSuppressSettings(strategy=Strategy.USAGE))
    ).guard.factors
    assert usage.inputs == {"cpu_percent_without_be": pytest.approx(2.0)}


def test_its_points_end_at_their_caps():
    # 105 percent in use by readings of two moments (42 points), and a load of 2.5 a CPU (25).
    full = snapshot(ls(request=10.0, usage=21.0, wait=30.0), cpus=20.0, cpu_usage=21.0, load1=50.0)
    usage, _, _, load = judged(full, None, Settings(cpu_suppress=CpuSuppressSettings(strategy=Strategy.USAGE))).guard.factors
    assert (usage.points, load.points) == (40.0, 20.0)


def test_level_and_matrix_go_by_it():
    full, spared = by(Strategy.PRESSURE), by(Strategy.USAGE)
    assert (full.raw_level, full.matrix.action) == (Level.HIGH, MatrixAction.THROTTLE_BE_MODERATE)
    assert (spared.raw_level, spared.matrix.action) == (Level.LOW, MatrixAction.RELAX_BE_LIMIT)
    assert spared.matrix.inputs.without_be


@pytest.mark.parametrize(("strategy", "mode"), [(Strategy.PRESSURE, Mode.ENFORCE), (Strategy.USAGE, Mode.OFF), (Strategy.SLO, Mode.OFF)])
def test_where_be_does_not_make_way_there_is_none(strategy, mode):
    found = by(strategy, mode)
    assert found.guard is None
    assert found.deciding is found.cpu
