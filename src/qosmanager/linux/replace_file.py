"""A small file replaced whole: whoever reads it finds the old text or the new one, also after a kill at any instant."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, data: bytes, mode: int) -> None:
    """Write beside the old file, sync, rename over it. OSError when that cannot be done; the old file then stays."""
    temporary = path.with_name(f"{path.name}.new")
    # A pipe of that name would be waited for without O_NONBLOCK.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(temporary, flags, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    except OSError:
        os.unlink(temporary)
        raise
    finally:
        os.close(descriptor)
    os.rename(temporary, path)


def read_small_file(path: Path, most: int = 65536) -> bytes | None:
    """Return a file's bytes, at most `most` of them; None when it is not there. OSError otherwise, also for a link."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)
