import os
import threading
from pathlib import Path

import pytest

from qosmanager.documents.files import decode, open_data, read_kept_text, read_text
from qosmanager.documents.problem import DocumentError
from qosmanager.documents.tree import LARGEST


def problem_of(path):
    with pytest.raises(DocumentError) as caught:
        read_text(path)
    return str(caught.value)


def test_text_is_read_without_its_byte_order_mark(tmp_path):
    path = tmp_path / "f"
    path.write_bytes("\ufeffä: 1\n".encode())
    assert read_text(path) == "ä: 1\n"


def test_a_file_that_is_not_there(tmp_path):
    assert problem_of(tmp_path / "f") == f"{tmp_path}/f: cannot be read: no such file or directory"


def test_a_directory(tmp_path):
    assert problem_of(tmp_path) == f"{tmp_path}: cannot be read: is a directory"


def test_a_name_that_no_file_has(tmp_path):
    assert problem_of(tmp_path / "a\0b").endswith("cannot be read: embedded null byte")


def test_bytes_that_are_no_text():
    with pytest.raises(DocumentError, match=r"^f:3: is not UTF-8: byte 0xff at offset 6$"):
        decode(b"a: 1\n\n\xff", "f")


def test_an_endless_file_ends(tmp_path):
    path = tmp_path / "zero"
    path.symlink_to("/dev/zero")
    assert len(read_text(path)) == LARGEST + 1


def test_a_pipe_is_read_to_its_end(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"a: 1\n" * 50_000,))  # more than a pipe holds at once
    writer.start()
    assert read_text(path) == "a: 1\n" * 50_000
    writer.join()


def test_a_pipe_that_nobody_writes_to_is_not_waited_for_without_an_end(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert problem_of(tmp_path / "pipe").endswith("cannot be read: nothing has come out of it for 5 s")


def test_what_is_read_again_and_again_is_no_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(DocumentError, match="a regular file is needed"):
            read_kept_text(tmp_path / name)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_what_is_read_again_and_again_has_a_name_that_a_file_can_have(tmp_path, name):
    with pytest.raises(DocumentError, match=r"cannot be read: (file name too long|embedded null byte)"):
        read_kept_text(tmp_path / name)


def test_a_device_is_no_data():
    with pytest.raises(OSError, match="a file or a pipe is needed"):
        open_data(Path("/dev/zero"))
