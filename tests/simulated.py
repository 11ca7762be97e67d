"""Small scenarios for tests of the simulator, written as a user would."""

from __future__ import annotations

from qosmanager.config.settings import Settings
from qosmanager.simulate.load import Loaded, load_scenario
from qosmanager.simulate.node import SimulatedNode
from qosmanager.simulate.run import Cycle, managed, unmanaged

NODE = "{cpus: 4, memory: 16Gi, system_cpu: 0, system_memory: 0}"


def scenario(*workloads: str, node: str = NODE, duration: str = "60s", more: str = "") -> Loaded:
    """A scenario of these workloads, each in YAML's flow style without its braces."""
    listed = "\n".join(f"- {{{workload}}}" for workload in workloads)
    text = f"about: a test\nduration: {duration}\nnode: {node}\nworkloads:\n{listed}\n{more}"
    return Loaded(name="test", scenario=load_scenario(text, "test.yaml"))


def node(*workloads: str, **rest: str) -> SimulatedNode:
    return SimulatedNode(scenario(*workloads, **rest), 1, 0.0)


def with_agent(loaded: Loaded, settings: Settings | None = None, seed: int = 1) -> list[Cycle]:
    return list(managed(loaded, settings or Settings(), seed))


def without_agent(loaded: Loaded, seed: int = 1) -> list[Cycle]:
    return list(unmanaged(loaded, Settings(), seed))
