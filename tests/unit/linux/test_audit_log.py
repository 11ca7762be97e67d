import os
import stat
import time

import pytest

from qosmanager.linux import audit_log
from qosmanager.linux.audit_log import AuditLog, lines_of, numbered


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log" / "audit.log"


def write(path, *lines, under_way=b"[]"):
    log = AuditLog(path, path.parent.parent / "evictions.json")
    left = log.start()
    for line in lines:
        log.record((line,), under_way)
    log.close()
    return left


def test_lines_are_appended_and_read_again(path):
    write(path, b"1", b"2")
    write(path, b"3")
    assert list(lines_of(path)) == [b"1", b"2", b"3"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o750


def test_what_is_under_way_is_left_for_the_successor(path):
    assert write(path, b"1", under_way=b'["crunch"]') is None
    assert write(path) == b'["crunch"]'


def test_a_line_cut_off_by_a_kill_does_not_spoil_the_next(path):
    write(path, b"1")
    with path.open("ab") as file:
        file.write(b'{"half')
    write(path, b"2")
    assert list(lines_of(path)) == [b"1", b'{"half', b"2"]


def test_full_files_move_on_and_the_oldest_goes(path):
    line = b"x" * 6_000_000  # two do not fit into one file
    write(path, *(line[:-1] + str(number).encode() for number in range(7)))
    assert [each[-1:] for each in lines_of(path)] == [b"2", b"3", b"4", b"5", b"6"]
    assert sorted(os.listdir(path.parent)) == ["audit.log", *(f"audit.log.{number}" for number in range(1, audit_log.FILES))]


def test_a_log_that_somebody_moved_away_is_begun_anew(path):
    log = AuditLog(path, path.parent.parent / "evictions.json")
    log.start()
    os.rename(path, numbered(path, 1))
    log.record((b"1",), b"[]")
    log.close()
    assert path.read_bytes() == b"1\n"


def test_what_cannot_be_written_is_said_once_and_written_later(path, caplog):
    log = AuditLog(path, path.parent.parent / "evictions.json")
    log.start()
    path.unlink()
    path.mkdir()  # nothing can be appended to a directory
    log.record((b"1",), b"[]")
    log.record((b"2",), b"[]")
    deadline = time.monotonic() + 60
    while (not caplog.records or not log._jobs.empty()) and time.monotonic() < deadline:
        time.sleep(0.005)
    path.rmdir()
    log.record((b"3",), b"[]")
    log.close()
    assert list(lines_of(path)) == [b"1", b"2", b"3"]
    assert [record.message.split()[0] for record in caplog.records] == ["AuditFailed"]


def test_a_link_in_its_place_is_not_followed(path, tmp_path):
    path.parent.mkdir()
    os.symlink(tmp_path / "victim", path)
    with pytest.raises(OSError, match="symbolic link"):
        AuditLog(path, tmp_path / "evictions.json").start()
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


def test_a_pipe_in_its_place_is_refused_at_the_start(path):
    path.parent.mkdir()
    os.mkfifo(path)
    with pytest.raises(OSError, match="is not a regular file"):
        AuditLog(path, path.parent / "evictions.json").start()
