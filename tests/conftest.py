"""How much random testing a run does (QOSM_EXAMPLES=1000 pytest tests/property for a longer one), and what may run side by side."""

from __future__ import annotations

import logging
import os
from pathlib import Path

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


def pytest_collection_modifyitems(items):
    """With `-n`, what uses the machine itself (its cgroups, agents, browsers) stays in one process, one test after the other."""
    machine = [Path(__file__).parent / name for name in ("kernel", "system", "soak")]
    for item in items:
        if any(item.path.is_relative_to(directory) for directory in machine):
            item.add_marker(pytest.mark.xdist_group("machine"))
