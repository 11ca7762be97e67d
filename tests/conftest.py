"""How much random testing a run does (QOSM_EXAMPLES=1000 pytest tests/property for a longer one), and what may run side by side."""

from __future__ import annotations

import logging
import os

import pytest
from hypothesis import HealthCheck, settings

# How fast the machine is decides nothing here: neither a deadline, nor hypothesis' own look at how long examples take to make.
settings.register_profile(
    "project",
    max_examples=int(os.environ.get("QOSM_EXAMPLES", "60")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("project")


@pytest.fixture(autouse=True)
def _log_as_it_was():
    """Commands that run in the test's own process set up the agent's log; the next test must not find it changed."""
    log = logging.getLogger("qosmanager")
    kept = log.handlers[:], log.level, log.propagate
    yield
    log.handlers[:], log.level, log.propagate = kept


_MACHINE = ("tests/kernel/", "tests/system/", "tests/soak/")
# What takes longest, besides the machine's own. These stay out of its cgroups: a guest has its own, other kernels are of files.
_LONGEST = (
    "tests/system/test_v2_kernel.py",
    "tests/property/test_parsers.py",
    "tests/system/test_simulate.py",
    "tests/system/test_http_fuzz.py",
)
_ANYWHERE = (*_LONGEST, *(f"tests/system/test_{name}.py" for name in ("documentation", "kubelet_cpus", "plan_command", "whole_cycle")))


def _scope(nodeid: str) -> str:
    """Tests of one scope run in one process, one after the other."""
    is_bound = nodeid.startswith(_MACHINE) and not nodeid.startswith(_ANYWHERE)
    return "machine" if is_bound else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With `-n`, what uses the machine itself (its cgroups, agents, guests) stays in one process, one test after the other."""
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 - only with -n

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return _scope(nodeid)

    config.option.loadscopereorder = False
    return Scheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """With `-n`, what takes long begins first, so that no process is left with it at the end."""
    if hasattr(config, "workerinput"):
        first = ("machine", *_LONGEST)
        items.sort(key=lambda item: first.index(scope) if (scope := _scope(item.nodeid)) in first else len(first))
