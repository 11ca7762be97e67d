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


def test_however_long_a_run_is_no_more_is_kept_than_a_screen_shows():
    track = Track("run")
    for second in range(10 * POINTS + 5):
        # The last one is the worst; a service comes in the middle.
        worst = second == 10 * POINTS + 4
        p99 = {"late": 2.0 if worst else 1.0} if second >= 5 * POINTS + 3 else {}
        track.add(Moment(time=float(second), ls=1.0, level=3.0 if worst else 0.0, p99=p99), [Mark(float(second), "evict", "")])
    # 16 cycles are a point: the first power of two with which they fit.
    assert (track.step, track.length, len(track.times())) == (16, 10 * POINTS + 4, 938)
    assert track.times()[:3] == [0.0, 16.0, 32.0]
    assert {len(track.column("ls")), len(track.column("level")), len(track.p99("late")), len(track.marks())} == {938}
    assert (track.column("level")[-1], track.p99("late")[-1]) == (3.0, 2.0)
    # Cycle 7503 lies in point 468.
    assert math.isnan(track.p99("late")[467])
    assert track.p99("late")[468] == 1.0
    assert track.marks()[0] == (Mark(15.0, "evict", ""), 16)
    assert sum(count for _, count in track.marks()) == 10 * POINTS + 5
