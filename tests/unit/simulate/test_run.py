"""A scenario through the very cycle of the live agent: what it sees of the model, what it does to it, the same each time."""

import os
import subprocess
import sys

import msgspec
import pytest

from qosmanager.config.settings import (
    CpuBurstSettings,
    CpuEvictSettings,
    CpuIsolation,
    CpuSuppressSettings,
    IsolationSettings,
    Policy,
    Settings,
)
from qosmanager.model.actions import Evict, Result, SetBeCpuLimit, SetBeCpuset
from qosmanager.model.qos import Mode
from qosmanager.simulate.run import unmanaged
from simulated import scenario, with_agent, without_agent

LS = "name: ls, qos: LS, requests: {cpu: 1, memory: 2Gi}, slo: {p99: 50ms}, cpu: {constant: 1}, service: {time: 2ms}"
BE = "name: be, qos: BE, count: 2, cpu: {constant: 2}, memory: {start: 1Gi}"
SIX = "30s"


def actions(cycles, kind):
    return [action for cycle in cycles for action in cycle.record.plan.actions if isinstance(action, kind)]


def test_the_agent_measures_what_the_model_is():
    last = with_agent(scenario(LS, BE, duration=SIX))[-1]
    snapshot, truth = last.record.snapshot, last.truth
    pods = {pod.key: pod for pod in snapshot.pods}
    assert snapshot.node.cpu_usage == pytest.approx(truth.node_cpu)
    assert pods["default/ls"].cpu.usage == pytest.approx(truth.ls_cpu)
    assert sum(pods[key].cpu.usage for key in ("default/be-0", "default/be-1")) == pytest.approx(truth.be_cpu)
    assert pods["default/ls"].latency.p99 == truth.services[0].p99
    assert pods["default/be-0"].memory.rss == 1 << 30
    assert pods["default/ls"].cpu.wait is not None
    assert last.record.plan.failures == ()


def test_batch_is_held_at_what_was_decided_from_the_next_cycle_on():
    cycles = with_agent(scenario(LS, BE, duration=SIX))
    decided = actions(cycles[:2], SetBeCpuLimit)[0].cores  # the first cycle knows no rate yet
    assert cycles[1].truth.be_limit == decided
    assert cycles[2].truth.be_cpu == pytest.approx(decided)
    assert {receipt.result for cycle in cycles for receipt in cycle.record.receipts} <= {Result.APPLIED, Result.GONE}


def test_the_policy_cpuset_holds_batch_on_cpus():
    settings = Settings(cpu_suppress=CpuSuppressSettings(policy=Policy.CPUSET))
    cycles = with_agent(scenario(LS, BE, duration=SIX), settings)
    assert actions(cycles, SetBeCpuset)
    last = cycles[-1]
    # The target of 1.5 cores is given as two CPUs.
    assert (last.record.state.be_limit, last.record.state.be_cpus) == (1.5, "0-1")
    assert last.truth.be_limit == last.truth.be_cpu == pytest.approx(2.0)


def test_a_node_that_a_quota_holds_has_a_part_of_a_cpu():
    cycles = with_agent(scenario("name: be, qos: BE, count: 4, cpu: {constant: 2}", node="{cpus: 2.5, system_cpu: 0}", duration="5s"))
    assert cycles[0].truth.be_cpu == pytest.approx(2.5)
    assert cycles[-1].record.snapshot.node.cpus == 2.5


def test_one_name_in_two_namespaces_is_two_pods():
    pods = [f"name: ls, namespace: {space}, qos: LS, cpu: {{constant: {cores}}}" for space, cores in (("a", 1), ("b", 2))]
    last = with_agent(scenario(*pods, duration="5s"))[-1]
    assert {pod.key: pod.cpu.usage for pod in last.record.snapshot.pods} == pytest.approx({"a/ls": 1, "b/ls": 2})


def test_a_burst_of_a_pod_without_a_queue_is_one():
    cycles = with_agent(scenario("name: ls, qos: LS, limits: {cpu: 1}, cpu: {constant: 2}", duration="5s"))
    assert cycles[-1].truth.bursts == {"default/ls": 1.5}


@pytest.mark.parametrize(
    ("more", "by_default", "on_request"),
    [("", True, True), (", labelled: false", False, True), (", owner: DaemonSet", False, False), (", critical: true", False, False)],
)
def test_a_batch_pod_is_evicted_when_its_label_and_its_owner_allow_it(more, by_default, on_request):
    short = f"name: be, qos: BE, cpu: {{constant: 1}}, memory: {{start: 14Gi}}{more}"
    loaded = scenario(short, node="{cpus: 4, memory: 15Gi, system_memory: 512Mi}", duration="5s")
    assert bool(actions(with_agent(loaded), Evict)) is by_default
    assert bool(actions(with_agent(loaded, Settings(evict_unlabelled=True)), Evict)) is on_request


@pytest.mark.parametrize("period", [0.1, 1.0, 10.0])
def test_requests_that_are_given_up_are_counted_whatever_the_length_of_a_cycle(period):
    loaded = scenario("name: ls, qos: LS, limits: {cpu: 1}, cpu: {constant: 2}, service: {time: 1ms, timeout: 1s}", duration=SIX)
    settings = Settings(sync_period=period)
    # One core's worth a second is too much, but in the first second, whose work waits.
    assert sum(cycle.truth.given_up for cycle in unmanaged(loaded, settings, 1)) == pytest.approx(29_000, rel=0.05)


