"""The options of `qosmanager run` that are about a cluster. Light: nothing of Kubernetes is imported here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec import Struct

from qosmanager.cli.errors import CannotRunError

KUBELET = "https://127.0.0.1:10250"
_KUBELET_ONLY = ("kubelet_url", "kubelet_ca", "kubelet_insecure_tls")

F = TypeVar("F", bound=Callable[..., Any])


class ClusterOptions(Struct, frozen=True, kw_only=True):
    """The options as given; None: not given."""

    node_name: str | None = None
    kubeconfig: Path | None = None
    pods_from: str | None = None
    kubelet_url: str | None = None
    kubelet_ca: Path | None = None
    kubelet_insecure_tls: bool = False
    config_map: str | None = None
    publish_batch_resources: bool = False


_OPTIONS = (
    click.option("--kubernetes", is_flag=True, help="The node is one of a cluster: pods, evictions and events go by the API server."),
    click.option("--node-name", metavar="NAME", help="The node's name in the cluster. [default: the environment's NODE_NAME]"),
    click.option(
        "--kubeconfig",
        type=click.Path(dir_okay=False, path_type=Path),
        help="How to reach the API server; files that it names are read again when they change, what stands in it is not. "
        "[default: as a pod does, by its service account]",
    ),
    click.option(
        "--pods-from",
        type=click.Choice(["api", "kubelet", "both"]),
        help="Who names the pods; both: the API server, and kubelet while that is not reached. [default: both]",
    ),
    click.option("--kubelet-url", metavar="URL", help=f"Where kubelet answers. [default: {KUBELET}]"),
    click.option(
        "--kubelet-ca",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Whom to trust that it is kubelet. [default: as for the API server]",
    ),
    click.option("--kubelet-insecure-tls", is_flag=True, help="Ask kubelet, with the token, without looking at its certificate."),
    click.option(
        "--config-map",
        metavar="NAMESPACE/NAME",
        help="Take the configuration from this ConfigMap, key koordlet-config.yaml, by watching it.",
    ),
    click.option(
        "--publish-batch-resources",
        is_flag=True,
        help="Publish what BE may use as the node's kubernetes.io/batch-cpu and batch-memory.",
    ),
)


def cluster_options(command: F) -> F:
    """Give a command these options."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def taken_from(given: dict[str, Any]) -> ClusterOptions | None:
    """Take these options out of those of a command; None: no cluster is wanted. Raises CannotRunError for what does not go together."""
    wanted = given.pop("kubernetes")
    options = ClusterOptions(**{name: given.pop(name) for name in ClusterOptions.__struct_fields__})
    if not wanted:
        written = [name for name in ClusterOptions.__struct_fields__ if getattr(options, name)]
        if written:
            raise CannotRunError(f"{_spelled(written[0])} needs --kubernetes")
        return None
    if options.pods_from == "api":
        written = [name for name in _KUBELET_ONLY if getattr(options, name)]
        if written:
            raise CannotRunError(f"{_spelled(written[0])} and --pods-from api do not go together: kubelet is not asked")
    if options.kubelet_ca is not None and options.kubelet_insecure_tls:
        raise CannotRunError("--kubelet-ca and --kubelet-insecure-tls do not go together")
    return options


def _spelled(name: str) -> str:
    return f"--{name.replace('_', '-')}"
