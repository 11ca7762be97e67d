"""`qosmanager restore`: put back what an agent changed, also when the agent is dead (specification, section 9)."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from types import FrameType

import click
from msgspec import Struct
from rich.console import Console
from rich.table import Table
from rich.text import Text

from qosmanager.cli.errors import CannotRunError
from qosmanager.cli.options import Duration
from qosmanager.documents.quantities import Rule
from qosmanager.execute.resource_executor import ResourceExecutor
from qosmanager.linux.boot import LinuxBoot
from qosmanager.linux.cgroup import CgroupRootError, Hierarchies
from qosmanager.linux.journal import STATE_DIRECTORY, FileJournal
from qosmanager.linux.lock import LockHeldError, NodeLock
from qosmanager.linux.processes import ProcScores
from qosmanager.model.actions import Receipt, Result
from qosmanager.model.plain import plain
from qosmanager.ports import JournalError, JournalRecord

_EARLIER = "is of an earlier boot, and cgroups do not survive one"
_NOT_BACK = (Result.REFUSED, Result.FAILED)
_SAID = {
    Result.APPLIED: "put back",
    Result.UNCHANGED: "was back already",
    Result.DRIFTED: "left alone",
    Result.GONE: "gone",
    Result.REFUSED: "not put back",
    Result.FAILED: "not put back",
}


class Asked(Struct, frozen=True):
    """What is to be put back: whose journal, in which tree, whether only after its lease is over."""

    state_dir: Path
    cgroup_root: Path
    if_expired: bool


class Restored(Struct, frozen=True):
    """What was done to each file of a journal, in order."""

    receipts: tuple[Receipt, ...]
    record: JournalRecord

    @property
    def complete(self) -> bool:
        return not any(receipt.result in _NOT_BACK for receipt in self.receipts)


@click.command(
    short_help="Put back everything that the agent changed.",
    epilog="""\b
Examples:
  qosmanager restore                              put everything back now
  qosmanager restore --if-expired                 for a timer: only when no agent came back
  qosmanager restore --if-expired --every 30s     the same without a timer, for a container beside the agent's""",
)
@click.option("--if-expired", is_flag=True, help="Only when the lease of the agent that wrote the journal is over.")
@click.option(
    "--every",
    type=Duration(Rule(unit="duration", low=1, high=3600)),
    metavar="DURATION",
    help="Look again and again, at this distance, until SIGTERM or SIGINT; needs --if-expired.",
)
@click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=STATE_DIRECTORY,
    show_default=True,
    help="Where the agent keeps its journal and its lock.",
)
@click.option(
    "--cgroup-root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path("/sys/fs/cgroup"),
    show_default=True,
    help="Where the cgroup hierarchies are mounted.",
)
def restore(*, if_expired: bool, every: float | None, state_dir: Path, cgroup_root: Path) -> None:
    """Put every cgroup file and oom_score_adj back that the agent changed.

    Only files that still hold what the agent wrote, in the same cgroup of the same boot, are touched; what somebody else has
    changed since is left alone. Refused while an agent runs; with --if-expired that is nothing to do.

    A living agent renews its lease of 120 s every 30 s or so, and a clean stop leaves one more lease for the successor. So
    with --if-expired nothing happens until 120 s after an agent was last alive, however it ended; a journal without a lease
    counts as over.

    With --every it goes on looking, also after a failure, and says something only when it is something else than the time before.

    A journal of this boot that cannot be read or understood, or that is about another cgroup tree, is refused and left as it is.
    The message says what to do; where nothing else helps, put the values back by hand and remove the file.

    Exit code: 0 all is back, or nothing was to be done, or with --every it was told to stop; 1 something could not be put back; 2 wrong
    options, an agent runs, or the journal cannot be used.
    """
    asked = Asked(state_dir, cgroup_root, if_expired)
    if every is None:
        done = _put_back(asked)
        _say(done)
        if isinstance(done, Restored) and not done.complete:
            sys.exit(1)
        return
    if not if_expired:
        raise CannotRunError("--every needs --if-expired: what a living agent has changed is not to be put back")
    _watch(asked, every)


