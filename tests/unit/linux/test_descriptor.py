import errno
import os
import resource

import pytest

from qosmanager.linux.descriptor import SPARED, KeptFile, TextOfGroup, allow_many_descriptors


def test_a_file_is_read_as_it_is_now(tmp_path):
    (tmp_path / "a").write_text("one")
    file = KeptFile(str(tmp_path), "a")
    assert file.read() == b"one"
    (tmp_path / "a").write_text("two!")
    assert file.read() == b"two!"
    (tmp_path / "a").write_text("")
    assert file.read() == b""


def test_a_file_longer_than_a_page_is_read_to_its_end(tmp_path):
    content = bytes(range(256)) * 400
    (tmp_path / "a").write_bytes(content)
    assert KeptFile(str(tmp_path), "a").read() == content
    assert len(KeptFile("/proc", "kallsyms").read()) > 100_000


def test_one_descriptor_however_often(tmp_path):
    (tmp_path / "a").write_text("one")
    file = KeptFile(str(tmp_path), "a")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        file.read()
    assert len(os.listdir("/proc/self/fd")) == before + 1
    file.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert file.read() == b"one"


@pytest.fixture
def few():
    """As many descriptors as are spared, and some."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (SPARED, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("few")
def test_where_descriptors_are_few_none_is_kept_and_every_file_is_read(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    files = []
    for number in range(2 * SPARED):
        (tmp_path / str(number)).write_text(str(number))
        files.append(KeptFile(str(tmp_path), str(number)))
    assert [file.read() for file in files] == [str(number).encode() for number in range(2 * SPARED)]
    with pytest.raises(OSError, match="no descriptor"):
        TextOfGroup(str(tmp_path), "0", tmp_path.stat().st_ino)
    assert len(os.listdir("/proc/self/fd")) == before


def test_links_are_not_followed(tmp_path):
    (tmp_path / "a").write_text("one")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(OSError, match="symbolic"):
        KeptFile(str(tmp_path), "b").read()


def test_a_file_that_comes_later(tmp_path):
    file = KeptFile(str(tmp_path), "a")
    with pytest.raises(FileNotFoundError):
        file.read()
    (tmp_path / "a").write_text("here")
    assert file.read() == b"here"


def test_the_soft_limit_of_files_becomes_the_hard_one():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, hard), hard))
    try:
        assert allow_many_descriptors() == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_kept_text_is_always_the_present_one(tmp_path):
    path = tmp_path / "cpu.max"
    path.write_text("max 100000\n")
    kept = TextOfGroup(str(tmp_path), "cpu.max", tmp_path.stat().st_ino)
    assert kept.read() == "max 100000"
    path.write_text("50000 100000\n")
    assert kept.read() == "50000 100000"
    path.write_text("0," * 5000)
    assert kept.read() == "0," * 5000


def test_another_group_under_the_name_is_not_the_one_that_was_meant(tmp_path):
    (tmp_path / "cpu.max").write_text("max 100000\n")
    with pytest.raises(OSError, match="made anew") as caught:
        TextOfGroup(str(tmp_path), "cpu.max", tmp_path.stat().st_ino + 1)
    assert caught.value.errno == errno.ENODEV


def test_no_descriptor_is_left_behind(tmp_path):
    (tmp_path / "cpu.max").write_text("max\n")
    before = os.listdir("/proc/self/fd")
    kept = TextOfGroup(str(tmp_path), "cpu.max", tmp_path.stat().st_ino)
    with pytest.raises(FileNotFoundError):
        TextOfGroup(str(tmp_path), "nothing", tmp_path.stat().st_ino)
    with pytest.raises(FileNotFoundError):
        TextOfGroup(str(tmp_path / "nothing"), "cpu.max", 1)
    del kept
    assert os.listdir("/proc/self/fd") == before
