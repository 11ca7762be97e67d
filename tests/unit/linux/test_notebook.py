import os

import pytest

from qosmanager.linux.notebook import FileNotebook


def test_what_was_saved_last_is_read_again(tmp_path):
    FileNotebook(tmp_path / "kept.json").save(b"first")
    FileNotebook(tmp_path / "kept.json").save(b"second")
    assert FileNotebook(tmp_path / "kept.json").load() == b"second"
    assert (tmp_path / "kept.json").stat().st_mode & 0o777 == 0o600


def test_before_anything_was_saved_there_is_nothing(tmp_path):
    assert FileNotebook(tmp_path / "kept.json").load() is None


def test_a_directory_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        FileNotebook(tmp_path / "away" / "kept.json").save(b"x")


def test_a_pipe_in_the_way_is_an_error_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "kept.json.new")
    with pytest.raises(OSError, match="No such device or address"):
        FileNotebook(tmp_path / "kept.json").save(b"x")
