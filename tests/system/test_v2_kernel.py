"""The kernel tests and the whole agent once more, on a kernel with cgroup v2 alone: in a guest of this test's own.

Each test below is one that ran inside; its text tells what failed there. QOSM_GUEST=all runs every kernel and daemon test inside.
"""

from __future__ import annotations

import os

import pytest

from guest.machine import boot, obstacle
from guest.results import Results, names_in

WHY_NOT = obstacle()
# What a test waits for here is the whole guest up to its own.
SECONDS = 1500 if os.environ.get("QOSM_GUEST") != "all" else 7200
pytestmark = [pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)), pytest.mark.timeout(SECONDS + 60)]

KERNEL = ("test_acting", "test_demo_groups", "test_fake_kernel", "test_isolation", "test_measuring", "test_v2_files")
# The agent takes 5 s to start there: of what starts it often, the part that asks the most of the kernel.
AGENT = (
    "kernel/test_killed_writer.py::test_all_originals_come_back_after_kill_9_at_any_instant",
    "kernel/test_stall_alarm.py::test_where_the_kernel_allows_triggers_they_wake_us_too",
    "system/test_daemon.py::test_it_limits_be_and_puts_everything_back_on_sigterm",
    "system/test_isolation.py::test_all_of_it_comes_back_after_the_agent_was_killed",
    "system/test_daemon.py::test_pods_that_come_and_go_and_groups_removed_under_it",
)
ALL = ("kernel/test_killed_writer.py", "kernel/test_stall_alarm.py", "system/test_daemon.py")  # chaos needs ten cycles a second
ENVIRONMENT = {"QOSM_SLOWNESS": "10", "QOSM_KILLS": "2"}


def inner_tests() -> list[str]:
    kernel = [name for file in KERNEL for name in names_in(f"kernel/{file}.py")]
    return kernel + ([name for file in ALL for name in names_in(file)] if os.environ.get("QOSM_GUEST") == "all" else list(AGENT))


INNER = inner_tests()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    log = tmp_path_factory.mktemp("guest") / "console.log"
    found = Results(boot(INNER, ENVIRONMENT, log, seconds=SECONDS), log)
    yield found
    found.close()


@pytest.mark.parametrize("name", INNER)
def test_on_v2(results, name):
    results.judge(name)
