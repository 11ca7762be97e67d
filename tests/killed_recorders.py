"""Writers of recordings that are killed at random moments: `python killed_recorders.py DIRECTORY KILLS`.

Prints a line for each: its directory, and how many cycles it had called safe when it was killed.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from qosmanager.record.directory import Directory
from qosmanager.record.writer import Bounds, Writer
from recordings import run

COUNT = 400


def write(directory: Path, cycles, told: int) -> None:
    """Write, and tell after each flush how many cycles are safe now."""
    writer, safe = Writer(Directory(directory), Bounds(flush=0.002, file_bytes=15_000)), 0
    for cycle in cycles:
        writer.add(cycle)
        if writer.cycles != safe:
            safe = writer.cycles
            os.write(told, b"%d\n" % safe)


def main(directory: Path, kills: int) -> None:
    chance, cycles = random.Random(4), run(COUNT)
    for number in range(kills):
        reading, told = os.pipe()
        child = os.fork()
        if not child:
            write(directory / str(number), cycles, told)
            os._exit(0)
        os.close(told)
        time.sleep(chance.uniform(0.0, 0.2))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with open(reading, "rb") as said:
            # A number whose line end was not written is not said.
            lines = said.read().split(b"\n")[:-1]
        sys.stdout.write(f"{number} {int(lines[-1]) if lines else 0}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
