"""What is shown of the cluster: whose word on the pods counts, how old it is, and what cannot be asked."""

from __future__ import annotations

from msgspec import Struct


class ClusterView(Struct, frozen=True, kw_only=True):
    """`origin`: "api" or "kubelet", whose word on the pods counts; `age`: seconds since it was last certain that nothing was missed;
    `pods`: how many it names; `evicted`: evictions of the last hour that count against evictionBudget; `events_dropped`: events that could
    not be told since the start; `problems`: what cannot be asked or is not understood."""

    node_name: str
    origin: str
    age: float
    pods: int
    evicted: int = 0
    events_dropped: int = 0
    problems: tuple[str, ...] = ()
