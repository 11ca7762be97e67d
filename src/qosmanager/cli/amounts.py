"""Options that are durations and sizes, read by the rules of the configuration: they carry their unit."""

from __future__ import annotations

from collections.abc import Callable

import click

from qosmanager.documents.quantities import Rule, number


def read_as(rule: Rule) -> Callable[[click.Context, click.Parameter, str | None], float | None]:
    """Return a callback for an option; the value is in the rule's base unit, None where the option is not given."""

    def read(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
        if value is None:
            return None
        try:
            found = number(value, rule)
        except ValueError as error:
            hint = f" ({error})" if str(error) else ""
            raise click.BadParameter(f"{value!r} is not allowed; {rule.allowed()}{hint}") from None
        if not rule.allows(found):
            raise click.BadParameter(f"{value!r} is not allowed; {rule.allowed()}")
        return found

    return read


SPAN = read_as(Rule(unit="duration", low=0, high=366 * 86400))  # where to begin, seconds
LENGTH = read_as(Rule(unit="duration", low=0.1, high=366 * 86400))  # how much of it, seconds
