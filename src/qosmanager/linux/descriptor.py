"""Files of the kernel kept open and read again and again: a read costs a fifth of open, read and close."""

from __future__ import annotations

import errno
import os
import resource
from os import pread

GONE = frozenset({errno.ENOENT, errno.ENODEV})
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})  # says nothing of what was to be read: it is there, perhaps
SPARED = 128  # descriptors that no kept file takes: connections, the journal, and every file that is only opened for a moment
ENOUGH = 1024  # descriptors with which all files of 110 pods, some 600, stay open
SHORT = 2048  # less than any page, so that less than this cannot be a page of more
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW


class KeptFile:
    """A file that stays open between reads.

    `read` returns the whole content as it is now. A descriptor whose cgroup has ended answers ENODEV; the path is then opened once more,
    for a group made again under the same name, and FileNotFoundError says that there is none. Where descriptors are few it is closed again
    after each read, which costs more time and fails nobody.
    """

    __slots__ = ("_descriptor", "_directory", "_name", "_size")

    def __init__(self, directory: str, name: str, size: int = 4096) -> None:
        """`size` is the read's first length in bytes; longer files are read to their end all the same."""
        # Apart, so that the files of one group share the text of their directory: a node has thousands of them.
        self._directory = directory
        self._name = name
        self._size = size
        self._descriptor = -1

    def read(self) -> bytes:
        """Return the content. Raises OSError with the kernel's errno."""
        if self._descriptor >= 0:
            try:
                return self._content()
            except OSError as error:
                if error.errno != errno.ENODEV:
                    raise
            self.close()
        self._descriptor = os.open(f"{self._directory}/{self._name}", _FLAGS)
        try:
            return self._content()
        finally:
            if _is_scarce(self._descriptor):
                self.close()

    def _content(self) -> bytes:
        data = pread(self._descriptor, self._size, 0)
        # The kernel hands out long /proc files page by page: only a read of nothing is the end. A few lines come whole.
        return data if len(data) < SHORT else with_rest(self._descriptor, data)

    def close(self) -> None:
        """Let the descriptor go; a later read opens the file again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


class TextOfGroup:
    """One file of one group, kept open: the `KeptFile` port. A group made anew under the same name is another one."""

    __slots__ = ("_content", "_descriptor", "_text")

    def __init__(self, directory: str, name: str, inode: int) -> None:
        """Raises OSError with the kernel's errno; ENODEV when the group there has another inode, EMFILE also where descriptors are few."""
        self._descriptor = -1
        self._content, self._text = b"", ""
        group = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            # Of the directory that was looked at, whatever happens to its name in between.
            if os.fstat(group).st_ino != inode:
                raise OSError(errno.ENODEV, "the group was made anew", directory)
            self._descriptor = os.open(name, _FLAGS, dir_fd=group)
            if _is_scarce(self._descriptor):
                os.close(self._descriptor)
                self._descriptor = -1
                raise OSError(errno.EMFILE, "no descriptor to be kept", directory)
        finally:
            os.close(group)

    def read(self) -> str:
        content = pread(self._descriptor, 4096, 0)
        if len(content) >= SHORT:
            content = with_rest(self._descriptor, content)
        if content != self._content:
            self._content, self._text = content, content.decode("utf-8", "replace").strip()
        return self._text

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


def with_rest(descriptor: int, data: bytes) -> bytes:
    """Return what was read first, and all that follows."""
    parts = [data]
    offset = len(data)
    while data := pread(descriptor, 65536, offset):
        parts.append(data)
        offset += len(data)
    return b"".join(parts)


def _is_scarce(descriptor: int) -> bool:
    """Whether a descriptor, always the lowest that is free, is one of the last."""
    return descriptor >= resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARED


def allow_many_descriptors() -> int:
    """Raise the soft limit of open files to the hard one and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
