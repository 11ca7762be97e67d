"""How every command fails for a user's mistake: one line for each problem on standard error, exit code 2, never a traceback."""

from __future__ import annotations

import codecs
import errno
import io
import sys
from typing import Any

import click
from click.exceptions import Exit

from qosmanager.documents.problem import DocumentError
from qosmanager.linux.boot import PartialProcError

USAGE = 2
INTERRUPTED = 130  # as a shell says it


class CannotRunError(Exception):
    """Something a user can mend stands in the way: one line says what, where and what is needed. `code` is the exit code."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


_OTHERWISE = "qosmanager-otherwise"
_DRAWN = dict(zip("▁▂▃▄▅▆▇█░…", ".:-=+*%#.~", strict=True))  # what is only drawn with, of one column each


def _otherwise(error: UnicodeError) -> tuple[str, int]:
    """Write what an output has no character for: a drawing otherwise, all else as its escape."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    written = (_DRAWN.get(each) or each.encode("ascii", "backslashreplace").decode() for each in error.object[error.start : error.end])
    return "".join(written), error.end


codecs.register_error(_OTHERWISE, _otherwise)


class Commands(click.Group):
    """A group of commands that reports a refused document, and an output that takes no more, instead of raising it. A closed pipe ends a
    command quietly (click does that)."""

    def make_context(self, *given: Any, **more: Any) -> click.Context:
        try:
            return super().make_context(*given, **more)
        except KeyboardInterrupt:
            raise Exit(INTERRUPTED) from None

    def invoke(self, ctx: click.Context) -> Any:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors=_OTHERWISE)  # a file's name, or a terminal, may know other characters
        try:
            return super().invoke(ctx)
        except DocumentError as error:
            for problem in error.problems:
                click.echo(str(problem), err=True)
            ctx.exit(USAGE)
        except CannotRunError as error:
            click.echo(f"qosmanager: {error}", err=True)
            ctx.exit(error.code)
        except PartialProcError as error:
            click.echo(f"qosmanager: {error}", err=True)
            ctx.exit(USAGE)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except OSError as error:
            if error.errno not in _NO_ROOM or error.filename is not None:
                raise
            click.echo(f"qosmanager: the output cannot be written: {error.strerror}", err=True)
            ctx.exit(1)
