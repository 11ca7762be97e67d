from __future__ import annotations

import pytest

from qosmanager.execute.sharing import Claim, settled, shares


def test_worked_by_hand():
    # Wants 1.5*0.2+0.2 = 0.5, 1.5*2+0.2 = 3.2 and own limit 0.3; the first and the third are filled, the second gets the rest.
    claims = {"a": Claim(usage=0.2), "b": Claim(usage=2.0), "c": Claim(usage=1.0, own=0.3)}
    assert shares(4.0, claims) == pytest.approx({"a": 0.5, "b": 3.2, "c": 0.3})
    assert shares(2.0, claims) == pytest.approx({"a": 0.4, "b": 1.3, "c": 0.3})


def test_rest_is_handed_out_evenly_up_to_own_limits():
    claims = {"a": Claim(usage=0.0), "b": Claim(usage=0.0), "c": Claim(usage=0.0, own=0.5)}
    # Wants 0.2 each; the 3.4 left: c takes 0.3, a and b 1.55 each.
    assert shares(4.0, claims) == pytest.approx({"a": 1.75, "b": 1.75, "c": 0.5})


def test_unknown_use_counts_as_an_even_part():
    assert shares(2.0, {"a": Claim(), "b": Claim(usage=5.0)}) == pytest.approx({"a": 1.0, "b": 1.0})


def test_no_groups_no_shares():
    assert shares(2.0, {}) == {}


def test_dead_band():
    assert settled(2.0, {"a": 1.0, "b": 1.0}, {"a": 1.09, "b": 0.91})
    assert not settled(2.0, {"a": 1.0, "b": 1.0}, {"a": 1.11, "b": 0.89})
    assert not settled(2.0, {"a": 1.0}, {"a": 1.0, "b": 0.0})
