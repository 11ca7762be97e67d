from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).resolve().parents[3] / "benchmarks" / "slo" / "judge.py"


@pytest.fixture(scope="module")
def judge():
    spec = importlib.util.spec_from_file_location("slo_judge", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_a_ratio_is_the_median_of_the_pairs_and_not_the_ratio_of_medians(judge):
    # Pairs 1/2, 4/1, 9/10: 0.5, 4.0, 0.9; the medians themselves would give 4 / 2.
    assert judge.ratio([1.0, 4.0, 9.0], [2.0, 1.0, 10.0]).median == 0.9


def test_equal_pairs_leave_no_interval(judge):
    assert judge.ratio([3.0] * 10, [2.0] * 10) == judge.Ratio(1.5, 1.5, 1.5)


def test_inside_the_objective_more_batch_is_better(judge):
    mine, other = judge.Runs([9.0] * 10, [120.0] * 10), judge.Runs([5.0] * 10, [100.0] * 10)
    assert judge.verdict(mine, other, 10.0).better is True
    assert judge.verdict(other, mine, 10.0).better is False


def test_who_breaks_the_objective_is_worse_whatever_work_it_does(judge):
    mine, other = judge.Runs([9.0] * 10, [50.0] * 10), judge.Runs([30.0] * 10, [100.0] * 10)
    assert judge.verdict(mine, other, 10.0).better is True


def test_a_kill_by_the_kernel_breaks_it(judge):
    mine, other = judge.Runs([9.0] * 10, [50.0] * 10), judge.Runs([5.0] * 10, [100.0] * 10, kills=1)
    assert judge.verdict(mine, other, 10.0).better is True
    assert judge.verdict(other, mine, 10.0).better is False


def test_an_interval_that_holds_1_decides_nothing(judge):
    mine = judge.Runs([9.0] * 10, [90.0, 110.0] * 5)
    other = judge.Runs([9.0] * 10, [100.0] * 10)
    assert judge.verdict(mine, other, 10.0).better is None


@pytest.mark.parametrize(("outside", "disturbed"), [(0.1, False), (0.11, True)])
def test_a_run_is_disturbed_by_what_others_use(judge, outside, disturbed):
    assert judge.is_disturbed(outside) is disturbed
