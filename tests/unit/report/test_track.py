import math

from qosmanager.report.track import POINTS, Mark, Moment, Track


def test_a_short_run_is_shown_cycle_by_cycle():
    track = Track("run")
    track.add(Moment(time=10.0, ls=1.0, p99={"shop/api": 0.05}))
    track.add(Moment(time=11.0, ls=2.0, p99={"shop/api": 0.07, "shop/db": 0.2}))
    assert (track.step, track.length, track.times()) == (1, 1.0, [10.0, 11.0])
    assert track.column("ls") == [1.0, 2.0]
    assert math.isnan(track.column("limit")[0])
    assert track.services() == ["shop/db", "shop/api"]
    assert math.isnan(track.p99("shop/db")[0])


def test_a_long_run_keeps_every_peak_and_the_mean_of_cpu():
    track = Track("run")
    for second in range(2 * POINTS):
        # One second of ten times the latency and of the highest level, somewhere.
        odd = second == 1001
        track.add(Moment(time=float(second), ls=float(second % 2), level=4.0 if odd else 1.0, p99={"a": 1.0 if odd else 0.125}))
    assert (track.step, len(track.times())) == (2, POINTS)
    assert set(track.column("ls")) == {0.5}
    assert (track.column("level")[500], track.p99("a")[500]) == (4.0, 1.0)
    assert track.column("level").count(4.0) == track.p99("a").count(1.0) == 1


def test_what_is_not_known_does_not_count_in_a_mean():
    track = Track("run")
    for second in range(POINTS + 1):
        track.add(Moment(time=float(second), ls=3.0 if second == 1 else math.nan))
    assert track.column("ls")[0] == 3.0
    assert math.isnan(track.column("ls")[1])


def test_marks_of_one_kind_that_lie_close_become_one_that_says_how_many():
    track = Track("run")
    for second in range(3 * POINTS):
        marks = [Mark(float(second), "set_be_cpu_limit", f"to {second}")] if second < 3 else []
        track.add(Moment(time=float(second)), [*marks, *([Mark(0.5, "evict", "one")] if second == 0 else [])])
    assert track.marks() == [(Mark(2.0, "set_be_cpu_limit", "to 2"), 3), (Mark(0.5, "evict", "one"), 1)]
