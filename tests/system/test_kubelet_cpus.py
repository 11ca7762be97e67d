"""kubelet's static CPU policy, from its checkpoint to what is written: a recorded tree, the real parts in between."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from acting import FakeBoot, FakeScores
from measuring import Bench
from qosmanager.config.settings import CpuSuppressSettings, Policy, Settings
from qosmanager.engine.step import step
from qosmanager.execute.resource_executor import ResourceExecutor
from qosmanager.linux.journal import FileJournal
from qosmanager.model.actions import Result
from qosmanager.model.qos import QoS
from qosmanager.model.state import State
from qosmanager.model.workload import CgroupFile

GUARANTEED, BATCH = (f"{letter}1b2c3d4-0000-4000-8000-000000000001" for letter in "ab")
CONTAINER = "0123456789abcdef" * 4
POD, BESTEFFORT = f"kubepods/pod{GUARANTEED}", "kubepods/besteffort"
INNER = f"{BESTEFFORT}/pod{BATCH}/{CONTAINER}"
GRANTED = json.dumps({"policyName": "static", "defaultCpuSet": "0-1", "entries": {GUARANTEED: {"db": "2-3"}}, "checksum": 1})
GIVEN_BACK = json.dumps({"policyName": "static", "defaultCpuSet": "0-3", "checksum": 2})


def recorded(tmp_path, layout):
    """4 CPUs; a Guaranteed pod has 2 and 3 for itself, kubelet has put the BestEffort container on the shared pool."""
    bench = Bench(tmp_path, layout=layout)
    bench.kernel.add(f"{POD}/{CONTAINER}", cpuset_cpus="2-3")
    bench.kernel.add(INNER, cpuset_cpus="0-1")
    bench.checkpoint.write_text(GRANTED)
    return bench


class Agent:
    def __init__(self, bench, tmp_path, policy):
        self.bench = bench
        self.executor = ResourceExecutor(bench.kernel, FileJournal(tmp_path / "state"), FakeScores(), FakeBoot())
        self.settings = Settings(cpu_suppress=CpuSuppressSettings(policy=policy))
        self.state = State()

    def cycle(self):
        self.bench.clock.advance(1.0)
        snapshot, placement = self.bench.sampler.sample()
        # The recorded tree's counters stand still: the node idles.
        snapshot = replace(snapshot, node=replace(snapshot.node, cpu_usage=0.0))
        self.state, _, plan = step(self.state, snapshot, self.settings)
        return plan, self.executor.apply(plan, placement, snapshot, self.bench.clock.now)

    def cpuset(self, group):
        return self.bench.kernel.text(group, "cpuset.cpus")


@pytest.mark.parametrize("layout", ["v1", "v2"])
def test_an_lsr_pods_cpus_are_known_to_decide(tmp_path, layout):
    bench = recorded(tmp_path, layout)
    pod = bench.pods()[f"pod{GUARANTEED}"]
    assert (pod.qos, pod.exclusive_cpus) == (QoS.LSR, (2, 3))
    agent = Agent(bench, tmp_path, Policy.CFS_QUOTA)
    plan, _ = agent.cycle()
    assert plan.standing.exclusive_cpus == (2, 3)
    assert bench.sampler.problems == ()


@pytest.mark.parametrize("policy", list(Policy))
def test_on_v1_cpusets_in_kubelets_tree_are_kubelets_alone(tmp_path, policy):
    bench = recorded(tmp_path, "v1")
    agent = Agent(bench, tmp_path, policy)
    _, receipts = agent.cycle()
    assert not [path for path, _ in bench.kernel.writes if "cpuset" in path]
    refused = [each for each in receipts if each.result is Result.REFUSED]
    assert len(refused) == (1 if policy is Policy.CPUSET else 0)
    # The Guaranteed pod ends and kubelet's pool grows: its write into the container is taken by the kernel.
    bench.kernel.remove(POD)
    bench.kernel.write(_cpus(INNER), "0-3")
    assert agent.cpuset(INNER) == "0-3"


def test_on_v2_batch_is_kept_off_the_exclusive_cpus_until_they_are_given_back(tmp_path):
    bench = recorded(tmp_path, "v2")
    agent = Agent(bench, tmp_path, Policy.CFS_QUOTA)
    agent.cycle()
    assert agent.cpuset(BESTEFFORT) == "0-1"
    bench.kernel.remove(POD)
    bench.checkpoint.write_text(GIVEN_BACK)
    bench.kernel.write(_cpus(INNER), "0-3")
    agent.cycle()
    assert (agent.cpuset(BESTEFFORT), agent.cpuset(INNER)) == ("", "0-3")


def _cpus(group):
    return CgroupFile("cpuset", group, "cpuset.cpus")
