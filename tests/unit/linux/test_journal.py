from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from msgspec.structs import replace

from qosmanager.linux.journal import FileJournal, prepare_directory
from qosmanager.model.workload import CgroupFile
from qosmanager.ports import JournalEntry, JournalError, JournalRecord, OomEntry

RECORD = JournalRecord(
    boot_id="b",
    cgroup_root="30:1",
    entries=(
        JournalEntry(file=CgroupFile("cpu", "be", "cpu.max"), inode=7, original="max 100000", written=("1 2", "3 4"), pod="shop/api"),
    ),
    oom=(OomEntry(group="be", inode=7, value=1000, original=0, processes={"12:345": -5}),),
    lease_until=12.5,
    state=b'{"be_limit":1}',
    be_limit=1.5,
    be_cpus="0-1",
)


@pytest.fixture
def journal(tmp_path):
    return FileJournal(tmp_path / "state")


def test_what_was_saved_is_loaded(journal):
    assert journal.load() is None
    journal.save(RECORD)
    assert journal.load() == RECORD
    journal.save(JournalRecord(boot_id="c"))
    assert journal.load() == JournalRecord(boot_id="c")
    assert os.listdir(journal.path.parent) == ["journal.json"]


def test_removed_journal_is_stored_again_as_it_was(journal):
    assert not journal.renew()  # nothing was ever stored
    journal.save(RECORD)
    assert not journal.renew()
    shutil.rmtree(journal.path.parent)
    assert journal.renew()
    assert journal.load() == RECORD


def test_removed_journal_of_a_predecessor_is_stored_again(journal, tmp_path):
    journal.save(RECORD)
    successor = FileJournal(tmp_path / "state")
    successor.load()
    journal.path.unlink()
    assert successor.renew()
    assert journal.load() == RECORD


def test_only_its_owner_may_read_it(journal):
    old = os.umask(0)
    try:
        journal.save(RECORD)
    finally:
        os.umask(old)
    assert journal.path.stat().st_mode & 0o777 == 0o600
    assert journal.path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        (b"", "cannot be understood"),
        (b"{", "cannot be understood"),
        (b"\xff\xfe", "cannot be understood"),
        (b"[]", "cannot be understood"),
        (b'{"version":1,"record":{"entries":[{"file":3}]}}', "cannot be understood"),
        (b'{"version":2,"record":{}}', "is of version 2, this program reads version 1"),
    ],
)
def test_file_that_is_not_ours_to_understand_is_refused_and_left_as_it_is(journal, raw, word):
    journal.save(RECORD)
    journal.path.write_bytes(raw)
    with pytest.raises(JournalError) as refused:
        journal.load()
    assert word in str(refused.value)
    assert str(journal.path) in str(refused.value)
    assert "remove it" in str(refused.value)
    assert refused.value.boot_id == ""
    assert journal.path.read_bytes() == raw
    assert os.listdir(journal.path.parent) == ["journal.json"]


@pytest.mark.parametrize(
    "raw", [b'{"version":2,"record":{"boot_id":"b","more":[]}}', b'{"version":1,"record":{"boot_id":"b","entries":7}}']
)
def test_the_boot_that_it_speaks_of_is_told_where_that_can_be_read(journal, raw):
    journal.save(RECORD)
    journal.path.write_bytes(raw)
    with pytest.raises(JournalError) as refused:
        journal.load()
    assert refused.value.boot_id == "b"


@pytest.mark.parametrize("make", [os.mkdir, lambda path: os.symlink("/etc/hostname", path)])
def test_directory_or_link_in_its_place_is_refused(journal, make):
    journal.path.parent.mkdir(mode=0o700)
    make(journal.path)
    with pytest.raises(JournalError, match=r"cannot be read .*; try again"):
        journal.load()
    assert os.path.lexists(journal.path)


def test_link_in_the_new_ones_place_is_not_followed(journal, tmp_path):
    journal.save(RECORD)
    target = tmp_path / "precious"
    target.write_text("precious")
    os.symlink(target, journal.path.with_name("journal.json.new"))
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        journal.save(RECORD)
    assert target.read_text() == "precious"


def test_directory_that_is_a_link_or_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    os.symlink(tmp_path, tmp_path / "link")
    for name in ("file", "link"):
        with pytest.raises(NotADirectoryError):
            prepare_directory(tmp_path / name)


def test_directory_that_others_may_enter_is_closed(tmp_path):
    (tmp_path / "state").mkdir(mode=0o755)
    prepare_directory(tmp_path / "state")
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


@pytest.fixture
def small_tmpfs(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    point = tmp_path / "small"
    point.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(point)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted: {done.stderr.strip()}")
    yield point
    subprocess.run(["umount", str(point)], check=True)


def test_full_tmpfs_leaves_the_old_record(small_tmpfs):
    journal = FileJournal(small_tmpfs / "state")
    journal.save(RECORD)
    (small_tmpfs / "filler").write_bytes(b"x" * 1000)
    with open(small_tmpfs / "filler", "ab", buffering=0) as filler:
        while room := os.statvfs(small_tmpfs).f_bavail:
            filler.write(b"x" * room)
    with pytest.raises(OSError, match="No space left on device"):
        journal.save(JournalRecord(boot_id="c"))
    assert journal.load() == RECORD
    assert os.listdir(journal.path.parent) == ["journal.json"]


def test_a_groups_name_that_is_no_text_is_kept_and_found_again(journal):
    group = os.fsdecode(b"be/\xff")
    (entry,) = RECORD.entries
    odd = replace(RECORD, entries=(replace(entry, file=CgroupFile("cpu", group, "cpu.max")),), oom=(replace(RECORD.oom[0], group=group),))
    journal.save(odd)
    assert journal.load() == odd


def test_damage_beside_such_a_name_is_told_like_any_other(journal):
    journal.save(RECORD)
    for raw in (b'{"version":1,"record":{"boot_id":"\\udcff"', b'{"version":1,"record":{"boot_id":["\\udcff"]}}'):
        journal.path.write_bytes(raw)
        with pytest.raises(JournalError, match="cannot be understood"):
            journal.load()


@pytest.mark.parametrize(("mode", "name"), [(0o755, "somebody.pid"), (0o1777, "lock")])
def test_directory_that_others_use_is_not_closed_to_them(tmp_path, mode, name):
    (shared := tmp_path / "shared").mkdir()
    (shared / name).touch()
    shared.chmod(mode)
    with pytest.raises(PermissionError, match="open to others"):
        prepare_directory(shared)
    assert shared.stat().st_mode & 0o7777 == mode


@pytest.mark.parametrize("names", [(), ("lock", "journal.json")])
def test_own_directory_that_is_open_to_others_is_closed(tmp_path, names):
    (own := tmp_path / "own").mkdir()
    for name in names:
        (own / name).touch()
    own.chmod(0o755)
    prepare_directory(own)
    assert own.stat().st_mode & 0o7777 == 0o700


def test_journal_that_is_too_large_is_refused_unread(journal):
    prepare_directory(journal.path.parent)
    with journal.path.open("wb") as file:
        file.truncate(300 << 20)  # takes no room on the disk
    with pytest.raises(JournalError, match="larger than 64 MiB"):
        journal.load()


def test_journal_that_is_a_pipe_is_refused_at_once(journal):
    prepare_directory(journal.path.parent)
    os.mkfifo(journal.path)
    with pytest.raises(JournalError, match="cannot be understood"):
        journal.load()
