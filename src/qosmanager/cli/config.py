"""`qosmanager config check|show|schema|presets`: the files that people write (specification, sections 6 and 11)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from qosmanager.cli.errors import USAGE
from qosmanager.cli.options import NodeLabels
from qosmanager.config.parse import DEFAULT, Loaded, load
from qosmanager.config.presets import Preset
from qosmanager.config.schema import config_schema, workloads_schema
from qosmanager.config.settings import Settings
from qosmanager.config.written import changes, effective_yaml, leaves, own_leaves
from qosmanager.documents.files import STANDARD_INPUT, read_standard_input, read_text
from qosmanager.documents.problem import DocumentError
from qosmanager.documents.workloads import load_workloads
from qosmanager.model.count import counted

_STDIN = "-"
_FILE = click.Path(path_type=Path)


@click.group(
    epilog="""\b
Examples:
  qosmanager config check qos.yaml --workloads workloads.yaml
  qosmanager config show --config qos.yaml
  qosmanager config schema > qosmanager.schema.json
  qosmanager config presets"""
)
def config() -> None:
    """Check and show configuration and workload files."""


@config.command(
    short_help="Check configuration and workload files.",
    epilog="""\b
Examples:
  qosmanager config check qos.yaml
  qosmanager config check qos.yaml other.yaml --workloads workloads.yaml
  kubectl get configmap -n kube-system koordlet -o yaml | qosmanager config check -""",
)
@click.argument("files", nargs=-1, metavar="FILE...", type=_FILE)
@click.option("--workloads", multiple=True, type=_FILE, help="A workload file to check; may be given more than once.")
def check(files: tuple[Path, ...], workloads: tuple[Path, ...]) -> None:
    """Check configuration files (`-`: standard input), and workload files; all problems of all files are told at once.

    A configuration file has the root key qosManager, or is a Kubernetes ConfigMap that holds such a file under koordlet-config.yaml.

    Exit code: 0 all are in order; 2 some problem: what, where, and what is allowed on standard error.
    """
    if not files and not workloads:
        raise click.UsageError("nothing to check: give a FILE, or --workloads FILE")
    results = [*(_checked(path, _count_settings) for path in files), *(_checked(path, _count_workloads) for path in workloads)]
    if not all(results):
        raise SystemExit(USAGE)


@config.command(
    short_help="Print every value in force, and where it comes from.",
    epilog="""\b
Examples:
  qosmanager config show                        the defaults
  qosmanager config show --config qos.yaml
  qosmanager config show --config qos.yaml --changed
  qosmanager config show --config qos.yaml --node-labels pool=batch,zone=a
  qosmanager config show --output json""",
)
@click.option("--config", "path", type=_FILE, metavar="FILE", help="Configuration file (`-`: standard input); without it the defaults.")
@click.option(
    "--node-labels",
    "labels",
    multiple=True,
    type=NodeLabels(),
    metavar="KEY=VALUE,...",
    help="Labels of the node it is for; without them none of the nodeStrategies select it.",
)
@click.option("--changed", is_flag=True, help="Leave out what is a default: only values that the file, or its preset, sets.")
@click.option("--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="A file to use, or data.")
def show(path: Path | None, labels: tuple[dict[str, str], ...], output: str, *, changed: bool) -> None:
    """Print the effective configuration: every value, and where it comes from: the file's line, the preset, or the default.

    With --node-labels, as a node with these labels has it: values of nodeStrategies that select it name theirs. What it prints as YAML is
    itself a configuration file with the same effect, also with --changed.
    """
    known = {key: value for each in labels for key, value in each.items()} if labels else None
    loaded = Loaded(Settings(), {}) if path is None else load(*_text(path), known)
    shown = own_leaves(loaded) if changed else leaves(loaded.settings)
    if output == "json":
        values = {leaf.path: {"value": leaf.text, "origin": loaded.origins.get(leaf.path, DEFAULT)} for leaf in shown}
        click.echo(msgspec.json.format(msgspec.json.encode(values), indent=2))
    else:
        click.echo(effective_yaml(loaded, shown), nl=False)


@config.command(
    short_help="Print the JSON Schema of a configuration file.",
    epilog="""\b
Examples:
  qosmanager config schema > qosmanager.schema.json
  qosmanager config schema --workloads > workloads.schema.json
An editor with a YAML language server takes it from a first line in the file:
  # yaml-language-server: $schema=./qosmanager.schema.json""",
)
@click.option("--workloads", is_flag=True, help="Of workload files instead of the configuration.")
def schema(*, workloads: bool) -> None:
    """Print the JSON Schema (draft 2020-12) of a configuration file, for editors.

    It holds every key with its meaning, what is allowed, and its default. `qosmanager config check` knows more, such as thresholds that
    must rise.
    """
    click.echo(json.dumps(workloads_schema() if workloads else config_schema(), indent=2, ensure_ascii=False))


@config.command(
    epilog="""\b
Examples:
  qosmanager config presets
  printf 'qosManager: {preset: latency-first}' | qosmanager config show --config -"""
)
def presets() -> None:
    """List the presets and what each changes. A file's own keys come before its preset's."""
    for preset in Preset:
        changed = changes(preset)
        click.echo(preset.value + ("" if changed else ": the defaults"))
        for change in changed:
            click.echo(f"  {change.path:<36} {change.value:<8} (default {change.default})")


def _checked(path: Path, count: Callable[[str, str], str]) -> bool:
    """Check one file and say what came of it."""
    try:
        text, source = _text(path)
        click.echo(f"{source}: in order, {count(text, source)}")
    except DocumentError as error:
        for problem in error.problems:
            click.echo(str(problem), err=True)
        return False
    return True


def _text(path: Path) -> tuple[str, str]:
    return (read_standard_input(), STANDARD_INPUT) if str(path) == _STDIN else (read_text(path), str(path))


def _count_settings(text: str, source: str) -> str:
    own = sum(origin.startswith(source) for origin in load(text, source).origins.values())
    return f"{counted(own, 'value')} of its own"


def _count_workloads(text: str, source: str) -> str:
    declared = len(load_workloads(text, source))
    return counted(declared, "workload")
