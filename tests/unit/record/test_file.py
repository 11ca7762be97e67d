"""One file: what is whole is read, what is torn or damaged costs only what follows it."""

import os
import random
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qosmanager.record.directory import Directory, DirectoryInUseError
from qosmanager.record.file import SUFFIX, FileReader, FileWriter, Header, NotARecordingError
from qosmanager.record.reader import Recording
from recordings import run, written

HEADER = Header(version="1.2.3", begun=1_800_000_000.0)
MESSAGES = [random.Random(number).randbytes(50 + number) for number in range(20)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / f"x{SUFFIX}"


def write(path, *, close=True):
    """Write the messages, two to a block; return where each block ends."""
    file, ends = FileWriter(path, HEADER), []
    for number, message in enumerate(MESSAGES):
        file.add(message)
        if number % 2:
            file.flush()
            ends.append(file.size)
    (file.close if close else file.abandon)()
    return ends


def read(path):
    file = FileReader(path)
    return list(file.messages()), file


def test_what_is_written_is_read(path):
    write(path)
    found, file = read(path)
    assert found == MESSAGES
    assert (file.header, file.closed, file.damage, file.blocks) == (HEADER, True, None, 11)


def test_a_file_is_for_its_owner_alone(path):
    write(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_there_is_not_written_to(path):
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        FileWriter(path, HEADER)


def test_a_file_whose_writer_was_killed_is_whole_up_to_the_last_flush(path):
    write(path, close=False)
    found, file = read(path)
    assert found == MESSAGES
    assert (file.closed, file.damage) == (False, None)


def test_what_is_not_flushed_is_not_there(path):
    file = FileWriter(path, HEADER)
    file.add(b"first")
    file.flush()
    file.add(b"second")
    assert read(path)[0] == [b"first"]
    file.abandon()


def test_a_torn_tail_costs_only_the_block_that_is_torn(path):
    ends = write(path, close=False)
    whole = path.read_bytes()
    for end, blocks in ((ends[4] + 3, 5), (ends[4] + 12, 5), (ends[5] - 1, 5), (ends[0] - 1, 0)):
        path.write_bytes(whole[:end])
        found, file = read(path)
        assert found == MESSAGES[: 2 * blocks]
        assert "middle of a block" in file.damage.what
        assert file.damage.offset == (ends[blocks - 1] if blocks else file.damage.offset)


def test_a_flipped_bit_costs_what_follows_it_in_the_file(path):
    ends = write(path)
    data = bytearray(path.read_bytes())
    data[ends[6] + 20] ^= 4
    path.write_bytes(data)
    found, file = read(path)
    assert found == MESSAGES[:14]
    assert file.damage.offset == ends[6]
    assert "checksum" in file.damage.what


def test_a_length_that_is_damaged_is_not_believed(path):
    ends = write(path)
    data = bytearray(path.read_bytes())
    data[ends[2] : ends[2] + 4] = struct.pack("<I", 0xFFFFFFFF)
    path.write_bytes(data)
    found, file = read(path)
    assert found == MESSAGES[:6]
    assert "checksum" in file.damage.what


def damaged(data: bytes, cut: int | None, flips: list[tuple[int, int]]) -> bytes:
    spoilt = bytearray(data[:cut])
    for place, bit in flips:
        if spoilt:
            spoilt[place % len(spoilt)] ^= 1 << bit
    return bytes(spoilt)


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    cycles = run(30)
    return cycles, written(tmp_path_factory.mktemp("whole"), cycles).read_bytes(), tmp_path_factory.mktemp("spoilt") / f"x{SUFFIX}"


@settings(max_examples=100, deadline=None)
@given(cut=st.none() | st.integers(0, 20_000), flips=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 7)), max_size=4))
def test_whatever_happens_to_a_file_a_beginning_of_it_is_read_or_it_is_refused(recording, cut, flips):
    cycles, whole, path = recording
    path.write_bytes(damaged(whole, cut, flips))
    try:
        tape = Recording(path)
        found = list(tape.cycles())
    except NotARecordingError as error:
        assert str(path) in str(error)  # noqa: PT017 - most damage is no error at all
        return
    assert [recorded.number for recorded, _ in found] == list(range(1, len(found) + 1))
    assert all(reading == cycle.record.snapshot for cycle, (_, reading) in zip(cycles, found, strict=False))
    assert len(found) == len(cycles) or tape.damages or not tape.parts[0].closed


@pytest.fixture(scope="module")
def messages(recording):
    _, whole, path = recording
    path.write_bytes(whole)
    return list(FileReader(path).messages())


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(which=st.integers(0, 29), flips=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 7)), min_size=1, max_size=3))
def test_content_that_makes_no_sense_costs_what_follows_it_though_its_checksum_is_right(recording, messages, which, flips):
    """What no disk does, somebody who writes such a file by hand might."""
    path = recording[2]
    path.unlink()
    file = FileWriter(path, HEADER)
    for number, message in enumerate(messages):
        file.add(damaged(message, None, flips) if number == which else message)
        file.flush()
    file.close()
    tape = Recording(path)
    assert len(list(tape.cycles())) >= which
    assert len(list(tape.outlines())) >= which


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no recording of qosmanager"),
        (b"qosManager: {}\n", "no recording of qosmanager"),
        (b"QOSMREC\n\x02\x00\x00\x00\x00\x00\x00\x00", "format 2; this version reads format 1"),
        (b"QOSMREC\n\x01\x00\x05\x00\x00\x00\x00\x00abcde", "beginning of this recording is damaged"),
    ],
)
def test_what_is_no_recording_of_ours_is_refused_with_the_reason(path, data, why):
    path.write_bytes(data)
    with pytest.raises(NotARecordingError, match=why):
        Recording(path)


def test_a_directory_without_recordings_and_a_path_that_is_not_there_are_refused(tmp_path):
    with pytest.raises(NotARecordingError, match="no recording in this directory"):
        Recording(tmp_path)
    with pytest.raises(NotARecordingError, match="No such file"):
        Recording(tmp_path / "none")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), os.mkdir])
def test_what_is_no_regular_file_is_no_recording_and_is_not_waited_for(path, make):
    make(path)
    with pytest.raises(NotARecordingError, match="this is no recording of qosmanager: no regular file"):
        FileReader(path)


def test_files_are_numbered_on_and_the_oldest_go_first(tmp_path):
    place = Directory(tmp_path)
    for _ in range(4):
        place.begin(HEADER).close()
    one = next(tmp_path.iterdir()).stat().st_size
    place.keep(2 * one)
    assert sorted(path.name[:8] for path in tmp_path.iterdir()) == ["00000003", "00000004"]
    place.begin(HEADER).close()
    assert max(path.name for path in tmp_path.iterdir()) == f"00000005-20270115T080000Z{SUFFIX}"
    place.close()


def test_what_is_not_ours_in_the_directory_stays(tmp_path):
    (tmp_path / "notes.txt").write_bytes(b"x" * 10_000)
    place = Directory(tmp_path)
    place.keep(0)
    place.close()
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_a_directory_is_made_for_its_owner_alone_and_has_one_writer(tmp_path):
    place = Directory(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    with pytest.raises(DirectoryInUseError, match="another process records there"):
        Directory(tmp_path / "a" / "b")
    place.close()
    Directory(tmp_path / "a" / "b").close()
