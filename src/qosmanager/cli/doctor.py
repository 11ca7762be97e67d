"""`qosmanager doctor`: what this node allows, and what ails the running agent."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import click
import msgspec

from qosmanager.cli.errors import CannotRunError
from qosmanager.cli.options import output_option, state_dir_option, url_option
from qosmanager.cli.reach import agent_at
from qosmanager.config.parse import read_settings
from qosmanager.config.settings import Settings
from qosmanager.doctor.cluster import cluster_findings
from qosmanager.doctor.findings import Finding, findings
from qosmanager.doctor.plugins import plugin_findings
from qosmanager.doctor.pods import pod_findings
from qosmanager.doctor.report import Report, report_text
from qosmanager.doctor.troubles import Live, troubles
from qosmanager.http.client import NoAnswerError
from qosmanager.linux.clock import LinuxClock
from qosmanager.linux.probe import Places, probe
from qosmanager.views.decisions import CAPACITY


@click.command(
    short_help="Say what works on this node, what does not, and why.",
    epilog="""\b
Examples:
  qosmanager doctor                          this node, and the agent on it
  qosmanager doctor --config qos.yaml        before the first start
  qosmanager doctor --kubernetes --cgroup-root /host/cgroup   in the agent's pod: the cluster too
  qosmanager doctor --output json | jq '.plugins[] | select(.ability == "impossible")'""",
)
@click.option(
    "--config", type=click.Path(path_type=Path), help="Judge by this configuration. [default: the running agent's, else the defaults]"
)
@click.option(
    "--cgroup-root", default="/sys/fs/cgroup", show_default=True, type=click.Path(path_type=Path), help="Where the cgroup hierarchies are."
)
@click.option("--kubernetes", is_flag=True, help="Look at the API server too: is it reached, what may the agent do there?")
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="How to reach the API server; implies --kubernetes. [default: as a pod does]",
)
@output_option
@url_option
@state_dir_option
@click.pass_context
def doctor(context: click.Context, /, *, output: str, **given: Any) -> None:
    """Say what the agent can do on this node, and look into three troubles of the running one.

    The node: kernel, cgroups, rights, pressure files, swap, kubelet, other agents, clock, state directory. As root it writes a limit in a
    group of its own, which it removes at once; without root it only reads. With --kubernetes also the API server. Then each plugin: active,
    degraded or impossible, why, and the fix. Then, on the data of the agent that runs here: is LS latency high, is BE evicted often, does
    CPUBurst do nothing?

    Exit code: 0 all is fine; 1 something is impossible or in trouble; 2 wrong usage.
    """
    live, agent, no_agent = _ask(given["url"], given["state_dir"])
    settings, whose = _settings(given["config"], live)
    host = probe(Places(cgroup_root=given["cgroup_root"], state_dir=given["state_dir"]))
    cluster = _cluster(given["kubeconfig"]) if given["kubernetes"] or given["kubeconfig"] else ()
    report = Report(
        findings=(*findings(host, settings), *cluster, *(pod_findings(live.status) if live else ())),
        plugins=plugin_findings(host, settings),
        settings=whose,
        agent=agent,
        no_agent=no_agent,
        troubles=troubles(live) if live else (),
        knobs=live.status.isolation if live else (),
    )
    click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2) if output == "json" else report_text(report).rstrip("\n"))
    context.exit(0 if report.healthy else 1)


def _ask(url: str | None, state_dir: Path) -> tuple[Live | None, str | None, str]:
    """Return what the agent says, where it answers, and else why not. Raises CannotRunError for an address that is none."""
    try:
        client = agent_at(url, state_dir)
        live = Live(status=client.status(), entries=client.decisions(CAPACITY, with_terms=True))
    except NoAnswerError as error:
        return None, None, str(error)
    except CannotRunError as error:
        if error.code == 1:
            return None, None, str(error)  # it runs, and does not listen
        raise
    return live, client.url, ""


def _cluster(kubeconfig: Path | None) -> tuple[Finding, ...]:
    """Look at the API server. Raises CannotRunError where the way to it is not told."""
    from qosmanager.cli.kubernetes import reached  # noqa: PLC0415 - nobody else needs it in memory
    from qosmanager.kubernetes.checkup import look  # noqa: PLC0415
    from qosmanager.kubernetes.http_api import HttpApi  # noqa: PLC0415

    clock = LinuxClock()
    with closing(HttpApi(reached(kubeconfig), clock)) as api:
        return cluster_findings(look(api, api.server.url, clock))


def _settings(config: Path | None, live: Live | None) -> tuple[Settings, str]:
    if config is not None:
        return read_settings(config), f"the configuration in {config}"
    if live is not None:
        return live.status.settings, "the running agent's configuration"
    return Settings(), "the default configuration"
