"""All kernel tests, chaos and the whole agent on User-mode Linux: a second v2 kernel, at full speed; one CPU, no cpuset, no PSI."""

from __future__ import annotations

import pytest

from guest.machine import boot_user_mode, user_mode_obstacle
from guest.results import Results, names_in

WHY_NOT = user_mode_obstacle()
pytestmark = [pytest.mark.soak, pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))]

FILES = (
    *("kernel/test_acting.py", "kernel/test_chaos.py", "kernel/test_demo_groups.py", "kernel/test_killed_writer.py"),
    *("kernel/test_measuring.py", "kernel/test_v2_files.py", "system/test_daemon.py"),
)
INNER = [name for file in FILES for name in names_in(file)]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    log = tmp_path_factory.mktemp("guest") / "console.log"
    found = Results(boot_user_mode(INNER, {"QOSM_SLOWNESS": "4", "QOSM_KILLS": "20"}, log, seconds=1800), log)
    yield found
    found.close()


@pytest.mark.parametrize("name", INNER)
def test_on_user_mode_linux(results, name):
    results.judge(name)
