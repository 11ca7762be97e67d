"""Any request that the description allows is answered as it says, and what it does not allow is refused: schemathesis against a live board.

QOSM_EXAMPLES=1000 for a longer run.
"""

import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from agents import agent
from qosmanager.config.settings import Settings
from qosmanager.http.board import Board
from qosmanager.http.server import Listen, Server
from qosmanager.model.actions import Result
from qosmanager.views.status import About
from records import EVICT_CPU, LIMIT, WALL, outcome, receipt, record

EXAMPLES = os.environ.get("QOSM_EXAMPLES", "40")
COMMAND = [str(Path(sys.executable).parent / "schemathesis"), "run", "--no-color", "--max-examples", EXAMPLES]


@contextmanager
def running_agent():
    """Serve a board on which cycles are hung out while it is asked."""
    board = Board(About(version="1.2.3", pid=42, started=WALL - 60), Settings())
    over = threading.Event()
    numbers = count(1)

    def cycle():
        number = next(numbers)
        done = (receipt(0, Result.APPLIED),)
        board.publish(record(number, actions=(LIMIT, EVICT_CPU), receipts=done, outcomes=(outcome(100.0 + number - 1),)), Settings())

    def cycles():
        while not over.wait(0.05):
            cycle()

    cycle()
    loop = threading.Thread(target=cycles)
    loop.start()
    try:
        with Server(board, Listen("127.0.0.1", 0)) as server:
            yield server
    finally:
        over.set()
        loop.join()


def fuzz(server, directory, *options):
    # It reads its configuration and keeps its examples in the directory where it runs.
    return subprocess.run([*COMMAND, *options, f"{server.url}/openapi.json"], cwd=directory, capture_output=True, text=True, check=False)


def test_a_running_agent_answers_as_described(tmp_path):
    with running_agent() as server:
        fuzzed = fuzz(server, tmp_path)
    assert fuzzed.returncode == 0, fuzzed.stdout + fuzzed.stderr
    assert "Tested: 7" in fuzzed.stdout  # all but the description itself


def test_an_agent_without_a_cycle_answers_as_described(tmp_path):
    with agent() as server:
        may = ["--exclude-checks", "not_a_server_error,positive_data_acceptance"]  # 503 is right here
        fuzzed = fuzz(server, tmp_path, "--phases", "coverage", *may)
    assert fuzzed.returncode == 0, fuzzed.stdout + fuzzed.stderr
    assert "Tested: 7" in fuzzed.stdout


def test_a_fault_is_found(tmp_path):
    with agent() as server:
        fuzzed = fuzz(server, tmp_path, "--phases", "coverage", "--include-path", "/status")
    assert fuzzed.returncode == 1, fuzzed.stdout + fuzzed.stderr
    assert "no cycle has finished yet" in fuzzed.stdout
