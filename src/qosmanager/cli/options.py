"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from qosmanager.documents.quantities import Rule, duration
from qosmanager.linux.journal import STATE_DIRECTORY

state_dir_option = click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=STATE_DIRECTORY,
    show_default=True,
    help="The agent's state directory: there it says where it listens, and there a pause is kept.",
)

url_option = click.option(
    "--url",
    metavar="URL",
    help="Where the agent answers, such as http://127.0.0.1:9316. [default: where the agent of --state-dir listens, else that one]",
)

output_option = click.option(
    "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="For people, or as data."
)


class Duration(click.ParamType[float]):
    """A duration with its unit, as in the configuration, within bounds: seconds."""

    name = "duration"

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        hint = ""
        try:
            seconds = duration(value)
            if self._rule.allows(seconds):
                return seconds
        except ValueError as error:
            hint = f" ({error})" if str(error) else ""
        return self.fail(f"{value!r} is not allowed; {self._rule.allowed()}{hint}", param, ctx)


class Seconds(click.FloatRange):
    """A number of seconds within bounds; NaN is within none, whatever it is compared with."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        return found if found == found else self.fail(f"{value!r} is not in the range {self._describe_range()}.", param, ctx)  # noqa: PLR0124 - NaN


class NodeLabels(click.ParamType[dict[str, str]]):
    """Labels of a node: KEY=VALUE, several with commas between them."""

    name = "labels"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        if isinstance(value, dict):
            return value
        pairs = [part.partition("=") for part in value.split(",")]
        if not all(key and equals for key, equals, _ in pairs):
            return self.fail(f"{value!r} is not allowed; KEY=VALUE is, with commas between several", param, ctx)
        return {key: label for key, _, label in pairs}
