"""How much random testing a run does (QOSM_EXAMPLES=1000 pytest tests/property for a longer one), and what may run side by side."""

from __future__ import annotations

import logging
import os

import pytest
from hypothesis import settings

settings.register_profile("project", max_examples=int(os.environ.get("QOSM_EXAMPLES", "60")), deadline=None, print_blob=True)
settings.load_profile("project")


@pytest.fixture(autouse=True)
def _log_as_it_was():
    """Commands that run in the test's own process set up the agent's log; the next test must not find it changed."""
    log = logging.getLogger("qosmanager")
    kept = log.handlers[:], log.level, log.propagate
    yield
    log.handlers[:], log.level, log.propagate = kept


_MACHINE = ("tests/kernel/", "tests/system/", "tests/soak/")
# These stay out of this machine's cgroups: a guest has its own.
_ANYWHERE = tuple(f"tests/system/test_{name}.py" for name in ("v2_kernel", "simulate", "documentation", "plan_command"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With `-n`, what uses the machine itself (its cgroups, agents, guests) stays in one process, one test after the other."""
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 - only with -n

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            is_bound = nodeid.startswith(_MACHINE) and not nodeid.startswith(_ANYWHERE)
            return "machine" if is_bound else nodeid.partition("::")[0]

    return Scheduling(config, log)
