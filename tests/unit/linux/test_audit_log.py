import os
import stat
import time

import pytest

from qosmanager.linux import audit_log
from qosmanager.linux.audit_log import AuditLog, lines_of, numbered


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log" / "audit.log"


@pytest.fixture
def note(tmp_path):
    return tmp_path / "evictions.json"


def started(path, note):
    log = AuditLog(path, note)
    log.start()
    return log


def write(path, note, *lines, under_way=()):
    log = started(path, note)
    for line in lines:
        log.record((line,), under_way)
    log.close()
    return log.left


def until(happens):
    deadline = time.monotonic() + 60
    while not happens() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert happens()


@pytest.fixture
def full(path, note):
    """A started log whose disk takes nothing until the path is given back."""
    log = started(path, note)
    path.unlink()
    path.mkdir()  # nothing can be appended to a directory
    yield log
    log.close()


def test_lines_are_appended_and_read_again(path, note):
    write(path, note, b"1", b"2")
    write(path, note, b"3")
    assert list(lines_of(path)) == [b"1", b"2", b"3"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o750


def test_what_is_under_way_is_left_for_the_successor(path, note):
    assert write(path, note, b"1", under_way=(b'"crunch"', b'"etl"')) is None
    assert write(path, note) == b'["crunch","etl"]'


def test_nothing_is_noted_where_nothing_ever_was_under_way(path, note):
    log = started(path, note)
    log.record((), ())
    log.close()
    assert not note.exists()


def test_what_is_about_to_begin_is_noted_at_once_beside_what_is_under_way(path, note):
    log = started(path, note)
    log.record((), (b'"etl"',))
    log.intend((b'"crunch"',))
    assert note.read_bytes() == b'["etl","crunch"]'
    log.record((), (b'"etl"',))
    log.close()
    assert note.read_bytes() == b'["etl"]'


def test_a_line_that_is_on_the_disk_is_noted_no_more(path, note):
    log = started(path, note)
    log.intend((b"1",))
    log.record((b"1",), ())
    until(lambda: note.read_bytes() == b"[]")
    assert path.read_bytes() == b"1\n"
    log.close()


def test_who_is_told_nothing_leaves_the_predecessors_note_as_it_is(path, note):
    note.write_bytes(b'["crunch"]')
    log = started(path, note)
    assert (log.left, note.read_bytes()) == (b'["crunch"]', b'["crunch"]')
    log.record((), ())
    log.close()
    assert note.read_bytes() == b"[]"


def test_a_line_cut_off_by_a_kill_does_not_spoil_the_next(path, note):
    write(path, note, b"1")
    with path.open("ab") as file:
        file.write(b'{"half')
    write(path, note, b"2")
    assert list(lines_of(path)) == [b"1", b'{"half', b"2"]


def test_full_files_move_on_and_the_oldest_goes(path, note):
    line = b"x" * 6_000_000  # two do not fit into one file
    write(path, note, *(line[:-1] + str(number).encode() for number in range(7)))
    assert [each[-1:] for each in lines_of(path)] == [b"2", b"3", b"4", b"5", b"6"]
    assert sorted(os.listdir(path.parent)) == ["audit.log", *(f"audit.log.{number}" for number in range(1, audit_log.FILES))]


def test_a_log_that_somebody_moved_away_is_begun_anew(path, note):
    log = started(path, note)
    os.rename(path, numbered(path, 1))
    log.record((b"1",), ())
    log.close()
    assert path.read_bytes() == b"1\n"


def test_what_cannot_be_written_is_said_once_and_written_later(path, note, full, caplog):
    full.record((b"1",), ())
    until(lambda: caplog.records)
    full.record((b"2",), (b'"etl"',))
    until(lambda: note.read_bytes() == b'[1,2,"etl"]')
    path.rmdir()
    full.record((b"3",), ())
    full.close()
    assert list(lines_of(path)) == [b"1", b"2", b"3"]
    assert [record.message.split()[0] for record in caplog.records] == ["AuditFailed"]


def test_what_a_full_disk_does_not_take_stays_noted_beside_what_begins_meanwhile(note, full):
    full.record((b"1",), (b"2",))
    until(lambda: note.exists() and note.read_bytes() == b"[1,2]")
    full.intend((b"3",))
    assert note.read_bytes() == b"[1,2,3]"
    full.record((), (b"2", b"3"))
    full.close()
    assert note.read_bytes() == b"[1,2,3]"


def test_lines_for_which_there_is_no_room_are_said_to_be_lost(note, full, caplog):
    most = tuple(str(number).encode() for number in range(999))
    full.record(most, ())
    full.record((b"999", b"1000", b"1001"), ())
    assert [record.message for record in caplog.records if "AuditLost" in record.message] == [
        'AuditLost lines=2 detail="1000 lines wait for the disk already"'
    ]
    full.close()
    assert note.read_bytes() == b"[" + b",".join((*most, b"999")) + b"]"


def test_a_note_that_cannot_be_written_keeps_no_line_from_the_log(path, note, caplog):
    log = started(path, note)
    note.mkdir()  # no file can be renamed over a directory
    log.intend((b"1",))
    log.intend((b"2",))
    log.record((b"1",), ())
    log.close()
    assert list(lines_of(path)) == [b"1"]
    assert [record.message for record in caplog.records] == [f'AuditFailed file={note} error="Is a directory" waiting=0']


def test_a_link_in_its_place_is_not_followed(path, tmp_path, note):
    path.parent.mkdir()
    os.symlink(tmp_path / "victim", path)
    with pytest.raises(OSError, match="symbolic link"):
        AuditLog(path, note)
    assert not (tmp_path / "victim").exists()


def test_no_log_is_an_error_for_its_reader(path):
    with pytest.raises(FileNotFoundError):
        list(lines_of(path))


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_refused_by_its_reader_at_once(path, make):
    path.parent.mkdir()
    make(path)
    with pytest.raises(OSError, match="is not a regular file"):
        list(lines_of(path))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_has_the_name_of_an_older_file_and_is_none_is_left_out(path, note, make):
    write(path, note, b"1")
    make(numbered(path, 1))
    assert list(lines_of(path)) == [b"1"]


def test_a_pipe_in_its_place_is_refused_at_the_start(path, note):
    path.parent.mkdir()
    os.mkfifo(path)
    with pytest.raises(OSError, match="is not a regular file"):
        AuditLog(path, note)
