"""A family of kernel files that change together: a group, and the groups below it (specification, section 9).

In: wishes (a text for each file, or its original back). Out: receipts. Every value is in the journal before it is in the kernel; a
write that fails undoes the family's other writes; an original goes back only where the file still holds what we wrote.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from qosmanager.execute.dialect import DEFAULT_WEIGHT, IDLE_NAME, WEIGHT_NAMES, same
from qosmanager.execute.ledger import Ledger, holds_ours
from qosmanager.execute.ordering import Change, ordered
from qosmanager.execute.writing import Trouble, Written, read, trouble, write_each, write_together
from qosmanager.model.actions import Receipt, Result
from qosmanager.model.workload import CgroupFile
from qosmanager.ports import JournalEntry, KernelFiles


class Wish(Struct, frozen=True):
    """The text that a file shall hold. `original`: what counts as its original when it is owned for the first time; the file is then
    owned even when it holds the text already. None: its text now, if it has to be written."""

    file: CgroupFile
    text: str
    original: str | None = None


class Family(Struct, frozen=True, kw_only=True):
    """Files to be written together. `pod` is whose they are in receipts; `burst`: they are an LS pod's raised limit; `protects`: they are
    a standing property of an LS pod, or of a group above some."""

    wishes: tuple[Wish, ...]
    pod: str | None = None
    burst: bool = False
    protects: bool = False


class _Draft(Struct, frozen=True, kw_only=True):
    """A family looked at: what is to be written and its journal entries, and receipts for what is not."""

    pod: str | None
    receipts: tuple[Receipt, ...]
    changes: tuple[Change, ...] = ()
    entries: tuple[JournalEntry, ...] = ()

    def refused(self, detail: str) -> list[Receipt]:
        return [_receipt(change.file, Result.REFUSED, self.pod, before=change.before, detail=detail) for change in self.changes]


class Hands:
    """Carries families out over kernel files and a ledger."""

    def __init__(self, kernel: KernelFiles, ledger: Ledger) -> None:
        self.kernel = kernel
        self.ledger = ledger

    def carry_out(self, families: Sequence[Family]) -> list[Receipt]:
        """Write what differs, family by family. One receipt per wish."""
        drafts = [self._draft(family) for family in families]
        # One save for all: with a hundred pods, a save for each would take longer than all the writing.
        try:
            self.ledger.intend(entry for draft in drafts for entry in draft.entries)
        except OSError as error:
            detail = f"nothing was written, because the journal cannot be: {error}"
            return [receipt for draft in drafts for receipt in (*draft.receipts, *draft.refused(detail))]
        return [receipt for draft in drafts for receipt in (*draft.receipts, *self._write(draft))]

    def _draft(self, family: Family) -> _Draft:
        receipts: list[Receipt] = []
        changes: list[Change] = []
        entries: list[JournalEntry] = []
        for wish in family.wishes:
            text = read(self.kernel, wish.file)
            if isinstance(text, Trouble):
                receipts.append(self._troubled(wish.file, text, family.pod))
            elif same(wish.file, text, wish.text) and not self._to_be_owned(wish):
                receipts.append(_receipt(wish.file, Result.UNCHANGED, family.pod, before=text, after=text))
            elif isinstance(entry := self._entry(wish, text, family), Trouble):
                receipts.append(self._troubled(wish.file, entry, family.pod))
            else:
                changes.append(Change(wish.file, text, wish.text))
                entries.append(entry)
        draft = _Draft(pod=family.pod, receipts=tuple(receipts), changes=tuple(changes), entries=tuple(entries))
        if any(receipt.result in (Result.REFUSED, Result.FAILED) for receipt in receipts):
            # A family that cannot be written as a whole is not written in part.
            return _Draft(pod=family.pod, receipts=(*receipts, *draft.refused("its family cannot be written")))
        return draft

    def put_back(self, entries: Iterable[JournalEntry], pod: str | None = None) -> list[Receipt]:
        """Put originals back, each by itself, where the file still holds ours. Needs no journal: what it says stays true."""
        entries = list(entries)
        resets = self._expected_resets(entries)
        receipts: list[Receipt] = []
        changes: list[Change] = []
        for each in entries:
            entry = resets.get(each.file, each)
            text = self.present(entry)
            if isinstance(text, Trouble):
                receipts.append(self._troubled(entry.file, text, pod or entry.pod))
            elif same(entry.file, text, entry.original) and entry.file not in resets:
                self.ledger.forget(entry.file)
                receipts.append(_receipt(entry.file, Result.UNCHANGED, pod or entry.pod, before=text, after=text))
            elif not holds_ours(entry, text) and not same(entry.file, text, entry.original):
                self.ledger.forget(entry.file)
                detail = f"left alone: holds {text!r}, not ours ({entry.written[-1]!r})"
                receipts.append(_receipt(entry.file, Result.DRIFTED, pod or entry.pod, before=text, after=text, detail=detail))
            else:
                changes.append(Change(entry.file, text, entry.original))
        written = write_each(self.kernel, ordered(changes))
        return receipts + [self._given_back(each, pod or self.ledger.entries[each.file].pod) for each in written]

    def let_go(self, names: frozenset[str], families: Iterable[Family], kept: Container[str] = ()) -> list[Receipt]:
        """Put back the originals of BE files of these names that no family wishes for any more, but those in `kept` (by their text)."""
        wished = {wish.file for family in families for wish in family.wishes}
        return self.put_back(
            [
                entry
                for file, entry in self.ledger.entries.items()
                if _is_batch(entry) and file.name.partition("@")[0] in names and file not in wished and str(file) not in kept
            ]
        )

    def _expected_resets(self, entries: list[JournalEntry]) -> dict[CgroupFile, JournalEntry]:
        """The weights that the kernel will set to its default when cpu.idle falls, with that noted: a kill right then must not make it
        somebody else's. Should the journal not be writable, only that instant is at stake."""
        busy = {entry.file.group for entry in entries if entry.file.name == IDLE_NAME}
        resets = {
            entry.file: replace(entry, written=tuple(dict.fromkeys((*entry.written, DEFAULT_WEIGHT[_weight_version(entry.file)]))))
            for entry in self.ledger.entries.values()
            if entry.file.name in WEIGHT_NAMES and entry.file.group in busy
        }
        if resets:
            self.ledger.entries |= resets
            with contextlib.suppress(OSError):
                self.ledger.save()
        return resets

    def present(self, entry: JournalEntry) -> str | Trouble:
        """What an owned file holds; GONE also when its group was made anew, or has lost the controller, and all that was set with it."""
        if self.kernel.version(entry.file.controller) is None:
            return read(self.kernel, entry.file)  # refused: of a group that cannot be looked at nobody knows that it is gone
        try:
            inode = self.kernel.inode(entry.file.controller, entry.file.group)
        except OSError as error:
            return trouble(self.kernel, entry.file, error)
        if inode != entry.inode:
            return Trouble(Result.GONE, "the group was made anew")
        found = read(self.kernel, entry.file)
        if isinstance(found, Trouble) and found.missing:
            # As systemd does when no unit beside it wants the controller any more. When it comes back the kernel's defaults do.
            return Trouble(Result.GONE, f"controller {entry.file.controller!r} was taken from the group, and with it what was set")
        return found

    def _to_be_owned(self, wish: Wish) -> bool:
        """Whether a file that holds the wanted text already has an original that must be remembered all the same."""
        return wish.original is not None and wish.file not in self.ledger.entries

    def _entry(self, wish: Wish, text: str, family: Family) -> JournalEntry | Trouble:
        known = self.ledger.entries.get(wish.file)
        if known is not None:
            return replace(known, written=(wish.text,))
        try:
            inode = self.kernel.inode(wish.file.controller, wish.file.group)
        except OSError as error:
            return trouble(self.kernel, wish.file, error)
        original = text if wish.original is None else wish.original
        pod = family.pod if family.burst or family.protects else None
        return JournalEntry(file=wish.file, inode=inode, original=original, written=(wish.text,), pod=pod, protects=family.protects)

    def _write(self, draft: _Draft) -> list[Receipt]:
        return [self._settled(written, draft.pod) for written in write_together(self.kernel, ordered(draft.changes))]

    def _settled(self, written: Written, pod: str | None) -> Receipt:
        self.ledger.settle(written.file, written.after, applied=written.result is Result.APPLIED)
        if written.result is Result.GONE:
            self.ledger.forget(written.file)
        return _said(written, pod)

    def _given_back(self, written: Written, pod: str | None) -> Receipt:
        if written.result in (Result.APPLIED, Result.GONE):
            self.ledger.forget(written.file)
        return _said(written, pod)

    def _troubled(self, file: CgroupFile, why: Trouble, pod: str | None) -> Receipt:
        if why.result is Result.GONE:
            self.ledger.forget(file)
        return _receipt(file, why.result, pod, detail=why.detail)


def _is_batch(entry: JournalEntry) -> bool:
    """Whether an entry is of a file that holds BE."""
    return entry.pod is None and not entry.protects


def _weight_version(file: CgroupFile) -> int:
    return 1 if file.name == "cpu.shares" else 2


def _said(written: Written, pod: str | None) -> Receipt:
    return _receipt(written.file, written.result, pod, before=written.before, after=written.after, detail=written.detail)


def _receipt(
    file: CgroupFile, result: Result, pod: str | None, *, before: str | None = None, after: str | None = None, detail: str = ""
) -> Receipt:
    return Receipt(target=str(file), result=result, pod=pod, before=before, after=after, detail=detail)
