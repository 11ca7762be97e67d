"""Whatever a text from outside holds, its parser answers or refuses as documented, in a time that grows with the text's length only."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers import Parsers

_PLACE = tempfile.TemporaryDirectory()
PARSERS = Parsers(Path(_PLACE.name)).all
MIB = 1 << 20
EXAMPLES = 400  # at least, for each parser: about a minute for all of them
HANG = 20  # seconds of CPU: a mebibyte takes some; with quadratic time it would take hours
PIECES = st.sampled_from(
    [b"-", b"0", b"9" * 400, b"1e999", b"nan", b"inf", b"\0", b"\xff", b"\n", b" ", b":", b'"', b"[" * 3000, b"{", b"\\"]
)


@st.composite
def damaged(draw, seed: bytes):
    """Cut short, pieces put in, lines repeated."""
    content = seed[: draw(st.integers(0, len(seed)))] if draw(st.booleans()) else seed
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(content)))
        content = content[:at] + draw(PIECES | st.binary(max_size=6)) + content[at + draw(st.integers(0, 6)) :]
    return content * draw(st.sampled_from([1, 1, 1, 2]))


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_the_seed_is_understood(parser):
    parser.parse(parser.seed.encode())


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
@settings(max_examples=max(EXAMPLES, settings().max_examples))
@given(data=st.data())
def test_damaged_texts(parser, data):
    parser.check(data.draw(damaged(parser.seed.encode()) | st.binary(max_size=60)))


def large(seed: bytes) -> dict[str, bytes]:
    """A mebibyte each: what a parser with a quadratic corner would choke on."""
    half = len(seed) // 2
    return {
        "itself again and again": seed * (MIB // len(seed)),
        "one line": seed.replace(b"\n", b" ") * (MIB // len(seed)),
        "digits": seed[:half] + b"9" * MIB,
        "spaces": seed[:half] + b" " * MIB + seed[half:],
        "quotes": seed[:half] + b'"' * MIB,
        "backslashes": seed[:half] + b'"' + b"\\" * MIB,
        "braces": seed[:half] + b"{" * MIB,
        "nested": b'{"x":' * (MIB // 5),
        "list signs": seed + b"- " * (MIB // 2),
        "commas": seed[:half] + b"," * MIB,
        "lines": seed + b"\n" * MIB,
    }


def hang(*_):
    raise AssertionError(f"not done after {HANG} s of CPU")


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_a_mebibyte(parser):
    before = signal.signal(signal.SIGVTALRM, hang)
    try:
        for data in large(parser.seed.encode()).values():
            signal.setitimer(signal.ITIMER_VIRTUAL, HANG)
            parser.check(data)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
