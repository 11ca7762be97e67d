"""What is shown of the cluster: whose word on the pods counts, how old it is, and what cannot be asked."""

from __future__ import annotations

from msgspec import Struct


class ClusterView(Struct, frozen=True, kw_only=True):
    """`origin`: "api" or "kubelet", whose word on the pods counts; `age`: seconds since it was last certain that nothing was missed;
    `pods`: how many it names; `problems`: what cannot be asked or is not understood."""

    node_name: str
    origin: str
    age: float
    pods: int
    problems: tuple[str, ...] = ()
