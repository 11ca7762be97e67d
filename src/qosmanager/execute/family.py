"""A family of kernel files that change together: a group, and the groups below it (specification, section 9).

In: wishes (a text for each file, or its original back). Out: receipts. Every value is in the journal before it is in the kernel; a
write that fails undoes the family's other writes; an original goes back only where the file still holds what we wrote.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from qosmanager.execute.dialect import same
from qosmanager.execute.ledger import Ledger, holds_ours
from qosmanager.execute.ordering import Change, ordered
from qosmanager.execute.writing import Trouble, Written, read, trouble, write_each, write_together
from qosmanager.model.actions import Receipt, Result
from qosmanager.model.workload import CgroupFile
from qosmanager.ports import JournalEntry, KernelFiles


class Wish(Struct, frozen=True):
    """The text that a file shall hold. `original`: what counts as its original when it is owned for the first time (None: its text now)."""

    file: CgroupFile
    text: str
    original: str | None = None


class Family(Struct, frozen=True, kw_only=True):
    """Files to be written together. `pod` is whose they are in receipts; `burst`: they are an LS pod's raised limit."""

    wishes: tuple[Wish, ...]
    pod: str | None = None
    burst: bool = False


class Hands:
    """Carries families out over kernel files and a ledger."""

    def __init__(self, kernel: KernelFiles, ledger: Ledger) -> None:
        self.kernel = kernel
        self.ledger = ledger

    def carry_out(self, family: Family) -> list[Receipt]:
        """Write what differs. One receipt per wish."""
        receipts: list[Receipt] = []
        changes: list[Change] = []
        entries: list[JournalEntry] = []
        for wish in family.wishes:
            text = read(self.kernel, wish.file)
            if isinstance(text, Trouble):
                receipts.append(self._troubled(wish.file, text, family.pod))
            elif same(wish.file, text, wish.text) and not self._to_be_owned(wish, text):
                receipts.append(_receipt(wish.file, Result.UNCHANGED, family.pod, before=text, after=text))
            elif isinstance(entry := self._entry(wish, text, family), Trouble):
                receipts.append(self._troubled(wish.file, entry, family.pod))
            else:
                changes.append(Change(wish.file, text, wish.text))
                entries.append(entry)
        if any(receipt.result in (Result.REFUSED, Result.FAILED) for receipt in receipts):
            # A family that cannot be written as a whole is not written in part.
            return receipts + [
                _receipt(c.file, Result.REFUSED, family.pod, before=c.before, detail="its family cannot be written") for c in changes
            ]
        return receipts + self._write(changes, entries, family.pod)

    def put_back(self, entries: Iterable[JournalEntry], pod: str | None = None) -> list[Receipt]:
        """Put originals back, each by itself, where the file still holds ours. Needs no journal: what it says stays true."""
        receipts: list[Receipt] = []
        changes: list[Change] = []
        for entry in entries:
            text = self.present(entry)
            if isinstance(text, Trouble):
                receipts.append(self._troubled(entry.file, text, pod or entry.pod))
            elif same(entry.file, text, entry.original):
                self.ledger.forget(entry.file)
                receipts.append(_receipt(entry.file, Result.UNCHANGED, pod or entry.pod, before=text, after=text))
            elif not holds_ours(entry, text):
                self.ledger.forget(entry.file)
                detail = f"left alone: holds {text!r}, not ours ({entry.written[-1]!r})"
                receipts.append(_receipt(entry.file, Result.DRIFTED, pod or entry.pod, before=text, after=text, detail=detail))
            else:
                changes.append(Change(entry.file, text, entry.original))
        written = write_each(self.kernel, ordered(changes))
        return receipts + [self._settled(each, pod or self.ledger.entries[each.file].pod) for each in written]

    def present(self, entry: JournalEntry) -> str | Trouble:
        """What an owned file holds; GONE also when its group was made anew."""
        try:
            inode = self.kernel.inode(entry.file.controller, entry.file.group)
        except OSError as error:
            return trouble(self.kernel, entry.file, error)
        if inode != entry.inode:
            return Trouble(Result.GONE, "the group was made anew")
        return read(self.kernel, entry.file)

    def _to_be_owned(self, wish: Wish, text: str) -> bool:
        """Whether a file holds the wanted text by inheritance from us, so that its original has to be remembered."""
        return wish.original is not None and wish.file not in self.ledger.entries and not same(wish.file, wish.original, text)

    def _entry(self, wish: Wish, text: str, family: Family) -> JournalEntry | Trouble:
        known = self.ledger.entries.get(wish.file)
        if known is not None:
            return JournalEntry(file=wish.file, inode=known.inode, original=known.original, written=(wish.text,), pod=known.pod)
        try:
            inode = self.kernel.inode(wish.file.controller, wish.file.group)
        except OSError as error:
            return trouble(self.kernel, wish.file, error)
        original = text if wish.original is None else wish.original
        return JournalEntry(file=wish.file, inode=inode, original=original, written=(wish.text,), pod=family.pod if family.burst else None)

    def _write(self, changes: list[Change], entries: list[JournalEntry], pod: str | None) -> list[Receipt]:
        if not changes:
            return []
        try:
            self.ledger.intend(entries)
        except OSError as error:
            detail = f"nothing was written, because the journal cannot be: {error}"
            return [_receipt(change.file, Result.REFUSED, pod, before=change.before, detail=detail) for change in changes]
        return [self._settled(written, pod) for written in write_together(self.kernel, ordered(changes))]

    def _settled(self, written: Written, pod: str | None) -> Receipt:
        if written.result is Result.GONE:
            self.ledger.forget(written.file)
        elif written.after is not None:
            self.ledger.settle(written.file, written.after)
        return _receipt(written.file, written.result, pod, before=written.before, after=written.after, detail=written.detail)

    def _troubled(self, file: CgroupFile, why: Trouble, pod: str | None) -> Receipt:
        if why.result is Result.GONE:
            self.ledger.forget(file)
        return _receipt(file, why.result, pod, detail=why.detail)


def _receipt(
    file: CgroupFile, result: Result, pod: str | None, *, before: str | None = None, after: str | None = None, detail: str = ""
) -> Receipt:
    return Receipt(target=str(file), result=result, pod=pod, before=before, after=after, detail=detail)
