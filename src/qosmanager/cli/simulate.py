"""`qosmanager simulate`: a scenario run through the engine on a node made of numbers (docs/simulate.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qosmanager.cli.errors import CannotRunError
from qosmanager.cli.report_page import check_report

if TYPE_CHECKING:
    from qosmanager.simulate.report import Report


@click.command(
    short_help="Run a scenario on a simulated node.",
    epilog="""\b
Examples:
  qosmanager simulate --list                          what is shipped
  qosmanager simulate contention                      with the agent and without it
  qosmanager simulate contention --config mine.yaml   under settings of your own
  qosmanager simulate my-node.yaml --output json      a scenario of your own, as data
  qosmanager simulate contention --report page.html   on one page, to be looked at
  qosmanager simulate --schema > scenario.schema.json""",
)
@click.argument("scenario", required=False)
@click.option("--config", type=click.Path(path_type=Path), help="Configuration file (qosManager: ...); without it the defaults.")
@click.option("--off", is_flag=True, help="Without the agent only.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="For people, or as data.")
@click.option(
    "--seed", type=click.IntRange(0), default=1, show_default=True, help="What chance is drawn from; the same seed, the same run."
)
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE", help="Write an HTML page that opens offline.")
@click.option("--record", type=click.Path(path_type=Path), metavar="DIR", help="Record the run with the agent, as `run --record` does.")
@click.option("--list", "listing", is_flag=True, help="List the shipped scenarios.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema (draft 2020-12) of a scenario file.")
def simulate(scenario: str | None, config: Path | None, output: str, *, listing: bool, schema: bool, **wanted: Any) -> None:
    """Run SCENARIO, a shipped name or a YAML file, on a simulated node: with the agent, and without it.

    The decisions are those of the live agent; the node is a model (docs/simulate.md tells what it can and cannot show). Nothing on this
    machine is measured or changed. Exit code 1: an expectation of the scenario is not met.
    """
    # The other commands need none of it.
    from qosmanager.cli import simulate_screen as screen  # noqa: PLC0415

    if listing or schema:
        click.echo(screen.listing() if listing else screen.schema(), nl=False)
        return
    if scenario is None:
        raise CannotRunError("simulate: name a scenario or a file; `qosmanager simulate --list` tells the shipped ones")
    from qosmanager.cli.simulate_asides import PageAside, TapeAside  # noqa: PLC0415 - as above
    from qosmanager.simulate.report import document  # noqa: PLC0415

    page, tape = wanted["report"], wanted["record"]
    if tape is not None and wanted["off"]:
        raise CannotRunError("simulate: --record needs the run with the agent, which --off leaves out")
    check_report(page)
    asked = screen.wanted(scenario, config, wanted["seed"], off=wanted["off"])
    asides: list[screen.Aside] = [PageAside(asked, page)] if page is not None else []
    asides += [TapeAside(asked, tape)] if tape is not None else []
    told = screen.run(asked, asides)
    if output == "json":
        click.echo(json.dumps(document(told), indent=2, ensure_ascii=False))
    else:
        screen.show(told)
    raise SystemExit(_code(told))


def _code(told: Report) -> int:
    return 0 if told.is_met else 1
