"""`qosmanager explain`: why it was done, and why nothing was (specification, section 10)."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec
from msgspec import Struct

from qosmanager.cli.audit import NAME as AUDIT_NAME
from qosmanager.cli.audit import last_audited
from qosmanager.cli.console import say
from qosmanager.cli.errors import CannotRunError
from qosmanager.cli.options import output_option, state_dir_option, url_option
from qosmanager.cli.reach import agent_at, answering
from qosmanager.documents.reader import nearest
from qosmanager.linux.agent_file import running_agent
from qosmanager.model.actions import Refusal
from qosmanager.views.decisions import CAPACITY, Entry, runs
from qosmanager.views.explain_text import audit_text, decision_text, reasons_text, refusals_text
from qosmanager.views.status import Status
from qosmanager.views.why_not import Reason, why_not

_STEPS = 10  # entries asked for each decision shown: a slow rise is many of one kind
_NAMED = 10  # pods named when the one asked for is not here


class Explanation(Struct, frozen=True, kw_only=True):
    """What --output json prints. Without a pod, `refusals` are all of the last cycle and `why_not` is empty."""

    cycle: int
    pod: str | None
    decisions: tuple[Entry, ...]
    refusals: tuple[Refusal, ...]
    why_not: tuple[Reason, ...]


class _Asked(Struct, frozen=True, kw_only=True):
    """The options of the command, as given."""

    last: int
    pod: str | None
    audit: bool
    audit_log: Path | None
    output: str
    url: str | None
    state_dir: Path


@click.command(
    short_help="Say why the agent did what it did, or did nothing.",
    epilog="""\b
Examples:
  qosmanager explain                          the last 5 decisions, and what the last cycle refused
  qosmanager explain --last 20
  qosmanager explain --pod shop/cart-0        what was done to it, and why not more
  qosmanager explain --audit --last 20        the last 20 evictions, also of agents before this one
  qosmanager explain --output json | jq '.decisions[].terms.cpu'""",
)
@click.option("--last", type=click.IntRange(1, CAPACITY), default=5, show_default=True, metavar="N", help="How many decisions.")
@click.option("--pod", metavar="POD", help="Only this pod: NAMESPACE/NAME, or its name alone where only one has it.")
@click.option("--audit", is_flag=True, help="The evictions of the audit log instead: it outlives the agent, and needs none that runs.")
@click.option("--audit-log", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="That log. [default: the agent's]")
@output_option
@url_option
@state_dir_option
def explain(**given: object) -> None:
    """Say why the agent did what it did, and why it did nothing.

    Each action comes with its rule, the score it rests on, that score's factors and the readings behind them, what was written, and the
    outcome seen later.

    And why not: what the last cycle refused, by which rule; with --pod why nothing, or no more, is done to that pod now: its class, its
    limits, a cooldown, a plugin that is off, a reading that is missing. Decisions that repeat, like the steps of a slow rise, are one.

    Nothing is computed again: the agent kept it with each decision, the last 500 of them since it started.

    Exit code: 0; 1 no agent answers, no such pod, or no audit log that can be read; 2 wrong usage.
    """
    asked = _Asked(**given)  # type: ignore[arg-type]  # click hands over exactly the options declared above
    if asked.audit or asked.audit_log is not None:
        _print_audit(asked)
    else:
        _explain(asked)


def _print_audit(asked: _Asked) -> None:
    agent = running_agent(asked.state_dir)
    known = Path(agent.audit_log) if agent is not None and agent.audit_log is not None else asked.state_dir / AUDIT_NAME
    lines = last_audited(asked.audit_log or known, asked.last, asked.pod)
    if asked.output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(lines), indent=2))
        return
    if not lines:
        click.echo(f"No eviction is written down{f' of {asked.pod}' if asked.pod else ''}.")
    for line in lines:
        say(audit_text(line))


def _explain(asked: _Asked) -> None:
    last, pod, output = asked.last, asked.pod, asked.output
    client = agent_at(asked.url, asked.state_dir)
    with answering():
        status = client.status()
        key = None if pod is None else _key(status, pod)
        entries = client.decisions(min(CAPACITY, last * _STEPS), key, with_terms=True)
    if key is not None and not entries and not _is_here(status, key):
        raise CannotRunError(_no_such_pod(status, key), code=1)
    shown = runs(entries)[-last:]
    if output == "json":
        explanation = Explanation(
            cycle=status.cycle,
            pod=key,
            decisions=tuple(entry for run in shown for entry in run),
            refusals=tuple(each for each in status.refusals if key is None or each.pod == key),
            why_not=_why_not(status, key),
        )
        click.echo(msgspec.json.format(msgspec.json.encode(explanation), indent=2))
        return
    _print(status, key, shown)


def _print(status: Status, key: str | None, shown: list[list[Entry]]) -> None:
    about = f" to {key}" if key else ""
    if not shown:
        click.echo(f"Nothing has been done{about} since the agent started, as far as it remembers.")
    for run in shown:
        say(f"{decision_text(run)}\n")
    if key is None:
        click.echo(f"Not done in the last cycle ({status.cycle})" + ("" if status.refusals else ": nothing was refused"))
        for line in refusals_text(status.refusals):
            say(line)
    else:
        click.echo(f"Why nothing more is done{about} now, as of cycle {status.cycle}")
        for line in reasons_text(_why_not(status, key)):
            say(line)
        if not _is_here(status, key):
            click.echo("  it is no longer among the pods")


def _why_not(status: Status, key: str | None) -> tuple[Reason, ...]:
    return why_not(status, key) if key is not None and _is_here(status, key) else ()


def _is_here(status: Status, key: str) -> bool:
    return any(pod.key == key for pod in status.pods)


def _key(status: Status, asked: str) -> str:
    """Return the key of the pod meant. Raises CannotRunError for none, or for more than one."""
    keys = [pod.key for pod in status.pods]
    found = [key for key in keys if asked in (key, key.partition("/")[2])]
    if len(found) == 1:
        return found[0]
    if found:
        raise CannotRunError(f"--pod {asked}: more than one pod has that name: {', '.join(sorted(found))}", code=1)
    if asked.count("/") == 1 and all(asked.split("/")):
        return asked  # it may be gone, and decisions about it still be known
    raise CannotRunError(_no_such_pod(status, asked), code=1)


def _no_such_pod(status: Status, asked: str) -> str:
    keys = sorted(pod.key for pod in status.pods)
    near = nearest(asked, keys)
    known = ", ".join(keys[:_NAMED]) + (f" and {len(keys) - _NAMED} more, see `qosmanager status`" if len(keys) > _NAMED else "")
    return f"--pod {asked}: there is no such pod here; " + (f"did you mean {near}?" if near else f"known are {known or 'none'}")
