"""Coverage-guided fuzzing of every parser of a text from outside (make soak-fuzz), with atheris.

    python fuzz/parsers.py CORPUS [-max_total_time=600]

The first byte chooses the parser, the rest is what it reads. CORPUS is a directory, filled with good texts when it is empty. A finding is
written as a file crash-... in the working directory; the same command with that file's name instead of CORPUS runs it again.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

with atheris.instrument_imports(include=["qosmanager"]):
    from parsers import Parsers


def main() -> None:
    logging.getLogger("qosmanager").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        parsers = Parsers(Path(directory)).all

        def one(data: bytes) -> None:
            if data:
                parsers[data[0] % len(parsers)].check(data[1:])

        for place in map(Path, sys.argv[1:]):
            if place.is_dir() and not any(place.iterdir()):
                for number, parser in enumerate(parsers):
                    (place / f"seed-{number}").write_bytes(bytes([number]) + parser.seed.encode())
        atheris.Setup(sys.argv, one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