def test_what_only_observes_changes_nothing():
    settings = Settings().observing()
    observed, alone = with_agent(scenario(LS, BE, duration=SIX), settings), without_agent(scenario(LS, BE, duration=SIX))
    assert actions(observed, SetBeCpuLimit)
    assert [cycle.truth.be_cpu for cycle in observed][5:] == pytest.approx([cycle.truth.be_cpu for cycle in alone][5:], rel=0.05)
    assert all(cycle.truth.be_limit is None for cycle in observed)


def test_a_burst_raises_the_limit_and_the_agent_goes_on_knowing_the_pods_own():
    loaded = scenario("name: ls, qos: LS, limits: {cpu: 1}, cpu: {constant: 2}, service: {time: 2ms}", duration=SIX)
    cycles = with_agent(loaded)
    raised = [cycle.truth.bursts.get("default/ls") for cycle in cycles]
    assert set(raised) == {None, 1.5}
    assert all(cycle.record.snapshot.pods[0].cpu.limit == 1 for cycle in cycles)
    off = with_agent(loaded, Settings(cpu_burst=CpuBurstSettings(mode=Mode.OFF)))
    assert all(not cycle.truth.bursts for cycle in off)


def test_a_victim_ends_after_its_time_and_the_engine_learns_that_it_is_gone():
    loaded = scenario(
        "name: be, qos: BE, count: 2, cpu: {constant: 1}, memory: {start: 7Gi}, ending: 3s, comes_back: 60s",
        node="{cpus: 4, memory: 15Gi, system_memory: 512Mi}",
    )
    cycles = with_agent(loaded)
    begun = next(cycle for cycle in cycles if any(isinstance(action, Evict) for action in cycle.record.plan.actions))
    gone = next(cycle for cycle in cycles if any(what == "ended" for what, _ in cycle.truth.happenings))
    assert gone.truth.time - begun.truth.time == pytest.approx(3)
    assert gone.record.state.pending == ()
    assert gone.record.state.victim_ended is not None
    (victim,) = actions(cycles, Evict)
    assert victim.uid
    assert [(each.pod, each.uid) for each in gone.record.receipts if each.result is Result.GONE] == [(victim.pod, victim.uid)]


def test_a_leak_is_named_from_the_counters_that_the_sampler_reads():
    loaded = scenario("name: be, qos: BE, memory: {start: 1Gi, growth: 600M}, age: 1h", duration="40m")
    growth = [cycle.record.snapshot.pods[0].memory.growth for cycle in with_agent(loaded)]
    assert growth[-1] == pytest.approx(10e6, rel=0.02)  # 600 MB an hour, in bytes a minute
    assert growth[20 * 60] == 0


def test_the_same_seed_is_the_same_run_and_another_one_another():
    loaded = scenario(LS, BE, duration=SIX)

    def run(seed):
        return [(cycle.truth, cycle.record) for cycle in with_agent(loaded, seed=seed)]

    assert msgspec.json.encode(run(1)) == msgspec.json.encode(run(1))
    assert msgspec.json.encode(run(1)) != msgspec.json.encode(run(2))


RUN = """
import hashlib, msgspec
from qosmanager.config.settings import Settings
from qosmanager.simulate.load import load
from qosmanager.simulate.run import managed
digest = hashlib.sha256()
for cycle in managed(load("two-services"), Settings(), 7):
    digest.update(msgspec.json.encode(cycle))
print(digest.hexdigest())
"""


def test_a_run_does_not_depend_on_the_order_of_hashes():
    told = [
        subprocess.run([sys.executable, "-c", RUN], env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True).stdout
        for seed in ("0", "4711")
    ]
    assert told[0] == told[1]


def test_the_daemon_does_not_load_the_simulator():
    code = "import sys, qosmanager.cli.run, qosmanager.cli.main; print(*sorted(name for name in sys.modules if 'simulate' in name))"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert told == ["qosmanager.cli.simulate"]


@pytest.mark.parametrize(("cpu", "shielded"), [(CpuIsolation.IDLE, True), (CpuIsolation.WEIGHT, True), (CpuIsolation.OFF, False)])
def test_isolation_holds_in_the_model_and_is_read_back(cpu, shielded):
    greedy = "name: ls, qos: LS, requests: {cpu: 1}, cpu: {constant: 4}"
    off = {"cpu_suppress": CpuSuppressSettings(mode=Mode.OFF), "cpu_evict": CpuEvictSettings(mode=Mode.OFF)}
    settings = Settings(isolation=IsolationSettings(cpu=cpu), **off)
    pods = (greedy, "name: be, qos: BE, cpu: {constant: 4}")
    last = with_agent(scenario(*pods, node="{cpus: 4, system_cpu: 0}", duration=SIX), settings)[-1]
    assert last.record.snapshot.be_shielded is shielded
    # Shares of 1024 beside 3, 2 and 1024.
    expected = {CpuIsolation.IDLE: 3 / 1027, CpuIsolation.WEIGHT: 2 / 1026, CpuIsolation.OFF: 0.5}[cpu] * 4
    assert last.truth.be_cpu == pytest.approx(expected)
