"""`qosmanager plan`: what the engine would do for one snapshot (specification, section 8)."""

from __future__ import annotations

import json
from pathlib import Path

import click

from qosmanager.config.parse import read_settings
from qosmanager.config.settings import Settings
from qosmanager.documents.files import STANDARD_INPUT, read_standard_input, read_text
from qosmanager.documents.problem import read_all
from qosmanager.documents.snapshot import load_snapshot
from qosmanager.engine.step import step
from qosmanager.model.snapshot import Snapshot
from qosmanager.model.state import State
from qosmanager.views.plan import plan_document
from qosmanager.views.plan_text import Step, plan_text

_STDIN = "-"


@click.command(
    short_help="Print what the engine would do for one snapshot.",
    epilog="""\b
Examples:
  qosmanager plan node.yaml
  qosmanager plan node.yaml --config config.yaml
  qosmanager plan node.json --output json | jq .actions
  curl -s http://127.0.0.1:9316/snapshot | qosmanager plan - --config new.yaml""",
)
@click.argument("snapshot")
@click.option("--config", type=click.Path(path_type=Path), help="Configuration file (qosManager: ...); without it the defaults.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="An explanation, or data.")
def plan(snapshot: str, config: Path | None, output: str) -> None:
    """Print what the engine would do for SNAPSHOT, a YAML or JSON file (`-`: standard input). Nothing on this machine is changed.

    The file holds one reading of a node, its pods and, if wanted, the engine's state. Required are node.cpus and node.cpu_usage, and
    of each pod its name and qos; what else is left out counts as not measured.

    What a running agent answers at /snapshot is read too. It holds no state: what is decided is what an agent would that has just begun.
    """
    settings, (reading, before) = read_all(lambda: read_settings(config) if config else Settings(), lambda: _read_snapshot(snapshot))
    after, assessment, decided = step(before, reading, settings)
    if output == "json":
        click.echo(json.dumps(plan_document(assessment, decided), indent=2, ensure_ascii=False))
    else:
        told = Step(before=before, snapshot=reading, settings=settings, after=after, assessment=assessment, plan=decided)
        click.echo(plan_text(told), nl=False)


def _read_snapshot(name: str) -> tuple[Snapshot, State]:
    text, source = (read_standard_input(), STANDARD_INPUT) if name == _STDIN else (read_text(Path(name)), name)
    return load_snapshot(text, source)
