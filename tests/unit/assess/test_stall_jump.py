import pytest

from qosmanager.assess.stall_jump import CORES, RISE, Habit, demand_jumps, stall_jumps


def after(habit, *values, seconds=0.1):
    for value in values:
        habit = habit.after(value, seconds)
    return habit


def test_what_is_not_known_yet_does_not_jump():
    assert not stall_jumps(after(Habit(RISE), *[0.0] * 9), 1.0)
    assert stall_jumps(after(Habit(RISE), *[0.0] * 11), 1.0)


def test_what_comes_before_there_is_a_habit_adds_up_to_nothing():
    # Far above the first looks, in the last one before a second is over.
    assert after(Habit(RISE), *[0.0] * 8, 0.9).beyond == 0.0


def test_a_habit_begins_with_the_first_look_and_its_first_looks_count_alike():
    assert after(Habit(RISE), 0.6) == Habit(RISE, 0.6, 0.0, 0.1)
    # 0.6 and 0.2: the second one, of two, moves the level half of the way.
    habit = after(Habit(RISE), 0.6, 0.2)
    assert habit.level == pytest.approx(0.4)
    assert habit.spread == pytest.approx(0.2)


def test_from_the_third_second_on_newer_looks_count_for_more():
    # A second of three counts 1 - exp(-1/3) then, and not a third.
    assert Habit(RISE, 0.0, 0.0, 2.0).after(1.0, 1.0).level == pytest.approx(0.283469, abs=1e-6)
    assert Habit(RISE, 0.0, 0.0, 1.0).after(1.0, 1.0).level == 0.5


def test_a_quiet_group_jumps_above_a_tenth():
    quiet = Habit(RISE, 0.0, 0.0, 10.0)
    assert not stall_jumps(quiet, 0.1)
    assert stall_jumps(quiet, 0.11)


def test_a_restless_group_jumps_above_four_times_its_usual_distance():
    restless = Habit(RISE, 0.2, 0.05, 10.0)
    assert not stall_jumps(restless, 0.4)
    assert stall_jumps(restless, 0.41)


def test_several_looks_that_are_each_a_little_unusual_are_a_jump_together():
    # Two distances of 0.05 above the level of 0.2 say nothing; above 0.3 what is more adds up, until it is more than two distances: 0.1.
    habit = Habit(RISE, 0.2, 0.05, 1e6)
    jumps = []
    for share in (0.36, 0.36):
        jumps.append(stall_jumps(habit, share))
        habit = habit.after(share, 1e-9)
    assert jumps == [False, True]


def test_after_a_jump_the_next_look_above_the_usual_is_one_too():
    habit = Habit(RISE, 0.2, 0.05, 1e6).after(0.9, 1e-9)
    assert habit.beyond == pytest.approx(0.1), "no more than a jump takes, however far it was"
    assert stall_jumps(habit, 0.31)
    assert not stall_jumps(habit, 0.29)
    assert not stall_jumps(habit.after(0.2, 1e-9), 0.39), "the usual ended it"


def test_the_usual_distance_follows_like_the_level():
    # 0.3 above the level, of which 1 - exp(-1) are taken over in 3 s: also of the distance, which was 0.1.
    habit = Habit(RISE, 0.2, 0.1, 60.0).after(0.5, 3.0)
    assert habit.level == pytest.approx(0.2 + 0.3 * 0.632121, abs=1e-6)
    assert habit.spread == pytest.approx(0.1 + 0.2 * 0.632121, abs=1e-6)


def test_what_is_usual_takes_back_what_was_added_up():
    habit = Habit(RISE, 0.2, 0.05, 1e6).after(0.36, 1e-9)
    assert habit.beyond == pytest.approx(0.06)
    assert habit.after(0.27, 1e-9).beyond == pytest.approx(0.03)
    assert habit.after(0.2, 1e-9).beyond == 0


def test_three_quarters_of_the_way_to_stalling_always_are_a_jump_however_restless_the_group():
    # Four distances would be 1.0, which no share can exceed.
    assert not stall_jumps(Habit(RISE, 0.2, 0.2, 10.0), 0.8)
    assert stall_jumps(Habit(RISE, 0.2, 0.2, 10.0), 0.81)


def test_who_wants_more_jumps_only_while_it_waits():
    habit = Habit(CORES, 1.0, 0.05, 10.0)
    assert demand_jumps(habit, 1.25, 0.05)
    assert not demand_jumps(habit, 1.25, 0.04)
    assert not demand_jumps(habit, 1.2, 0.5)


def test_a_jump_that_lasts_becomes_the_habit():
    habit = after(Habit(RISE), *[0.02] * 50)
    jumps = []
    for _ in range(30):
        jumps.append(stall_jumps(habit, 0.6))
        habit = habit.after(0.6, 0.1)
    assert jumps[:2] == [True, True]
    assert not any(jumps[15:])


def test_two_thirds_of_a_habit_are_replaced_in_three_seconds():
    assert after(Habit(RISE, 0.0, 0.0, 60.0), *[1.0] * 30).level == pytest.approx(1 - 1 / 2.71828, abs=1e-4)
    # However the three seconds are divided into looks.
    assert Habit(RISE, 0.0, 0.0, 60.0).after(1.0, 3.0).level == pytest.approx(1 - 1 / 2.71828, abs=1e-4)
