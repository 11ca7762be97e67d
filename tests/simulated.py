"""Small scenarios for tests of the simulator, written as a user would."""

from __future__ import annotations

from msgspec.structs import replace

from qosmanager.config.settings import Settings
from qosmanager.simulate.load import Loaded, load_scenario
from qosmanager.simulate.node import SimulatedNode
from qosmanager.simulate.run import Cycle, managed, unmanaged
from qosmanager.simulate.scenario import Measure, Step, WorkloadSpec

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


def faster(loaded: Loaded, factor: float) -> Loaded:
    """The same in a part of the time: what took an hour takes an hour / factor, and what grows by the hour grows that much faster."""
    scenario = loaded.scenario
    return replace(
        loaded,
        scenario=replace(
            scenario,
            duration=scenario.duration / factor,
            workloads=tuple(_faster_workload(each, factor) for each in scenario.workloads),
            expect=tuple(
                replace(each, after=each.after / factor, before=each.before and each.before / factor)
                for each in scenario.expect
                if each.measure not in BY_THE_CLOCK
            ),
        ),
    )


BY_THE_CLOCK = {Measure.REVERSALS, Measure.LEAK_NAMED}


def _faster_workload(spec: WorkloadSpec, factor: float) -> WorkloadSpec:
    demand = spec.cpu
    steps = tuple(replace(step, at=step.at / factor, over=step.over / factor) for step in demand.steps)
    steps += tuple(Step(at=hour.hour * 3600 / factor, value=hour.value) for hour in demand.daily)
    return replace(
        spec,
        cpu=replace(demand, steps=steps, daily=()),
        memory=replace(spec.memory, growth=round(spec.memory.growth * factor)),
    )
