"""The owned files, looked at in each cycle (specification, section 9: drift).

Their descriptors stay open, so that a look costs a few microseconds each; a descriptor belongs to one group for ever, and answers no more
when that group has ended, so that one made anew under the same name is never taken for it.
"""

from __future__ import annotations

from collections.abc import Collection

from qosmanager.model.workload import CgroupFile
from qosmanager.ports import JournalEntry, KeptFile, KernelFiles


class Watch:
    """Tells quickly that nothing has happened. What did happen is for the caller to find out."""

    def __init__(self, kernel: KernelFiles) -> None:
        self._kernel = kernel
        self._kept: dict[CgroupFile, tuple[int, KeptFile]] = {}

    def is_untouched(self, entry: JournalEntry) -> bool:
        """Whether an owned file, of the group that it was owned in, holds exactly what we wrote."""
        known = self._kept.get(entry.file)
        try:
            if known is None or known[0] != entry.inode:
                known = self._kept[entry.file] = (entry.inode, self._kernel.keep(entry.file, entry.inode))
            return known[1].read() == entry.written[-1]
        except OSError:
            self._kept.pop(entry.file, None)
            return False

    def forget_others(self, owned: Collection[CgroupFile]) -> None:
        """Let the descriptors of files go that are owned no more."""
        if len(self._kept) > len(owned):
            self._kept = {file: kept for file, kept in self._kept.items() if file in owned}
