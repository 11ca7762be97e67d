"""The demo's best-effort work: `crunch` takes all the CPU it gets, `grow` takes ever more memory.

`python -m qosmanager.demo.batch crunch --seconds S` and `python -m qosmanager.demo.batch grow --seconds S --rate MIB_PER_SECOND`.
"""

from __future__ import annotations

import argparse
import hashlib
import mmap
import signal
import time

from qosmanager.demo.bounded import end_after, end_with_parent

MIB = 1024 * 1024
_HELD = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE  # really held at once, not only when it is written
_STEP = 0.1  # seconds between two steps of growth
_LARGEST_STEP = 0.5  # seconds of growth in one step at the most


def crunch() -> None:
    """Hash for ever."""
    block = bytes(64 * 1024)
    digest = hashlib.sha256()
    while True:
        digest.update(block)


def grow(rate: float) -> None:
    """Hold `rate` MiB more each second, for ever; the group's memory limit bounds it."""
    held = []
    last = time.monotonic()
    while True:
        now = time.monotonic()
        # Who did not get to run for some seconds does not take all of it at once: the kernel would refuse what is more than it has.
        chunk = int(min(now - last, _LARGEST_STEP) * rate * MIB)
        last = now
        if chunk > 0:
            held.append(mmap.mmap(-1, chunk, flags=_HELD))
        time.sleep(_STEP)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["crunch", "grow"])
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--rate", type=float, default=25.0)
    options = parser.parse_args()
    end_with_parent(signal.SIGKILL)
    end_after(options.seconds)
    if options.kind == "crunch":
        crunch()
    else:
        grow(options.rate)


if __name__ == "__main__":
    main()
