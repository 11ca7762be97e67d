from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from qosmanager.execute.sharing import Claim, settled, shares

CORES = st.floats(0.0, 64.0)
CLAIM = st.builds(Claim, own=st.one_of(st.just(math.inf), st.floats(0.01, 64.0)), usage=st.one_of(st.none(), CORES))
CLAIMS = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), CLAIM, min_size=1, max_size=12)


@given(limit=st.floats(0.1, 64.0), claims=CLAIMS)
def test_sum_is_within_the_limit_and_nobody_above_its_own(limit, claims):
    divided = shares(limit, claims)
    assert divided.keys() == claims.keys()
    assert sum(divided.values()) <= limit * (1 + 1e-9)
    assert all(0.0 <= divided[key] <= claims[key].own for key in claims)


@given(limit=st.floats(0.1, 64.0), claims=CLAIMS)
def test_nobody_is_starved(limit, claims):
    divided = shares(limit, claims)
    least = min(0.05 * limit, limit / len(claims))
    assert all(divided[key] >= min(least, claims[key].own) * (1 - 1e-9) for key in claims)


@given(limit=st.floats(0.1, 64.0), claims=CLAIMS)
def test_nothing_is_left_over_that_somebody_may_have(limit, claims):
    divided = shares(limit, claims)
    left = limit - sum(divided.values())
    assert left <= 1e-6 * limit or all(divided[key] >= claims[key].own * (1 - 1e-9) for key in claims)


@given(limit=st.floats(0.1, 64.0), claims=CLAIMS)
def test_same_use_settles(limit, claims):
    divided = shares(limit, claims)
    assert settled(limit, divided, shares(limit, claims))
