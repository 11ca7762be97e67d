"""The alarm on real groups: a service that begins to wait for CPU wakes whoever waits."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from qosmanager.linux.stall_alarm import StallAlarm
from qosmanager.linux.stall_ear import Ear
from real_groups import RealGroups, obstacle
from waiting import PATIENCE, SLOWNESS, wait

pytestmark = pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))


@pytest.fixture
def groups():
    groups = RealGroups()
    groups.add("web")
    with contextlib.closing(contextlib.ExitStack()) as stack:
        stack.callback(groups.remove)
        asleep = Path(f"/proc/{groups.start('web', 'sleep', 'infinity').pid}/stat")
        wait(lambda: asleep.read_text().split()[1:3] == ["(sleep)", "S"], 20, "the service to be idle")
        yield groups


def test_a_service_that_begins_to_wait_ends_the_wait(groups):
    alarm = StallAlarm(groups.kernel, None)
    group = groups.path("web")
    how = alarm.watch({"default/web": group}, 0.1)
    assert how.startswith("1 service, looked at every 100 ms")
    assert alarm.wait(1.5 * SLOWNESS) is None
    # More runnable tasks than CPUs: some of them wait all the time, whatever else this machine does.
    groups.busy("web", len(os.sched_getaffinity(0)) + 2)
    jump = alarm.wait(20.0 * PATIENCE)
    assert jump is not None
    assert list(jump.pods) == ["default/web"]
    alarm.close()


def test_a_group_that_has_ended_is_let_go(groups):
    alarm = StallAlarm(groups.kernel, None)
    group = groups.path("web")
    alarm.watch({"default/web": group}, 0.02)
    groups.end("web")
    assert alarm.wait(0.2) is None
    reads = alarm.cost().reads
    assert alarm.wait(0.2) is None
    assert alarm.cost().reads == reads, "nobody is left to be read"
    alarm.close()


def test_where_the_kernel_allows_triggers_they_wake_us_too(groups):
    ear = Ear(groups.kernel, groups.path("web"))
    try:
        ear.arm()
    except PermissionError as error:
        ear.close()
        pytest.skip(f"a trigger with a window of half a second: {error.strerror} (CAP_SYS_RESOURCE)")
    ear.disarm()
    ear.close()
    alarm = StallAlarm(groups.kernel, None)
    # Left to the kernel once it has been quiet for 10 s.
    for _ in range(120):
        how = alarm.watch({"default/web": groups.path("web")}, 0.1)
        if "kernel triggers" in how:
            break
        assert alarm.wait(0.2) is None
    assert "1 of them by kernel triggers" in how
    groups.busy("web", len(os.sched_getaffinity(0)) + 2)
    jump = alarm.wait(20.0 * PATIENCE)
    assert jump is not None
    assert list(jump.pods) == ["default/web"]
    alarm.close()
