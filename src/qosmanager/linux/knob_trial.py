"""What of isolation this kernel has, tried in a group of our own that is removed at once (specification, section 5.1)."""

from __future__ import annotations

import errno
import os

from msgspec import Struct

from qosmanager.doctor.host import Trial
from qosmanager.linux.cgroup import Hierarchies
from qosmanager.linux.disks import BlockDevices
from qosmanager.linux.trial import own_group
from qosmanager.model.workload import CgroupFile


class _Knob(Struct, frozen=True):
    """`files`: by cgroup version, (name, text to be written; "": it only has to be there)."""

    name: str
    controller: str
    files: dict[int, tuple[tuple[str, str], ...]]
    absent: str


_KNOBS = (
    _Knob(
        "cpu: BE idle", "cpu", {1: (("cpu.idle", "1"),), 2: (("cpu.idle", "1"),)}, "this kernel has no cpu.idle: the smallest weight serves"
    ),
    _Knob(
        "services: kernel burst",
        "cpu",
        {1: (("cpu.cfs_quota_us", "50000"), ("cpu.cfs_burst_us", "50000")), 2: (("cpu.max", "50000 100000"), ("cpu.max.burst", "50000"))},
        "this kernel has no burst",
    ),
    _Knob("memory: memory.low, high", "memory", {2: (("memory.low", "4096"), ("memory.high", "1073741824"))}, "cgroup v1 has neither"),
    _Knob("io: I/O limit", "blkio", {1: (("blkio.throttle.read_bps_device", ""),), 2: (("io.max", ""),)}, "this kernel throttles no group"),
)


def try_knobs(hierarchies: Hierarchies, disks: BlockDevices) -> dict[str, Trial]:
    """Try each knob, by the setting that wants it and its name."""
    found = {knob.name: _try(hierarchies, knob) for knob in _KNOBS}
    weighs = disks.weighing()
    found["io: I/O weight"] = Trial(weighs, "a disk has bfq" if weighs else "no disk here has a scheduler that goes by weights (bfq)")
    return found


def _try(hierarchies: Hierarchies, knob: _Knob) -> Trial:
    version = hierarchies.version(knob.controller)
    files = knob.files.get(version or 0)
    if files is None:
        return Trial(False, knob.absent if version else f"no {knob.controller} controller")
    if os.geteuid() != 0:
        return Trial(None, "not tried: not root")
    try:
        with own_group(hierarchies, knob.controller) as group:
            for name, text in files:
                file = CgroupFile(knob.controller, group, name)
                if text:
                    hierarchies.write(file, text)
                hierarchies.read(file)
    except OSError as error:
        return Trial(False, knob.absent if error.errno == errno.ENOENT else f"{files[-1][0]}: {error.strerror}")
    return Trial(True, f"{files[-1][0]} {'can be written' if files[-1][1] else 'is there'}")
