"""Ctrl-C at any moment of a command's life: no traceback, and the exit code says it."""

import fcntl
import signal
import subprocess
import sys

import pytest

AS_COMMAND = ("-m", "qosmanager")
IGNORING = ("-c", "import signal, runpy; signal.signal(signal.SIGINT, signal.SIG_IGN); runpy.run_module('qosmanager', run_name='__main__')")


def interrupted_after_import_of(module: str, *arguments: str) -> tuple[int, str, str]:
    """Return the exit code, what was said, and what was said of faults. Python tells of each import, and cannot get far ahead of the one
    who reads that: the pipe holds a page."""
    command = [sys.executable, "-X", "importtime", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, 4096)
        for line in process.stderr:
            if line.split(b"|")[-1].strip() == module.encode():
                process.send_signal(signal.SIGINT)
                break
        faults = [line.decode() for line in process.stderr if not line.startswith(b"import time:")]
        return process.wait(60), process.stdout.read().decode(), "".join(faults)


@pytest.mark.parametrize("module", ["click", "msgspec"])
def test_while_the_commands_are_imported_it_ends_quietly(module):
    assert interrupted_after_import_of(module, *AS_COMMAND, "--help") == (130, "", "")


@pytest.mark.parametrize("arguments", [("--help",), ("config", "show"), ("status", "--help")])
def test_when_the_command_begins_or_is_done_it_ends_quietly_too(arguments):
    code, _, faults = interrupted_after_import_of("qosmanager.cli.main", *AS_COMMAND, *arguments)
    assert code in {0, 130}
    assert faults == ""


def test_where_it_is_ignored_it_stays_so():
    code, said, faults = interrupted_after_import_of("click", *IGNORING, "--version")
    assert (code, said.partition(",")[0], faults) == (0, "qosmanager", "")
