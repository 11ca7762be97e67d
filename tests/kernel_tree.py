"""A kernel made of real files: a cgroup tree in a temporary directory that also enforces the kernel's rules on every write.

`KernelTree(path, layout)` with layout "v1", "v2" or "hybrid" is a `KernelFiles`; `Hierarchies.probe(tree.root)` reads the same files.
Test code changes them with `add`, `remove`, `recreate`, `put` (as another program would, without rules) and asks for faults with `fail`.
Rules and error numbers are those measured on Linux 6.18: see each `_check_...`.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
from collections import deque
from pathlib import Path

from qosmanager.linux.cgroup import CONTROLLERS, Hierarchies
from qosmanager.model.workload import CgroupFile

_V1_FILES = {
    "cpu": {
        "cpu.cfs_quota_us": "-1",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_burst_us": "0",
        "cpu.shares": "1024",
        "cpu.idle": "0",
        "cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0",
    },
    "cpuacct": {"cpuacct.usage": "0"},
    "cpuset": {"cpuset.cpus": "", "cpuset.mems": ""},
    "memory": {
        "memory.usage_in_bytes": "0",
        "memory.limit_in_bytes": "9223372036854771712",
        "memory.stat": "rss 0\nshmem 0\nswap 0\ntotal_rss 0\ntotal_shmem 0\ntotal_swap 0",
    },
    "freezer": {"freezer.state": "THAWED"},
    "blkio": {
        "blkio.throttle.io_service_bytes": "",
        "blkio.throttle.io_service_bytes_recursive": "",
        "blkio.throttle.read_bps_device": "",
        "blkio.throttle.write_bps_device": "",
        "blkio.bfq.weight": "100",
    },
}
_V2_BASE = {
    "cgroup.kill": "",
    "cgroup.freeze": "0",
    "cgroup.events": "populated 0\nfrozen 0",
    "cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0",
    "memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0",
    "io.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0",
    "cpu.stat": "usage_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0",
}
_V2_FILES = {
    "cpu": {"cpu.max": "max 100000", "cpu.max.burst": "0", "cpu.weight": "100", "cpu.idle": "0"},
    "cpuset": {"cpuset.cpus": "", "cpuset.cpus.effective": ""},
    "memory": {
        "memory.current": "0",
        "memory.max": "max",
        "memory.high": "max",
        "memory.low": "0",
        "memory.stat": "anon 0\nshmem 0",
        "memory.swap.current": "0",
        "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0",
    },
    "io": {"io.stat": "", "io.max": "", "io.bfq.weight": "default 100"},
}


class KernelTree:
    """The fake kernel. `cpus` is what the machine has, in the kernel's list format. `writes` is every accepted write, in order."""

    def __init__(self, path: Path, layout: str = "v1", cpus: str = "0-3") -> None:
        self.root = path
        self.layout = layout
        self.writes: list[tuple[str, str]] = []
        self.disks = ("254:0",)
        self._machine = _cpus(cpus)
        self._faults: list[_Fault] = []
        self._serial = 0
        path.mkdir(parents=True, exist_ok=True)
        if layout != "v2":
            for controller in CONTROLLERS:
                self._fill(path / controller, _V1_FILES[controller])
            (path / "cpuset" / "cpuset.cpus").write_text(cpus + "\n")
        if layout != "v1":
            top = path if layout == "v2" else path / "unified"
            top.mkdir(exist_ok=True)
            (top / "cgroup.controllers").write_text("cpuset cpu io memory pids\n" if layout == "v2" else "\n")
            self._fill(top, _V2_BASE)
            if layout == "v2":
                (top / "cpuset.cpus.effective").write_text(cpus + "\n")
        self.files = Hierarchies.probe(path)

    # -- what tests do to it -------------------------------------------------------------------------------------------------

    def add(self, group: str, *, pids: tuple[int, ...] = (), **values: str) -> str:
        """Make a group in every hierarchy. Values by file name with "_" for ".": `cpu_cfs_quota_us="50000"`, `cpuset_cpus="0-1"`."""
        above = os.path.dirname(group)
        if above and not os.path.isdir(self._directories(above)[0]):
            self.add(above)
        for directory, files in self._contents():
            self._fill(directory / group, files)
        parent = self._cpus_of(above)
        self.put(CgroupFile("cpuset", group, "cpuset.cpus"), values.pop("cpuset_cpus", parent if self.layout != "v2" else ""))
        self.set_pids(group, *pids)
        for name, value in values.items():
            self._put_by_name(group, name, value)
        self._refresh()
        return group

    def remove(self, group: str) -> None:
        """The group ends, with all below it."""
        for directory in self._directories(group):
            shutil.rmtree(directory, ignore_errors=True)

    def take(self, group: str, name: str) -> None:
        """The group loses a file, as it does with its controller."""
        Path(self.files.path(CgroupFile(name.partition(".")[0], group, name))).unlink()

    def recreate(self, group: str, **values: str) -> None:
        """The group ends and another one is born under its name: another inode."""
        self.remove(group)
        # A directory in between keeps the file system from handing out the same inode number again.
        self._serial += 1
        for directory, _ in self._contents():
            (directory / f".gone-{self._serial}").mkdir()
        self.add(group, **values)

    def set_pids(self, group: str, *pids: int) -> None:
        for directory in self._directories(group):
            Path(directory, "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))

    def put(self, file: CgroupFile, text: str) -> None:
        """Another program writes: no rules."""
        Path(self.files.path(file)).write_text(text + "\n")
        self._refresh()

    def text(self, group: str, name: str) -> str:
        """A file's text, by the name alone."""
        controller = name.partition(".")[0]
        return Path(self.files.path(CgroupFile(controller, group, name))).read_text().strip()

    def fail(
        self, name: str, how: int | str, *, call: str = "write", group: str | None = None, skip: int = 0, times: int = 1 << 30
    ) -> None:
        """From the `skip`-th call on, `times` calls of "read", "write", "inode" or "children" on files of this name fail.

        `how` is an error number, or for reads the text that is seen instead ("": an empty file; half of it: a short read).
        """
        self._faults.append(_Fault(call, name, group, how, skip, times))

    def heal(self) -> None:
        """No more faults."""
        self._faults.clear()

    # -- KernelFiles ---------------------------------------------------------------------------------------------------------

    def identity(self) -> str:
        return self.files.identity()

    def version(self, controller: str) -> int | None:
        return self.files.version(controller)

    def read(self, file: CgroupFile) -> str:
        text = self._fault("read", file.group, file.name)
        real = self.files.read(file)
        return real if text is None else text

    def keep(self, file: CgroupFile, inode: int) -> _Kept:
        return _Kept(self, file, inode)

    def write(self, file: CgroupFile, text: str) -> None:
        self._fault("write", file.group, file.name)
        before = self.files.read(file)
        stored = self._checked(file, text.strip(), before)
        if file.name == "cgroup.kill":
            self._kill(file.group)
        elif "@" in file.name:
            self._put_line(file, stored)
        else:
            Path(self.files.path(file)).write_text(stored + "\n")
        if file.name == "cpu.idle" and stored != before:
            # The kernel's own: the group's weight is lost when it becomes idle, and the default when it is busy again.
            shown, default, name = ("3", "1024", "cpu.shares") if self.version("cpu") == 1 else ("0", "100", "cpu.weight")
            Path(self.files.path(CgroupFile("cpu", file.group, name))).write_text((shown if stored == "1" else default) + "\n")
        self.writes.append((str(file), stored))
        self._refresh()

    def inode(self, controller: str, group: str) -> int:
        self._fault("inode", group, "")
        return self.files.inode(controller, group)

    def children(self, controller: str, group: str) -> list[str]:
        self._fault("children", group, "")
        return [name for name in self.files.children(controller, group) if not name.startswith(".gone-")]

    def pids(self, controller: str, group: str) -> list[int]:
        return [int(pid) for pid in self.read(CgroupFile(controller, group, "cgroup.procs")).split()]

    # -- the kernel's rules --------------------------------------------------------------------------------------------------

    def _checked(self, file: CgroupFile, text: str, before: str) -> str:
        """The text that the kernel keeps, or its error."""
        check = {
            "cpu.cfs_quota_us": self._check_quota,
            "cpu.cfs_period_us": self._check_period,
            "cpu.max": self._check_max,
            "cpu.cfs_burst_us": self._check_burst,
            "cpu.max.burst": self._check_burst,
            "cpu.shares": self._check_weight,
            "cpu.weight": self._check_weight,
            "cpuset.cpus": self._check_cpus,
            "memory.limit_in_bytes": self._check_memory,
            "cpu.idle": self._check_idle,
            "memory.high": self._check_bytes,
            "memory.low": self._check_bytes,
            "io.max": self._check_io_max,
            "io.bfq.weight": self._check_io_weight,
            "blkio.bfq.weight": self._check_io_weight,
            "blkio.throttle.read_bps_device": self._check_io_device,
            "blkio.throttle.write_bps_device": self._check_io_device,
        }.get(file.name.partition("@")[0])
        return text if check is None else check(file, text, before)

    def _check_quota(self, file: CgroupFile, text: str, _before: str) -> str:
        us = _number(text, file)
        if us < 0:
            us = math.inf
        _require(us >= 1000, errno.EINVAL, file)
        burst = _number(self.files.read(CgroupFile("cpu", file.group, "cpu.cfs_burst_us")), file)
        _require(burst <= us, errno.EINVAL, file)
        period = float(self.files.read(CgroupFile("cpu", file.group, "cpu.cfs_period_us")))
        self._check_hierarchy(file, us / period)
        return "-1" if math.isinf(us) else str(int(us))

    def _check_period(self, file: CgroupFile, text: str, _before: str) -> str:
        period = _number(text, file)
        _require(1000 <= period <= 1_000_000, errno.EINVAL, file)
        us = float(self.files.read(CgroupFile("cpu", file.group, "cpu.cfs_quota_us")))
        self._check_hierarchy(file, math.inf if us < 0 else us / period)
        return text

    def _check_hierarchy(self, file: CgroupFile, cores: float) -> None:
        """v1: a limited group is within the nearest limited group above it, and limited groups below are within it."""
        _require(math.isinf(cores) or cores <= self._above(file.group) + 1e-9, errno.EINVAL, file)
        allowed = min(cores, self._above(file.group))
        for child in self._below(file.group):
            own = self._cores(child)
            _require(math.isinf(own) or own <= allowed + 1e-9, errno.EINVAL, file)

    def _check_max(self, file: CgroupFile, text: str, before: str) -> str:
        words = text.split()
        _require(1 <= len(words) <= 2, errno.EINVAL, file)
        period = words[1] if len(words) == 2 else before.split()[1]
        us = math.inf if words[0] == "max" else _number(words[0], file)
        _require(us >= 1000, errno.EINVAL, file)
        _require(_number(self.files.read(CgroupFile("cpu", file.group, "cpu.max.burst")), file) <= us, errno.EINVAL, file)
        return f"{words[0]} {period}"

    def _check_burst(self, file: CgroupFile, text: str, _before: str) -> str:
        name = "cpu.max" if file.name == "cpu.max.burst" else "cpu.cfs_quota_us"
        quota = self.files.read(CgroupFile("cpu", file.group, name)).split()[0]
        _require(quota in ("-1", "max") or _number(text, file) <= float(quota), errno.EINVAL, file)
        return text

    def _check_weight(self, file: CgroupFile, text: str, _before: str) -> str:
        _require(self.files.read(CgroupFile("cpu", file.group, "cpu.idle")) != "1", errno.EINVAL, file)
        weight = int(_number(text, file))
        if file.name == "cpu.shares":
            return str(min(max(weight, 2), 262144))
        _require(1 <= weight <= 10000, errno.ERANGE, file)
        return str(weight)

    @staticmethod
    def _check_idle(file: CgroupFile, text: str, _before: str) -> str:
        _require(text in ("0", "1"), errno.EINVAL, file)
        return text

    @staticmethod
    def _check_bytes(file: CgroupFile, text: str, _before: str) -> str:
        return text if text == "max" else str(int(_number(text, file)) // 4096 * 4096)

    def _check_io_max(self, file: CgroupFile, text: str, before: str) -> str:
        self._check_io_device(file, "0", before)
        limits = dict(word.split("=") for word in before.split())
        for name, _, value in (word.partition("=") for word in text.split()):
            _require(name in limits and (value == "max" or _number(value, file) > 0), errno.EINVAL, file)
            limits[name] = value
        return " ".join(f"{name}={limits[name]}" for name in ("rbps", "wbps", "riops", "wiops"))

    def _check_io_device(self, file: CgroupFile, text: str, _before: str) -> str:
        _require(file.name.partition("@")[2] in self.disks, errno.ENODEV, file)
        return str(int(_number(text, file)))

    @staticmethod
    def _check_io_weight(file: CgroupFile, text: str, _before: str) -> str:
        _require(1 <= _number(text, file) <= 1000, errno.ERANGE, file)
        return text

    def _put_line(self, file: CgroupFile, text: str) -> None:
        """A device without limits has no line."""
        key, path = file.name.partition("@")[2], Path(self.files.path(file))
        lines = [line for line in path.read_text().splitlines() if not line.startswith(f"{key} ")]
        if text not in ("0", "rbps=max wbps=max riops=max wiops=max"):
            lines.append(f"{key} {text}")
        path.write_text("".join(f"{line}\n" for line in lines))

    def _check_cpus(self, file: CgroupFile, text: str, before: str) -> str:
        try:
            cpus = _cpus(text)
        except ValueError:
            raise _error(errno.EINVAL, file) from None
        _require(cpus <= self._machine, errno.ERANGE, file)
        if self.layout == "v2":
            populated = any(self.pids("cpuset", group) for group in (file.group, *self._below(file.group, "cpuset")))
            _require(bool(cpus) or not before or not populated, errno.ENOSPC, file)
            return text
        _require(bool(cpus) or not self.pids("cpuset", file.group), errno.ENOSPC, file)
        for child in self._below(file.group, "cpuset"):
            _require(_cpus(self._cpus_of(child)) <= cpus, errno.EBUSY, file)
        _require(cpus <= _cpus(self._cpus_of(os.path.dirname(file.group))), errno.EACCES, file)
        return text

    def _check_memory(self, file: CgroupFile, text: str, _before: str) -> str:
        used = _number(self.files.read(CgroupFile("memory", file.group, "memory.usage_in_bytes")), file)
        _require(_number(text, file) < 0 or _number(text, file) >= used, errno.EBUSY, file)
        return text

    # -- the tree ------------------------------------------------------------------------------------------------------------

    def _contents(self) -> list[tuple[Path, dict[str, str]]]:
        found = []
        if self.layout != "v2":
            found += [(self.root / controller, _V1_FILES[controller]) for controller in CONTROLLERS]
        if self.layout == "hybrid":
            found.append((self.root / "unified", _V2_BASE))
        if self.layout == "v2":
            merged = dict(_V2_BASE)
            for files in _V2_FILES.values():
                merged.update(files)
            found.append((self.root, merged))
        return found

    def _directories(self, group: str) -> list[str]:
        return [str(directory / group) for directory, _ in self._contents()]

    @staticmethod
    def _fill(directory: Path, files: dict[str, str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in {"cgroup.procs": "", **files}.items():
            if not (directory / name).exists():
                (directory / name).write_text(text + "\n" if text else "")

    def _put_by_name(self, group: str, name: str, value: str) -> None:
        for directory in self._directories(group):
            for path in Path(directory).iterdir():
                if path.name.replace(".", "_") == name:
                    path.write_text(value + "\n")
                    return
        raise AssertionError(f"{group} has no file {name}")

    def _below(self, group: str, controller: str = "cpu") -> list[str]:
        found = []
        for name in self.files.children(controller, group):
            if not name.startswith(".gone-"):
                path = f"{group}/{name}" if group else name
                found += [path, *self._below(path, controller)]
        return found

    def _cores(self, group: str) -> float:
        us = float(self.files.read(CgroupFile("cpu", group, "cpu.cfs_quota_us")))
        return math.inf if us < 0 else us / float(self.files.read(CgroupFile("cpu", group, "cpu.cfs_period_us")))

    def _above(self, group: str) -> float:
        while group:
            group = os.path.dirname(group)
            if (cores := self._cores(group)) < math.inf:
                return cores
        return math.inf

    def _cpus_of(self, group: str) -> str:
        if self.layout == "v2" and not group:
            return self.files.read(CgroupFile("cpuset", "", "cpuset.cpus.effective"))
        return self.files.read(CgroupFile("cpuset", group, "cpuset.cpus"))

    def _refresh(self) -> None:
        """v2: what groups may really use follows from theirs and their parents' sets."""
        if self.layout != "v2":
            return
        todo = deque([("", self._machine)])
        while todo:
            group, allowed = todo.popleft()
            for name in self.files.children("unified", group):
                path = f"{group}/{name}" if group else name
                if name.startswith(".gone-") or not os.path.exists(f"{self.root}/{path}/cpuset.cpus"):
                    continue
                mine = _cpus(Path(self.root, path, "cpuset.cpus").read_text().strip())
                effective = (mine & allowed) or allowed
                Path(self.root, path, "cpuset.cpus.effective").write_text(",".join(map(str, sorted(effective))) + "\n")
                todo.append((path, effective))

    def _kill(self, group: str) -> None:
        for each in (group, *self._below(group, "unified")):
            self.set_pids(each)

    def _fault(self, call: str, group: str, name: str) -> str | None:
        for fault in self._faults:
            if fault.hits(call, group, name):
                if isinstance(fault.how, int):
                    raise OSError(fault.how, os.strerror(fault.how), f"{group}/{name}")
                return fault.how
        return None


class _Kept:
    """A descriptor kept open: answers only while the group is the one that it was opened in."""

    def __init__(self, tree: KernelTree, file: CgroupFile, inode: int) -> None:
        self._tree, self._file, self._inode = tree, file, inode

    def read(self) -> str:
        if self._tree.inode(self._file.controller, self._file.group) != self._inode:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV), str(self._file))
        return self._tree.read(self._file)


class _Fault:
    def __init__(self, call: str, name: str, group: str | None, how: int | str, skip: int, times: int) -> None:
        self.how = how
        self._where = (call, name, group)
        self._skip = skip
        self._times = times

    def hits(self, call: str, group: str, name: str) -> bool:
        wanted_call, wanted_name, wanted_group = self._where
        if call != wanted_call or name != wanted_name or wanted_group not in (None, group):
            return False
        if self._skip > 0:
            self._skip -= 1
            return False
        self._times -= 1
        return self._times >= 0


def _cpus(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _number(text: str, file: CgroupFile) -> float:
    try:
        return float(int(text))
    except ValueError:
        raise _error(errno.EINVAL, file) from None


def _require(holds: bool, code: int, file: CgroupFile) -> None:
    if not holds:
        raise _error(code, file)


def _error(code: int, file: CgroupFile) -> OSError:
    return OSError(code, os.strerror(code), str(file))
