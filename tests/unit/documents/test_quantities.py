import pytest

from qosmanager.documents import quantities
from qosmanager.documents.quantities import Rule


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("1s", 1), ("5m", 300), ("1h", 3600), ("2d", 172800), ("1d12h", 129600), ("1m30s", 90), ("0s", 0), ("1.5s", 1.5)],
)
def test_duration(text, seconds):
    assert quantities.duration(text) == seconds


LIKE = "written like 500ms, 30s, 5m, 1h30m, 2d"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("5", "a duration needs its unit: 5s or 5ms?"),
        ("0.5", "a duration needs its unit: 0.5s or 0.5ms?"),
        ("5 s", LIKE),
        ("-5s", LIKE),
        ("30min", LIKE),
        ("s", LIKE),
        ("", LIKE),
        ("5s junk", LIKE),
    ],
)
def test_what_is_no_duration(text, hint):
    with pytest.raises(ValueError, match=f"^{hint.replace('?', '[?]')}$"):
        quantities.duration(text)


@pytest.mark.parametrize(("text", "cores"), [("2", 2), ("500m", 0.5), ("0.25", 0.25), ("1e-1", 0.1), ("1k", 1000), (".5", 0.5), ("-1", -1)])
def test_cores(text, cores):
    assert quantities.cores(text) == cores


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2Gi", 2147483648),
        ("500Mi", 524288000),
        ("1G", 1000000000),
        ("1.5Ki", 1536),
        ("128974848", 128974848),
        ("1e3", 1000),
        ("1E", 10**18),
        ("100m", 1),  # a fraction of a byte is rounded up, as Kubernetes does
    ],
)
def test_bytes(text, size):
    assert quantities.size(text) == size


@pytest.mark.parametrize(("text", "hint"), [("2GB", "2Gi"), ("2gib", "2Gi"), ("500 Mi", "500Mi"), ("2Xi", ""), ("", ""), ("Gi", "")])
def test_what_is_no_size_gets_the_nearest_that_is(text, hint):
    with pytest.raises(ValueError, match=f"^{hint}[?]?$"):
        quantities.size(text)


def test_a_size_beyond_64_bits_is_refused():
    assert quantities.size("7Ei") == 7 << 60
    with pytest.raises(ValueError, match="too large"):
        quantities.size("8Ei")
    with pytest.raises(ValueError, match="too large"):
        quantities.size("1e999")


@pytest.mark.parametrize(
    "text",
    [
        "1970-01-02T00:00:10Z",
        "1970-01-02 00:00:10Z",
        "1970-01-02t00:00:10z",
        "1970-01-02T02:00:10+02:00",
        "1970-01-01T19:30:10-04:30",
        "1970-1-2 01:00:10 +1",
        "86410",
    ],
)
def test_time_is_epoch_seconds(text):
    assert quantities.time(text) == 86410


def test_time_keeps_its_fraction():
    assert quantities.time("1970-01-01T00:00:01.25Z") == 1.25


def test_a_time_without_a_zone_is_refused():
    with pytest.raises(ValueError, match=r"^the time zone is missing: 1970-01-02T00:00:10Z\?$"):
        quantities.time("1970-01-02T00:00:10")


@pytest.mark.parametrize("text", ["1970-02-30T00:00:00Z", "1970-01-01T25:00:00Z", "1970-01-01T00:00:00+99:00", "yesterday", "1970-01-01"])
def test_what_is_no_time(text):
    with pytest.raises(ValueError, match=r"^$|range|must be|strictly between"):
        quantities.time(text)


@pytest.mark.parametrize(("text", "value"), [("5", 5), ("-0.5", -0.5), ("1e3", 1000), (".5", 0.5), ("5.", 5)])
def test_plain_number(text, value):
    assert quantities.plain(text) == value


@pytest.mark.parametrize("text", ["010", "1_000", "1:30", "0x10", ".nan", "nan", ".inf", "inf", "-", ".", "e5", "", "٣", "1 "])
def test_what_is_no_plain_number(text):
    with pytest.raises(ValueError, match=r"^$"):
        quantities.plain(text)


def test_a_number_must_be_finite():
    with pytest.raises(ValueError, match="too large"):
        quantities.number("1e999", Rule())


def test_a_rule_says_what_it_allows():
    assert Rule(low=1, high=4).allowed() == "a number from 1 to 4"
    assert Rule(low=-1000, high=1000).allowed(whole=True) == "a whole number from -1000 to 1000"
    assert Rule(above=0).allowed() == "a number above 0"
    assert Rule(unit="duration", low=0.1, high=60).allowed() == "a duration from 100ms to 1m"
    assert Rule(unit="bytes", low=0).allowed() == "bytes (2Gi, 500Mi, 1G or a whole number), 0 or more"


def test_a_rule_tells_its_bounds_apart():
    assert [Rule(low=0, high=1).allows(value) for value in (-0.1, 0, 1, 1.1)] == [False, True, True, False]
    assert [Rule(above=0).allows(value) for value in (0, 0.001)] == [False, True]


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (0.1, "100ms"), (3, "3s"), (90, "90s"), (600, "10m"), (7200, "2h")])
def test_durations_are_shown_as_they_are_written(seconds, text):
    assert quantities.shown_duration(seconds) == text


@pytest.mark.parametrize(("size", "text"), [(0, "0"), (1023, "1023"), (1536, "1.5Ki"), (120 << 30, "120Gi"), (1023 << 30, "1023Gi")])
def test_sizes_are_shown_in_binary_units(size, text):
    assert quantities.shown_bytes(size) == text
