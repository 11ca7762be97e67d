import pytest

from qosmanager.linux.pressure import parse_stall

BOTH = b"some avg10=1.50 avg60=0.50 avg300=0.10 total=4651743\nfull avg10=0.25 avg60=0.10 avg300=0.05 total=1234567\n"


def test_both_lines():
    assert parse_stall(BOTH) == (1.5, 4.651743)
    assert parse_stall(BOTH, b"full") == (0.25, 1.234567)


def test_a_last_line_without_its_end():
    assert parse_stall(BOTH.rstrip(), b"full") == (0.25, 1.234567)


@pytest.mark.parametrize(
    "content", [b"", b"some", b"some avg10=", b"some avg10=1.50 avg60=0.5", b"some avg10=x avg60=0 avg300=0 total=1\n"]
)
def test_less_than_a_line_is_refused(content):
    with pytest.raises(ValueError, match=r"."):
        parse_stall(content)


def test_a_kernel_without_the_full_line_says_so():
    with pytest.raises(ValueError, match="no full line"):
        parse_stall(BOTH.splitlines(keepends=True)[0], b"full")
