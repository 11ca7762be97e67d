"""Kernel files read and written, each write read back (specification, section 9).

In: steps in their order. Out: what became of each file. A group that is gone is its own result; what the machine does not allow is a
refusal with its reason; anything else the kernel said is a failure.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from qosmanager.execute.dialect import BURST_NAMES, CPUS_NAME, QUOTA_NAMES, UnreadableError, check, same
from qosmanager.execute.ordering import Change
from qosmanager.model.actions import Result
from qosmanager.model.workload import CgroupFile
from qosmanager.ports import KernelFiles

GONE = (errno.ENOENT, errno.ENODEV)
_NOT_ALLOWED = {
    errno.EROFS: "the cgroup file system is mounted read-only",
    errno.EACCES: "this process may not touch it",
    errno.EPERM: "this process may not touch it",
}


class Trouble(Struct, frozen=True):
    """Why a file could not be read or written: GONE, REFUSED or FAILED, and the reason. `missing`: its group is there without it."""

    result: Result
    detail: str
    missing: bool = False


class Written(Struct, frozen=True, kw_only=True):
    """What became of one file: `before` and `after` are its texts (`after`: as read back; None: not known)."""

    file: CgroupFile
    result: Result
    before: str
    after: str | None
    detail: str = ""


def read(kernel: KernelFiles, file: CgroupFile) -> str | Trouble:
    """A file's text, which is of its quantity; or why there is none."""
    if kernel.version(file.controller) is None:
        return Trouble(Result.REFUSED, f"this machine has no usable cgroup controller {file.controller!r}")
    try:
        text = kernel.read(file)
        check(file, text)
    except OSError as error:
        return trouble(kernel, file, error)
    except UnreadableError as error:
        return Trouble(Result.FAILED, str(error))
    return text


def group_gone(kernel: KernelFiles, file: CgroupFile) -> bool:
    """Whether a file's whole group is not there any more."""
    try:
        kernel.inode(file.controller, file.group)
    except OSError as error:
        return error.errno in GONE
    return False


def trouble(kernel: KernelFiles, file: CgroupFile, error: OSError) -> Trouble:
    """Name what an error of the kernel means for a file."""
    code = error.errno or 0
    if code in GONE and group_gone(kernel, file):
        return Trouble(Result.GONE, "the group is gone")
    if code == errno.ENOENT:
        return Trouble(Result.REFUSED, f"the group has no {file.name}: controller {file.controller!r} is not enabled for it", missing=True)
    if code in _NOT_ALLOWED:
        return Trouble(Result.REFUSED, f"{errno.errorcode[code]}: {_NOT_ALLOWED[code]}")
    name = errno.errorcode.get(code, str(code))
    return Trouble(Result.FAILED, f"{name}: {_hint(code, file) or os.strerror(code)}")


def _hint(code: int, file: CgroupFile) -> str:
    if code == errno.EINVAL and file.name in QUOTA_NAMES:
        return "the kernel refuses this limit (v1: above the parent's or below a child's limit; below the group's burst; below 1000 us)"
    if code == errno.EINVAL and file.name in BURST_NAMES:
        return "the kernel refuses this burst (above the group's limit)"
    if file.name == CPUS_NAME and code in (errno.EBUSY, errno.EACCES, errno.EINVAL, errno.ERANGE, errno.ENOSPC):
        return "the kernel refuses these CPUs (outside the parent's, needed by a child, not there, or none left for the group's tasks)"
    return ""


def write_together(kernel: KernelFiles, steps: list[Change]) -> list[Written]:
    """Write steps that belong together; when one fails, those already done are undone, last first."""
    done: list[Change] = []
    written: dict[CgroupFile, Written] = {}
    for position, step in enumerate(steps):
        result = _write(kernel, step)
        before = written[step.file].before if step.file in written else step.before
        written[step.file] = _from(before, result)
        if result.result is Result.APPLIED:
            done.append(step)
        elif result.result is not Result.GONE:
            if result.after is not None and not same(step.file, result.after, step.before):
                done.append(step)
            _undo(kernel, done, written, result)
            _skip(steps[position + 1 :], written)
            break
    return list(written.values())


def write_each(kernel: KernelFiles, steps: Iterable[Change]) -> list[Written]:
    """Write steps that stand alone: what fails is reported, the others are done all the same."""
    written: dict[CgroupFile, Written] = {}
    for step in steps:
        known = written.get(step.file)
        if known is None or known.result is Result.APPLIED:
            written[step.file] = _from(known.before if known else step.before, _write(kernel, step))
    return list(written.values())


def _from(before: str, result: Written) -> Written:
    """The same result, counted from the text before the first step on the file."""
    return Written(file=result.file, result=result.result, before=before, after=result.after, detail=result.detail)


def _write(kernel: KernelFiles, step: Change) -> Written:
    file = step.file
    try:
        # An empty text is a write of no bytes, which the kernel never sees: the line end makes it one.
        kernel.write(file, step.after or "\n")
        after = kernel.read(file)
    except OSError as error:
        if error.errno == errno.ENOSPC and file.name == CPUS_NAME and not step.after and kernel.version("cpuset") == 2:
            return _write_every_cpu(kernel, step)
        why = trouble(kernel, file, error)
        return Written(file=file, result=why.result, before=step.before, after=_present(kernel, file), detail=why.detail)
    if same(file, after, step.after):
        return Written(file=file, result=Result.APPLIED, before=step.before, after=after)
    detail = f"wrote {step.after!r}, the file then held {after!r}"
    return Written(file=file, result=Result.FAILED, before=step.before, after=after, detail=detail)


def _write_every_cpu(kernel: KernelFiles, step: Change) -> Written:
    """Give an empty set back to a v2 group in which tasks run: the kernel refuses it, and every CPU there is means the same."""
    try:
        every = kernel.read(CgroupFile("cpuset", "", "cpuset.cpus.effective"))
    except OSError as error:
        why = trouble(kernel, step.file, error)
        return Written(file=step.file, result=why.result, before=step.before, after=_present(kernel, step.file), detail=why.detail)
    written = _write(kernel, Change(step.file, step.before, every))
    detail = "the kernel takes no empty set while tasks run in the group: it has every CPU instead, which means the same"
    return replace(written, detail=detail) if written.result is Result.APPLIED else written


def _present(kernel: KernelFiles, file: CgroupFile) -> str | None:
    """What the file holds after a write that failed, if that can be told."""
    text = read(kernel, file)
    return text if isinstance(text, str) else None


def _undo(kernel: KernelFiles, done: list[Change], written: dict[CgroupFile, Written], cause: Written) -> None:
    for step in reversed(done):
        back = _write(kernel, Change(step.file, step.after, step.before))
        first = written[step.file]
        if step.file == cause.file:
            written[step.file] = Written(file=step.file, result=cause.result, before=first.before, after=back.after, detail=cause.detail)
            continue
        detail = f"undone, because {cause.file} failed: {cause.detail}"
        if back.result is not Result.APPLIED:
            detail = f"could not be undone ({back.detail}) after {cause.file} failed: {cause.detail}"
        written[step.file] = Written(file=step.file, result=cause.result, before=first.before, after=back.after, detail=detail)


def _skip(steps: list[Change], written: dict[CgroupFile, Written]) -> None:
    for step in steps:
        if step.file not in written:
            detail = "not written, because a write before it failed"
            written[step.file] = Written(file=step.file, result=Result.FAILED, before=step.before, after=step.before, detail=detail)
