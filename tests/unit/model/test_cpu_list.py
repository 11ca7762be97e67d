import pytest

from qosmanager.model.cpu_list import format_cpus, parse_cpus


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("", set()), ("\n", set()), ("0", {0}), ("0-3,8\n", {0, 1, 2, 3, 8}), ("1,3-4", {1, 3, 4}), ("65535", {65535})],
)
def test_the_kernels_list_format_is_read(text, cpus):
    assert parse_cpus(text) == cpus


@pytest.mark.parametrize("text", ["0-x", "0-", "-1", "3-1", "0,,1", "0-99999999999", "65536", "٣", "+1", "0-1-2"])
def test_what_is_no_list_is_refused(text):
    with pytest.raises(ValueError, match="no list of CPUs"):
        parse_cpus(text)


@pytest.mark.parametrize(("cpus", "text"), [((), ""), ((3,), "3"), ((0, 1, 2, 8), "0-2,8"), ((5, 4, 1), "1,4-5"), ((1, 1, 2), "1-2")])
def test_the_kernels_list_format_is_written(cpus, text):
    assert format_cpus(cpus) == text
