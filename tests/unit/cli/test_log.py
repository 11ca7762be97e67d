"""The agent's log on a standard error that nobody reads, or that is closed."""

import os
import subprocess
import sys

import pytest

LOGGER = """
import logging, sys
from qosmanager.cli.log import log_to_standard_error

log = logging.getLogger("qosmanager")
handler = log_to_standard_error(log)
for number in range(int(sys.argv[1])):
    log.info("line number=%d %s", number, "x" * 100)
print("told", flush=True)
sys.stdin.readline()
log.warning(sys.argv[2])
handler.close()
"""


def logger(lines, last, stderr=subprocess.PIPE):
    command = [sys.executable, "-c", LOGGER, str(lines), last]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)


def test_a_line_has_its_time_its_severity_and_nothing_that_a_terminal_obeys():
    with logger(0, "pod=\x1b[31mred\x9b\u202e name=\u00e4") as process:
        (line,) = process.communicate(b"\n", timeout=60)[1].decode().splitlines()
    assert line[10] == "T"
    assert line.partition("Z ")[2] == r"severity=WARNING pod=\x1b[31mred\x9b\u202e name=\u00e4".replace(r"\u00e4", "\u00e4")


def test_a_reader_that_stops_reading_stops_nobody_and_is_told_what_it_missed():
    with logger(5000, "the last one") as process:
        assert process.stdout.readline() == b"told\n"  # though the pipe holds some 500 of them
        seen = process.communicate(b"\n", timeout=60)[1].decode().splitlines()
    assert process.returncode == 0
    # Told each time that the writer got through again: once, or more often where it is slow.
    count = sum(int(line.partition("lines=")[2]) for line in seen if "LogLost" in line)
    assert count > 0
    written = sum("line number=" in line or "the last one" in line for line in seen)
    assert written > 1000
    # Each line is written or counted, once. On a machine so busy that 2 s did not do for what was left, the end itself is missing.
    assert written + count <= 5001
    if any("the last one" in line for line in seen):
        assert written + count == 5001


@pytest.mark.parametrize("kind", ["closed", "full", "held"])
def test_a_log_that_cannot_be_written_ends_nobody(kind):
    read, write = os.pipe()
    if kind == "closed":
        os.close(read)
    elif kind == "full":
        os.dup2(os.open("/dev/full", os.O_WRONLY), write)
    with logger(5000, "the last one", write) as process:
        os.close(write)
        assert process.communicate(b"\n", timeout=60)[0] == b"told\n"
    assert process.returncode == 0
    if kind != "closed":
        os.close(read)