def _watch(asked: Asked, every: float) -> None:
    """Try again and again until a signal; whatever fails is tried the next time."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    said = ""
    while True:
        try:
            done = _put_back(asked)
            if isinstance(done, Restored) or done != said:
                _say(done)
            said = done if isinstance(done, str) else ""
        except CannotRunError as error:
            if str(error) != said:
                click.echo(f"qosmanager: {error}", err=True)
            said = str(error)
        time.sleep(every)


def _leave(_: int, __: FrameType | None) -> None:
    raise SystemExit(0)  # also out of a write: the journal says what is still to be put back, and nobody waits for it


def _put_back(asked: Asked) -> Restored | str:
    """Put back what a journal holds, or say why there is nothing to restore. Raises CannotRunError."""
    state_dir = asked.state_dir
    journal, boot = FileJournal(state_dir), LinuxBoot()
    try:
        if not state_dir.is_dir():
            return f"there is no {state_dir}"
        with NodeLock(state_dir):
            record = journal.load()
            if record is None or (nothing := _nothing_to_do(record, boot, if_expired=asked.if_expired)):
                return f"{journal.path} {'is not there' if record is None else nothing}"
            executor = ResourceExecutor(Hierarchies.probe(asked.cgroup_root), journal, ProcScores(), boot)
            return Restored((*executor.adopt().receipts, *executor.restore_all()), record)
    except LockHeldError as error:
        if not asked.if_expired:
            raise CannotRunError(f"{error}; stop it first") from None
        return str(error)
    except JournalError as error:
        if error.boot_id in ("", boot.id):
            raise CannotRunError(str(error)) from None
        return f"{journal.path} {_EARLIER}"
    except CgroupRootError as error:
        raise CannotRunError(f"--cgroup-root: {error}") from None
    except OSError as error:
        hint = "; its owner or root can restore" if isinstance(error, PermissionError) else ""
        raise CannotRunError(f"--state-dir {state_dir}: {error.strerror or error}{hint}", code=1) from None


def _say(done: Restored | str) -> None:
    if isinstance(done, str):
        click.echo(f"nothing to restore: {done}")
    else:
        _print(done.receipts, done.record)


def _nothing_to_do(record: JournalRecord, boot: LinuxBoot, *, if_expired: bool) -> str:
    """Why a record asks for nothing, or ""."""
    if not record.entries and not record.oom:
        return "holds no entry"
    if record.boot_id != boot.id:
        return _EARLIER
    left = 0.0 if record.lease_until is None else record.lease_until - boot.time()
    return f"is on a lease that lasts {left:.0f} s more" if if_expired and left > 0 else ""


def _print(receipts: tuple[Receipt, ...], record: JournalRecord) -> None:
    entries = {str(entry.file): entry for entry in record.entries}
    table = Table("file", "was", "ours", "now", "outcome", box=None)
    for receipt in receipts:
        entry = entries.get(receipt.target)
        was = receipt.after if entry is None else entry.original
        ours = receipt.before if entry is None or not entry.written else entry.written[-1]
        said, detail = _SAID[receipt.result], receipt.detail
        outcome = f"{said}: {detail}" if detail and not detail.startswith(said) else detail or said
        # As text of its own: in a plain string rich would take a "[" in the name of a group for markup.
        table.add_row(*(Text(plain(each)) for each in (receipt.target, _shown(was), _shown(ours), _shown(receipt.after), outcome)))
    console = Console()
    if console.is_terminal:
        console.print(table)
    else:
        # A log keeps whole lines: no folding at 80 columns.
        Console(width=1000, soft_wrap=True).print(table)


def _shown(text: str | None) -> str:
    if text is None:
        return "-"
    return text or "(empty)"
