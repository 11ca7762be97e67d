"""An output that takes no more ends a command with one line."""

import subprocess
import sys
from pathlib import Path

import pytest


def _run(*arguments: str, stdout: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "qosmanager", *arguments]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60, check=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", [("config", "show"), ("config", "schema"), ("completion", "bash")])
def test_full_disk_behind_standard_output_is_said_in_one_line(arguments):
    with Path("/dev/full").open("w") as full:
        ended = _run(*arguments, stdout=full)
    assert ended.returncode == 1
    assert ended.stderr == "qosmanager: the output cannot be written: No space left on device\n"
