"""How every command fails for a user's mistake: one line for each problem on standard error, exit code 2, never a traceback."""

from __future__ import annotations

from typing import Any

import click

from qosmanager.documents.problem import DocumentError

USAGE = 2


class CannotRunError(Exception):
    """Something a user can mend stands in the way: one line says what, where and what is needed. `code` is the exit code."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code


class Commands(click.Group):
    """A group of commands that reports a refused document instead of raising it. A closed pipe ends a command quietly (click does that)."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DocumentError as error:
            for problem in error.problems:
                click.echo(str(problem), err=True)
            ctx.exit(USAGE)
        except CannotRunError as error:
            click.echo(f"qosmanager: {error}", err=True)
            ctx.exit(error.code)
