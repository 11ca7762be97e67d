"""CPU among siblings: by weight, nobody above what it wants, what one leaves goes to the others."""

import math

import pytest

from qosmanager.simulate.sharing import Branch, Sharer, divide


def sharer(weight, want):
    made = Sharer(weight)
    made.want = want
    return made


def given(amount, *wants):
    sharers = [sharer(weight, want) for weight, want in wants]
    divide(amount, sharers)
    return [each.given for each in sharers]


def test_all_get_what_they_want_where_there_is_enough():
    assert given(8, (1024, 3), (2, 4)) == [3, 4]


def test_equal_weights_share_equally():
    assert given(8, (1024, 9), (1024, 9)) == [4, 4]


def test_what_one_does_not_want_goes_to_the_others_by_weight():
    # 1 of 8 is enough for the first; 7 are left for weights 1 : 2 : 4.
    assert given(8, (1024, 1), (100, 9), (200, 9), (400, 9)) == pytest.approx([1, 1, 2, 4])


def test_the_smallest_weight_gets_two_thousandths_beside_the_default():
    assert given(1, (1024, 1), (2, 1)) == pytest.approx([1024 / 1026, 2 / 1026])


def test_who_wants_nothing_gets_nothing():
    assert given(2, (1024, 0), (1024, 5)) == [0, 2]


def test_a_branch_wants_at_most_its_cap_and_hands_on_what_it_got():
    children = [sharer(1024, 3), sharer(1024, 5)]
    branch = Branch(1024, 4, children)
    assert branch.gather() == 4
    branch.hand_out(4)
    assert [child.given for child in children] == [2, 2]
    assert Branch(1024, math.inf, children).gather() == 8
