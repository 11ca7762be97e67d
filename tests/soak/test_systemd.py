"""The shipped units under a real systemd (make soak-systemd): what is seen in a machine with nothing but it."""

from __future__ import annotations

import pytest

from guest.results import Results, names_in
from real_systemd.machine import boot, obstacle

WHY_NOT = obstacle()
pytestmark = [pytest.mark.soak, pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))]

INNER = names_in("real_systemd/steps.py")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    log = tmp_path_factory.mktemp("guest") / "console.log"
    found = Results(boot(INNER, log, seconds=1800), log)
    yield found
    found.close()


@pytest.mark.parametrize("name", INNER)
def test_under_systemd(results, name):
    results.judge(name)
