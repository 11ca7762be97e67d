import pytest

from qosmanager.demo.story import ALONE, MANAGED, UNMANAGED, Difference, percentile, proof, stages


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([], 99, None), ([7.0], 99, 7.0), ([4.0, 1.0, 3.0, 2.0], 50, 2.0), ([float(n) for n in range(1, 101)], 99, 99.0)],
)
def test_percentile_is_the_nearest_rank(values, percent, expected):
    assert percentile(values, percent) == expected


def test_stages_fill_the_time_and_come_in_order():
    story = stages(120.0, 200.0, 400.0)
    assert sum(stage.seconds for stage in story) == 108.0
    assert list(dict.fromkeys(stage.part for stage in story)) == [ALONE, UNMANAGED, MANAGED]
    assert [stage.rate for stage in story[:2]] == [200.0, 400.0]
    assert [stage.name for stage in story if stage.grow] == ["memory runs out"] * 2


def test_a_shorter_demo_has_the_same_stages():
    assert sum(stage.seconds for stage in stages(30.0, 200.0, 400.0)) == pytest.approx(18.0)


def test_a_stage_is_known_by_one_word():
    assert all(len(stage.key.split()) == 1 for stage in stages(120.0, 1.0, 2.0))


def test_proof_names_what_is_not_back():
    before = {"a": "1", "b": "2", "c": "3", "/proc/9/oom_score_adj": "0"}
    shown = proof(before, {"a": "5", "b": "6"}, {"a": "1", "b": "7"})
    assert shown.compared == 3  # the process is gone, and its value with it
    assert shown.changed == 2
    assert shown.differ == (Difference("b", "2", "7"), Difference("c", "3", None))
