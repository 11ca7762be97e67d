import os

import pytest

from qosmanager.linux.pause_file import PauseFile
from qosmanager.model.pause import Pause


class Boot:
    id = "this-boot"

    def __init__(self):
        self.now = 100.0

    def time(self):
        return self.now


def pause(**changes):
    return Pause(**{"boot_id": "this-boot", "ends": 160.0, "since": 1000.0, "until": 1060.0, "by": "root", **changes})


@pytest.fixture
def boot():
    return Boot()


@pytest.fixture
def file(tmp_path, boot):
    return PauseFile(tmp_path / "state", boot)


def test_nothing_is_in_force_before_anybody_asked(file):
    assert file.current() is None


def test_a_pause_is_in_force_until_its_end_on_the_clock_of_this_boot(file, boot):
    file.save(pause(reason="upgrade"))
    assert file.current() == pause(reason="upgrade")
    boot.now = 159.9
    assert file.current() is not None
    boot.now = 160.0
    assert file.current() is None


def test_a_second_pause_takes_the_place_of_the_first(file):
    file.save(pause())
    file.current()
    file.save(pause(ends=500.0))
    assert file.current().ends == 500.0


def test_it_survives_a_restart_but_no_reboot(file, tmp_path, boot):
    file.save(pause())
    assert PauseFile(tmp_path / "state", boot).current() is not None
    boot.id = "the-next-boot"
    assert PauseFile(tmp_path / "state", boot).current() is None


def test_clear_ends_it_and_is_nothing_to_do_without_one(file):
    file.clear()
    file.save(pause())
    file.clear()
    assert file.current() is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"boot_id": "this-boot", "ends": "never"}', b"\xff\xfe"])
def test_what_cannot_be_understood_pauses_nothing_and_is_said_once(file, caplog, content):
    file.save(pause())
    file.path.write_bytes(content)
    assert file.current() is None
    assert file.current() is None
    assert len(caplog.records) == 1


@pytest.mark.parametrize("when", [{"until": 1e300}, {"since": -1.0}, {"until": 253402300800.0}])
def test_a_time_that_never_was_pauses_nothing_and_is_said_once(file, caplog, when):
    file.save(pause(**when))
    assert file.current() is None
    assert file.current() is None
    assert [each.message for each in caplog.records] == [f"the pause {file.path} is of a time that never was and pauses nothing"]


def test_a_link_in_its_place_is_not_followed(file, tmp_path):
    file.save(pause())
    real = tmp_path / "elsewhere.json"
    os.rename(file.path, real)
    os.symlink(real, file.path)
    assert file.current() is None


def test_a_state_directory_that_is_none_is_refused(tmp_path, boot):
    (tmp_path / "state").write_text("")
    with pytest.raises(NotADirectoryError):
        PauseFile(tmp_path / "state", boot).save(pause())
