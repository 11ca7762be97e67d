"""Whatever a kernel file holds, a reader answers with numbers or refuses with a reason: no other error, no NaN."""

import contextlib
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proc_tree import DISKSTATS, MEMINFO, NET_DEV, PRESSURE, STAT, VMSTAT
from qosmanager.linux.histogram import HistogramReader, quantile
from qosmanager.linux.pressure import parse_stall
from qosmanager.linux.procfs import parse_diskstats, parse_loadavg, parse_meminfo, parse_net_dev, parse_scans, parse_stat
from qosmanager.model.cpu_list import format_cpus, parse_cpus

CASES = [
    (parse_stat, STAT),
    (parse_meminfo, MEMINFO),
    (parse_scans, VMSTAT),
    (parse_diskstats, DISKSTATS),
    (parse_net_dev, NET_DEV),
    (parse_stall, PRESSURE),
    (parse_loadavg, "1.25 0.50 0.10 1/100 4242\n"),
]


@st.composite
def damaged(draw, text):
    """Cut short, with a piece replaced."""
    content = text.encode()[: draw(st.integers(0, len(text)))]
    at = draw(st.integers(0, len(content)))
    return content[:at] + draw(st.binary(max_size=6)) + content[at + draw(st.integers(0, 6)) :]


def numbers(value):
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from numbers(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from numbers(item)


@pytest.mark.parametrize(("parse", "text"), CASES)
@given(data=st.data())
def test_damaged_files(parse, text, data):
    content = data.draw(damaged(text))
    try:
        result = parse(content)
    except ValueError:
        return
    assert all(math.isfinite(number) for number in numbers(result))


@given(st.text())
@example("0-99999999999")
def test_any_text_is_a_list_of_cpus_or_refused(text):
    with contextlib.suppress(ValueError):
        assert all(isinstance(cpu, int) for cpu in parse_cpus(text))


@given(st.frozensets(st.integers(0, 65535), max_size=40))
def test_a_set_of_cpus_comes_back_as_it_went(cpus):
    assert parse_cpus(format_cpus(cpus)) == cpus


@given(st.dictionaries(st.floats(0.001, 100), st.floats(0, 1e9), min_size=1, max_size=12))
def test_a_quantile_lies_among_the_bounds(counts):
    cumulative = {}
    running = 0.0
    for bound in sorted(counts):
        running += counts[bound]
        cumulative[bound] = running
    cumulative[math.inf] = running
    found = quantile(0.99, cumulative)
    assert found is None if running == 0 else 0 <= found <= max(counts)


@given(st.text(alphabet='rq_bucket{le="0.5"} 1+Inf\n,=\\'))
def test_endpoint_texts(text):
    try:
        counts = HistogramReader("rq").read(text)
    except ValueError:
        return
    assert not any(math.isnan(number) for pair in counts.items() for number in pair)
