"""The way to the cluster judged: is the API server reached, do the clocks agree, what may the agent do there (specification, section 9)."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from qosmanager.doctor.findings import Finding, Mark

MOST_SKEW = 5.0  # seconds


class Asked(Struct, frozen=True, kw_only=True):
    """A permission that was asked for: `right` ("create pods/eviction"), what it is for; `allowed` None: nobody said."""

    right: str
    purpose: str
    allowed: bool | None


class ClusterFacts(Struct, frozen=True, kw_only=True):
    """One look at the API server. `problem`: why it does not answer, else "". `skew`: seconds by which its clock is ahead (None: not
    told)."""

    server: str
    problem: str = ""
    version: str = ""
    skew: float | None = None
    rights: tuple[Asked, ...] = ()


def cluster_findings(cluster: ClusterFacts) -> tuple[Finding, ...]:
    """Judge the way to the cluster."""
    if cluster.problem:
        fix = "the address, the certificate and the token: --kubeconfig FILE, or the service account of the pod"
        return (Finding(subject="API server", mark=Mark.IMPOSSIBLE, text=_unreached(cluster), fix=fix),)
    text = f"{cluster.server} answers" + (f", Kubernetes {cluster.version}" if cluster.version else "")
    return (Finding(subject="API server", mark=Mark.OK, text=text), *_clocks(cluster.skew), *_rights(cluster.rights))


def _unreached(cluster: ClusterFacts) -> str:
    return cluster.problem if cluster.server in cluster.problem else f"{cluster.server}: {cluster.problem}"


def _clocks(skew: float | None) -> Iterator[Finding]:
    if skew is None:
        yield Finding(subject="its clock", mark=Mark.UNKNOWN, text="the API server does not tell its time")
    elif abs(skew) > MOST_SKEW:
        text = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this node's: certificates and tokens may be refused"
        yield Finding(subject="its clock", mark=Mark.DEGRADED, text=text, fix="synchronise both by NTP")


def _rights(rights: tuple[Asked, ...]) -> Iterator[Finding]:
    granted = [each.right for each in rights if each.allowed]
    if granted:
        yield Finding(subject="permissions", mark=Mark.OK, text=", ".join(granted))
    for each in rights:
        if each.allowed is False:
            fix = f"a ClusterRole with it, bound to the agent's service account: {each.purpose}"
            yield Finding(subject="permissions", mark=Mark.DEGRADED, text=f"not granted: {each.right}", fix=fix)
    unknown = [each.right for each in rights if each.allowed is None]
    if unknown:
        yield Finding(subject="permissions", mark=Mark.UNKNOWN, text=f"the API server does not say: {', '.join(unknown)}")
