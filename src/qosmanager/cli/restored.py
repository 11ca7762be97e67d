"""`qosmanager restored`: wait until every node of a cluster is restored, the last step of an uninstall on Kubernetes."""

from __future__ import annotations

import re
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from qosmanager.cli.errors import CannotRunError
from qosmanager.cli.options import Duration
from qosmanager.documents.quantities import Rule, shown_duration
from qosmanager.linux.clock import LinuxClock
from qosmanager.model.count import counted

if TYPE_CHECKING:
    from qosmanager.kubernetes.api import Api

_FIRST, _LONGEST = 0.25, 2.0  # seconds between two looks, twice as long each time
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@click.command(
    short_help="Wait until every node of a cluster is restored.",
    epilog="""\b
Examples:
  qosmanager restored qosmanager-system/qosmanager-restore""",
)
@click.argument("daemonset", metavar="NAMESPACE/DAEMONSET")
@click.option(
    "--within",
    type=Duration(Rule(unit="duration", low=1, high=3600)),
    default="4m",
    show_default=True,
    metavar="DURATION",
    help="How long to wait at most.",
)
@click.option("--kubeconfig", type=click.Path(dir_okay=False, path_type=Path), help="How to reach the API server. [default: as a pod does]")
def restored(daemonset: str, within: float, kubeconfig: Path | None) -> None:
    """Wait until the pods of a DaemonSet are ready on every node.

    An uninstall on Kubernetes leaves a DaemonSet whose pods put back what the agent changed on their node, and are ready when that is
    done. The chart's last job runs this command; with kubectl, `kubectl rollout status` does the same.

    Exit code: 0 every node is restored; 1 not within the time, or the API server does not tell; 2 wrong usage.
    """
    # Only here: no other command needs to know of Kubernetes.
    from qosmanager.kubernetes.access import AccessError, from_kubeconfig, in_cluster  # noqa: PLC0415
    from qosmanager.kubernetes.http_api import HttpApi  # noqa: PLC0415

    namespace, slash, name = daemonset.partition("/")
    if not slash or not all(_NAME.fullmatch(part) for part in (namespace, name)):
        raise click.BadParameter(f"{daemonset!r} is not allowed; NAMESPACE/DAEMONSET is", param_hint="NAMESPACE/DAEMONSET")
    try:
        access = in_cluster() if kubeconfig is None else from_kubeconfig(kubeconfig)
    except AccessError as error:
        raise CannotRunError(str(error)) from None
    with closing(HttpApi(access, LinuxClock())) as api:
        _wait(api, namespace, name, within)


def _wait(api: Api, namespace: str, name: str, within: float) -> None:
    from qosmanager.kubernetes.api import ApiUnreachable  # noqa: PLC0415
    from qosmanager.kubernetes.rollout import RolloutUnknown, rollout  # noqa: PLC0415

    until = time.monotonic() + within
    said, pause = "", _FIRST
    while True:
        try:
            now = rollout(api, namespace, name)
            text = f"{now.ready} of {counted(now.wanted, 'node')} restored" if now.settled else "the nodes are not counted yet"
            complete = now.complete
        except (ApiUnreachable, RolloutUnknown) as error:
            text, complete = str(error), False
            if isinstance(error, RolloutUnknown) and error.final:
                raise CannotRunError(f"DaemonSet {namespace}/{name}: {error}", code=1) from None
        if text != said:
            click.echo(text)
            said = text
        if complete:
            return
        if time.monotonic() >= until:
            hint = f"kubectl -n {namespace} get pods -o wide shows which are not ready"
            raise CannotRunError(f"not done within {shown_duration(within)}: {text}; {hint}", code=1)
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST)
