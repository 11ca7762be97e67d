"""What this agent has changed: who owns which kernel file, its original and our value (specification, section 9).

In: intended writes. Out: a journal that is on tmpfs before the write is in the kernel, so that a kill at any instant loses nothing.
The journal's lease is renewed while the agent lives; once it is over and nobody holds the lock, `restore --if-expired` may act.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from msgspec.structs import replace

from qosmanager.execute.dialect import UnreadableError, check, is_owned_name, same
from qosmanager.model.workload import CgroupFile
from qosmanager.ports import Journal, JournalEntry, JournalError, JournalRecord, OomEntry

LEASE = 120.0  # seconds for which BE limits outlive their agent
RENEWAL = 30.0  # seconds between two renewals of a living agent's lease


class Boot(Protocol):
    """This boot of the machine: its id, and seconds since its start, sleep included (CLOCK_BOOTTIME)."""

    @property
    def id(self) -> str: ...

    def time(self) -> float: ...


def holds_ours(entry: JournalEntry, text: str) -> bool:
    """Whether a file's present text is one that we wrote."""
    return any(same(entry.file, written, text) for written in entry.written)


def inside(group: str) -> bool:
    """Whether a stored path is that of a group below the cgroup root; the root itself holds every process of the machine."""
    return not {"", ".", ".."} & set(group.split("/")) and "\0" not in group


def sound(entry: JournalEntry) -> bool:
    """Whether a stored entry is of a file that we write, and its texts are of that file's quantity."""
    if not is_owned_name(entry.file.name) or not entry.written or not inside(entry.file.group):
        return False
    try:
        for text in (entry.original, *entry.written):
            check(entry.file, text)
    except UnreadableError:
        return False
    return True


class Ledger:
    """The journal's content in memory: one entry per owned file. `be_limit` (cores) and `be_cpus` are what BE is held at."""

    def __init__(self, journal: Journal, boot: Boot, cgroup_root: str) -> None:
        """`cgroup_root` is the `KernelFiles.identity` of the tree that the files are in."""
        self.entries: dict[CgroupFile, JournalEntry] = {}
        self.oom: dict[str, OomEntry] = {}
        self.be_limit: float | None = None
        self.be_cpus: str | None = None
        self._fresh: set[CgroupFile] = set()  # owned since the last `intend`
        self._journal = journal
        self._boot = boot
        self._cgroup_root = cgroup_root
        self._stored = JournalRecord(boot_id=boot.id)
        self._stored_entries: dict[CgroupFile, JournalEntry] = {}
        self._stored_oom: dict[str, OomEntry] = {}

    def load(self) -> JournalRecord | None:
        """A predecessor's record of this boot; None when there is none or it speaks of an earlier boot. Raises JournalError, also when the
        record is of another tree, in which nothing would be found and all be taken for gone."""
        try:
            record = self._journal.load()
        except JournalError as error:
            if error.boot_id in ("", self._boot.id):
                raise
            return None
        if record is None or record.boot_id != self._boot.id:
            return None
        if record.cgroup_root not in ("", self._cgroup_root) and (record.entries or record.oom):
            raise JournalError(
                f"the journal is about the cgroup tree with device and inode {record.cgroup_root}, this --cgroup-root has "
                f"{self._cgroup_root}: give the one that the agent ran with"
            )
        self._stored = record
        self._stored_entries = {entry.file: entry for entry in record.entries}
        self._stored_oom = {entry.group: entry for entry in record.oom}
        return record

    def intend(self, entries: Iterable[JournalEntry]) -> None:
        """Make sure that the journal knows these values before they are written; OSError when it cannot be written."""
        before = dict(self.entries)
        missing = False
        entries = tuple(entries)
        self._fresh = {entry.file for entry in entries} - before.keys()
        for entry in entries:
            known = self.entries.get(entry.file, entry)
            written = tuple(dict.fromkeys((*known.written[-1:], *entry.written)))
            self.entries[entry.file] = replace(known, written=written)
            stored = self._stored_entries.get(entry.file)
            missing |= stored is None or replace(stored, written=known.written) != known or entry.written[-1] not in stored.written
        if missing:
            try:
                self.save()
            except OSError:
                self.entries = before
                raise

    def settle(self, file: CgroupFile, text: str | None, *, applied: bool) -> None:
        """The write is over: this text is in force (None: not known). What was never changed is not owned."""
        entry = self.entries[file]
        if text is None:
            return
        if not applied and file in self._fresh and same(file, text, entry.original):
            del self.entries[file]
        else:
            self.entries[file] = replace(entry, written=(text,))

    def forget(self, file: CgroupFile) -> None:
        self.entries.pop(file, None)

    def record(self, *, lease: float = LEASE, state: bytes | None = None) -> JournalRecord:
        """The whole as it is to be stored; the lease counts from now."""
        return JournalRecord(
            boot_id=self._boot.id,
            cgroup_root=self._cgroup_root,
            entries=tuple(self.entries[file] for file in sorted(self.entries)),
            oom=tuple(self.oom[group] for group in sorted(self.oom)),
            lease_until=self._boot.time() + lease,
            state=state,
            be_limit=self.be_limit,
            be_cpus=self.be_cpus,
        )

    def save(self, *, lease: float = LEASE, state: bytes | None = None) -> None:
        """Store now. OSError when it cannot be written; the stored one then stays as it was."""
        record = self.record(lease=lease, state=state)
        self._journal.save(record)
        self._stored = record
        self._stored_entries, self._stored_oom = dict(self.entries), dict(self.oom)

    def flush(self) -> None:
        """Store what has changed, and renew the lease in time. OSError when it cannot be written."""
        if self._has_changed() or self._renewal_due():
            self.save()

    def _has_changed(self) -> bool:
        stored = self._stored
        held = (self.be_limit, self.be_cpus) != (stored.be_limit, stored.be_cpus) or stored.state is not None
        return held or self.entries != self._stored_entries or self.oom != self._stored_oom

    def _renewal_due(self) -> bool:
        until = self._stored.lease_until
        return bool(self.entries or self.oom) and (until is None or until - self._boot.time() < LEASE - RENEWAL)
