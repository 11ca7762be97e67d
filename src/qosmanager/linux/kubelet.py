"""Which CPUs kubelet's static CPU policy has given to whom: the `CpuManager` port over its checkpoint (specification, section 5.4).

The file is JSON: `{"policyName": "static", "defaultCpuSet": "0-1", "entries": {"<pod uid>": {"<container>": "2-3"}}, ...}`; kubelet
replaces it whole, so a file that is there is complete.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import msgspec
from msgspec import Struct

from qosmanager.collect.readings import CpuGrants
from qosmanager.model.cpu_list import parse_cpus

CHECKPOINT = Path("/var/lib/kubelet/cpu_manager_state")
LARGEST = 1 << 20  # bytes; a node has some hundred pods


class _Checkpoint(Struct):
    policyName: str  # noqa: N815 - kubelet's name for it
    entries: dict[str, dict[str, str]] | None = None


class KubeletCpus:
    """Reads the checkpoint again when it has changed."""

    def __init__(self, path: Path = CHECKPOINT) -> None:
        self._path = path
        self._mark: tuple[int, int, int] | None = None
        self._known = CpuGrants()

    def grants(self) -> CpuGrants:
        reason = ""
        try:
            status = self._path.stat()
            mark = (status.st_ino, status.st_size, status.st_mtime_ns)
            if mark == self._mark:
                return self._known
            self._known, self._mark = self._read(), mark
        except OSError as error:
            reason = error.strerror or str(error)
        except (ValueError, msgspec.DecodeError, RecursionError) as error:
            reason = f"not understood: {error}"
        if reason:
            self._mark = None
            self._know_nothing(reason)
        return self._known

    def _read(self) -> CpuGrants:
        with open(self._path, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "is not a regular file")  # a pipe would hold the cycle up
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise ValueError(f"longer than {LARGEST} bytes")
        checkpoint = msgspec.json.decode(content, type=_Checkpoint)
        if checkpoint.policyName != "static":
            return CpuGrants()
        given = {
            uid: tuple(sorted(frozenset[int]().union(*(parse_cpus(cpus) for cpus in containers.values()))))
            for uid, containers in (checkpoint.entries or {}).items()
        }
        return CpuGrants(static=True, by_uid={uid: cpus for uid, cpus in given.items() if cpus})

    def _know_nothing(self, reason: str) -> None:
        problem = f"{self._path}: {reason}; the CPUs that kubelet gives to single pods are not known"
        if problem != self._known.problem:
            self._known = CpuGrants(problem=problem)
