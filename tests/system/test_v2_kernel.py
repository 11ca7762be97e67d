"""The kernel tests and the whole agent once more, on a kernel with cgroup v2 alone: in a guest of this test's own.

Each test below is one that ran inside; its text tells what failed there. QOSM_GUEST=all runs every kernel and daemon test inside.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from guest.machine import boot, obstacle

WHY_NOT = obstacle()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

TESTS = Path(__file__).resolve().parents[1]
KERNEL = ("test_acting", "test_demo_groups", "test_fake_kernel", "test_measuring", "test_v2_files")
# The agent takes 5 s to start there: of what starts it often, the part that asks the most of the kernel.
AGENT = (
    "kernel/test_killed_writer.py::test_all_originals_come_back_after_kill_9_at_any_instant",
    "system/test_daemon.py::test_it_limits_be_and_puts_everything_back_on_sigterm",
    "system/test_daemon.py::test_pods_that_come_and_go_and_groups_removed_under_it",
)
ENVIRONMENT = {"QOSM_SLOWNESS": "10", "QOSM_KILLS": "2"}


def names_in(file: str) -> list[str]:
    tree = ast.parse((TESTS / file).read_text())
    return [f"{file}::{node.name}" for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


def inner_tests() -> list[str]:
    kernel = [name for file in KERNEL for name in names_in(f"kernel/{file}.py")]
    if os.environ.get("QOSM_GUEST") == "all":
        return kernel + names_in("kernel/test_killed_writer.py") + names_in("system/test_daemon.py")
    return kernel + list(AGENT)


INNER = inner_tests()


class Results:
    """Results as they come; asking for one waits for it."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._coming = boot(INNER, ENVIRONMENT, log, seconds=400 if len(INNER) < 50 else 1800)
        self._known: dict[str, list[dict[str, str]]] = {}

    def of(self, name: str) -> list[dict[str, str]]:
        """Return the results of a test: one for each set of its parameters."""
        for result in self._coming:
            self._known.setdefault(result["test"].partition("[")[0], []).append(result)
            if name in self._known and result["test"].partition("[")[0] != name:
                break
        if name not in self._known:
            broken = [result["text"] for results in self._known.values() for result in results if "::" not in result["test"]]
            console = self._log.read_text(errors="replace")[-3000:] if self._log.exists() else ""
            pytest.fail(f"the guest told nothing of this test\n{''.join(broken)}\n{console}", pytrace=False)
        return self._known[name]

    def close(self) -> None:
        """End the guest, if it still runs."""
        self._coming.close()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    found = Results(tmp_path_factory.mktemp("guest") / "console.log")
    yield found
    found.close()


@pytest.mark.parametrize("name", INNER)
def test_on_v2(results, name):
    of = results.of(name)
    failed = [f"{result['test']}\n{result['text']}" for result in of if result["outcome"] == "failed"]
    if failed:
        pytest.fail("\n".join(failed), pytrace=False)
    if all(result["outcome"] == "skipped" for result in of):
        pytest.skip(of[0]["text"])
