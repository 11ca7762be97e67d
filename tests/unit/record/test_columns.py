"""Numbers of steps as bytes, and back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qosmanager.record.columns import Columns, pack, unpack
from qosmanager.record.grid import CPU, MEMORY

GRIDS = (CPU[0], MEMORY[0])
columns = Columns(GRIDS)
CORES = st.none() | st.integers(-(1 << 20), 1 << 40).map(lambda steps: steps / 1024)
PAGES = st.none() | st.integers(0, 1 << 40).map(lambda pages: pages * 4096)


@st.composite
def rows(draw):
    some = draw(st.lists(st.tuples(CORES, PAGES), min_size=1, max_size=6))
    return [value for column in zip(*some, strict=True) for value in column], len(some)


@settings(max_examples=50)
@given(rows())
def test_values_on_the_grid_come_back(given_):
    values, count = given_
    back = columns.values(columns.codes(values, count), count)
    assert back == values
    assert [type(value) for value in back] == [type(value) for value in values]


@settings(max_examples=50)
@given(rows(), st.data())
def test_differences_lead_from_any_row_to_any_other(given_, data):
    values, count = given_
    other = [data.draw(PAGES if place >= count else CORES) for place in range(2 * count)]
    before, now = columns.codes(values, count), columns.codes(other, count)
    assert unpack(memoryview(pack(now, before)), before) == now


@settings(max_examples=50)
@given(st.lists(st.floats(), min_size=3, max_size=3), st.lists(st.floats(), min_size=3, max_size=3))
def test_even_bits_of_floats_that_are_on_no_grid_come_back(first, second):
    one = Columns((CPU[0],))
    before, now = one.codes(first, 3), one.codes(second, 3)
    assert unpack(memoryview(pack(now, before)), before) == now


def test_what_has_not_changed_takes_one_byte_and_a_small_change_one_for_each():
    before = columns.codes([1.0, 2.0, 4096, 8192], 2)
    assert pack(before, before) == b"\x00"
    # The cores of both rows, 1 and -1 step, then their memory, one page up and none, each on top of 0x80.
    assert pack(columns.codes([1.0 + 1 / 1024, 2.0 - 1 / 1024, 8192, 8192], 2), before) == b"\x01\x81\x7f\x81\x80"


def test_a_change_of_300_steps_takes_two_planes():
    before = columns.codes([0.0, 0.0, 0, 0], 2)
    assert pack(columns.codes([300 / 1024, 0.0, 0, 0], 2), before)[0] == 2


@pytest.mark.parametrize("data", [b"", b"\x09", b"\x01", b"\x01\x80", b"\x00\x80", b"\xff" * 40])
def test_bytes_of_another_length_are_refused(data):
    with pytest.raises(ValueError, match="another length"):
        unpack(memoryview(data), columns.codes([1.0, 2.0, 4096, 8192], 2))
