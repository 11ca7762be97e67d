from pathlib import Path

import msgspec
import pytest
import yaml

from qosmanager.documents.problem import DocumentError
from qosmanager.documents.snapshot import load_snapshot
from qosmanager.model.attribution import Attribution
from qosmanager.model.forecast import Forecast
from qosmanager.model.qos import Level, QoS
from qosmanager.model.snapshot import CpuId, Node, Pod, PodCpu, PodLatency, PodMemory, Snapshot
from qosmanager.model.state import Burst, State

CASES = sorted((Path(__file__).parents[2] / "cases").glob("*.yaml"))

WHOLE = """
time: 2026-11-11T20:00:16Z
node: {cpus: 64, system_reserved: 4, cpu_usage: 60, cpu_trend: 0, load1: 64, memory_total: 256Gi, memory_available: 120Gi,
       memory_available_trend: -5, swap_total: 0, swap_used: 0, pgscan_direct: 0, pgscan_kswapd: 0, memory_psi_full: 0,
       io_psi_some: 0, iowait: 0, disk_util: 0, net_util: 0, ls_memory_growth: 0}
pods:
- {name: cart-0, namespace: shop, qos: LS, priority: 9500, created: 2026-11-11T20:00:00Z, critical: false, terminating: false,
   owner: Deployment,
   cpu: {request: 1, limit: 2, usage: 1.6, usage_mean: 700m, wait: 0.1, throttled: 0.0},
   memory: {request: 2Gi, limit: 4Gi, rss: 1Gi, growth: 0},
   latency: {p99: 150ms, slo: 100ms, trend: 0, median: 30ms}}
state: {be_limit: 9, suppress_level: CRITICAL, suppress_since: 2026-11-11T20:00:10Z, below_since: null, memory_short: false,
        cooldown_until: {CPUEvict: null}, burst_cooldown_until: {shop/cart-0: null},
        bursts: [{pod: shop/cart-0, base_limit: 2, limit: 3, started: 2026-11-11T20:00:10Z, calm_since: null}]}
"""
NOW = 1794427216.0  # 2026-11-11T20:00:16Z


def problems(text):
    with pytest.raises(DocumentError) as caught:
        load_snapshot(text, "n.yaml")
    return [str(problem) for problem in caught.value.problems]


def with_pod(fields):
    return "node: {cpus: 4, cpu_usage: 1}\npods:\n- {name: a, qos: LS, " + fields + "}\n"


def test_the_documented_example_is_read_whole():
    snapshot, state = load_snapshot(WHOLE, "n.yaml")
    assert snapshot.time == NOW
    assert (snapshot.node.cpus, snapshot.node.memory_total, snapshot.node.memory_available_trend) == (64, 256 << 30, -5)
    assert snapshot.pods == (
        Pod(
            name="cart-0",
            namespace="shop",
            qos=QoS.LS,
            priority=9500,
            created=NOW - 16,
            owner="Deployment",
            cpu=PodCpu(request=1, limit=2, usage=1.6, usage_mean=0.7, wait=0.1, throttled=0),
            memory=PodMemory(request=2 << 30, limit=4 << 30, rss=1 << 30, growth=0),
            latency=PodLatency(p99=0.15, slo=0.1, trend=0, median=0.03),
        ),
    )
    assert state == State(
        be_limit=9,
        suppress_level=Level.CRITICAL,
        suppress_since=NOW - 6,
        cooldown_until={"CPUEvict": None},
        burst_cooldown_until={"shop/cart-0": None},
        bursts=(Burst(pod="shop/cart-0", base_limit=2, limit=3, started=NOW - 6),),
    )


def test_the_least_document():
    snapshot, state = load_snapshot('{"node": {"cpus": 2, "cpu_usage": 0.5}, "pods": [{"name": "a", "qos": "BE"}]}', "n.json")
    assert snapshot.node == Node(cpus=2, cpu_usage=0.5)
    assert snapshot.pods == (Pod(name="a", qos=QoS.BE),)
    assert snapshot.time is None
    assert state == State()


def test_what_is_left_out_is_missing_with_a_reason_and_a_claim_is_no_reading():
    snapshot, _ = load_snapshot(with_pod("cpu: {usage: 1}"), "n.yaml")
    assert snapshot.missing["node.io_psi_some"] == "not in the document"
    assert snapshot.missing["pods.default/a.cpu.wait"] == "not in the document"
    assert "node.cpu_usage" not in snapshot.missing
    assert "pods.default/a.cpu.usage" not in snapshot.missing
    for claim in ("cpu.request", "cpu.limit", "memory.request", "memory.limit", "latency.slo", "created", "owner"):
        assert f"pods.default/a.{claim}" not in snapshot.missing


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_every_worked_case_is_read(case):
    document = yaml.safe_load(case.read_text(encoding="utf-8"))["snapshot"]
    snapshot, state = load_snapshot(yaml.safe_dump(document), case.name)
    assert snapshot.node.cpus == document["node"]["cpus"]
    assert [pod.name for pod in snapshot.pods] == [pod["name"] for pod in document.get("pods", ())]
    assert [burst.pod for burst in state.bursts] == [burst["pod"] for burst in document.get("state", {}).get("bursts", ())]


def test_there_are_worked_cases():
    assert len(CASES) == 47


def test_required_values():
    assert problems("pods: [{namespace: x}]\n") == [
        "n.yaml:1: node: is required: a mapping",
        "n.yaml:1: pods[0].name: is required: a text",
        "n.yaml:1: pods[0].qos: is required: one of LSE, LSR, LS, BE, SYSTEM",
    ]
    assert problems("node: {load1: 1}\n") == [
        "n.yaml:1: node.cpus: is required: cores (2, 0.5 or 500m) above 0, at most 65536",
        "n.yaml:1: node.cpu_usage: is required: cores (2, 0.5 or 500m), 0 or more",
    ]
    assert len(problems("")) == 1


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        ("cpus: 0, cpu_usage: 1", "node.cpus: 0 is not allowed; cores (2, 0.5 or 500m) above 0, at most 65536"),
        ("cpus: 4, cpu_usage: -1", "node.cpu_usage: -1 is not allowed; cores (2, 0.5 or 500m), 0 or more"),
        ("cpus: 4, cpu_usage: 1, iowait: 101", "node.iowait: 101 is not allowed; a number from 0 to 100"),
        ("cpus: 4, cpu_usage: 1, io_psi_some: -1", "node.io_psi_some: -1 is not allowed; a number from 0 to 100"),
        ("cpus: 4, cpu_usage: 1, cpu_trend: .inf", "node.cpu_trend: .inf is not allowed; a number"),
        (
            "cpus: 4, cpu_usage: 1, memory_total: 1Ki, memory_available: 2Ki",
            "node.memory_available: 2048 is not allowed; at most memory_total, 1024",
        ),
        ("cpus: 4, cpu_usage: 1, swap_total: 1Ki, swap_used: 1025", "node.swap_used: 1025 is not allowed; at most swap_total, 1024"),
    ],
)
def test_a_node_that_cannot_be(node, problem):
    assert problems(f"node: {{{node}}}\n") == [f"n.yaml:1: {problem}"]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ("cpu: {throttled: 1.1}", "cpu.throttled: 1.1 is not allowed; a number from 0 to 1"),
        ("cpu: {limit: 0}", "cpu.limit: 0 is not allowed; cores (2, 0.5 or 500m) above 0"),
        ("memory: {rss: -1}", "memory.rss: -1 is not allowed; bytes (2Gi, 500Mi, 1G or a whole number), 0 or more"),
        (
            "latency: {p99: 150}",
            "latency.p99: 150 is not allowed; a duration (500ms, 1s, 5m, 1h), 0s or more (a duration needs its unit: 150s or 150ms?)",
        ),
        ("latency: {slo: 0ms}", "latency.slo: 0ms is not allowed; a duration (500ms, 1s, 5m, 1h) above 0s"),
        ("created: 2026-11-11", "created: 2026-11-11 is not allowed; a time (2026-11-11T20:00:16Z, or an offset such as +01:00)"),
    ],
)
def test_a_pod_that_cannot_be(fields, problem):
    assert problems(with_pod(fields)) == [f"n.yaml:3: pods[0].{problem}"]


@pytest.mark.parametrize("name", ['""', '"a/b"', '"a b"', '"a\\tb"', "x" * 254])
def test_a_name_that_is_none(name):
    (problem,) = problems(f"node: {{cpus: 4, cpu_usage: 1}}\npods: [{{name: {name}, qos: LS}}]\n")
    assert problem.startswith("n.yaml:2: pods[0].name: ")
    assert problem.endswith("is not allowed; 1 to 253 printable characters without a space or a slash")


def test_a_namespace_holds_a_name_once():
    text = "node: {cpus: 4, cpu_usage: 1}\npods:\n- {name: a, qos: LS}\n- {name: a, namespace: x, qos: LS}\n- {name: a, qos: BE}\n"
    assert problems(text) == ["n.yaml:5: pods[2].name: default/a was already given in line 3"]


def test_a_burst_only_raises_but_its_pod_may_be_gone():
    text = "node: {cpus: 4, cpu_usage: 1}\nstate:\n  bursts:\n  - {pod: a/gone, base_limit: 2, limit: %s}\n"
    assert load_snapshot(text % 2, "n.yaml")[1].bursts[0].pod == "a/gone"
    assert problems(text % 1.9) == [
        "n.yaml:4: state.bursts[0].limit: 1.9 is not allowed; at least base_limit, 2: a burst only raises",
    ]


def test_a_state_names_plugins_and_pods_as_they_are():
    text = "node: {cpus: 4, cpu_usage: 1}\nstate:\n  cooldown_until: {CpuEvict: null}\n  burst_cooldown_until: {cart: null}\n"
    assert problems(text) == [
        "n.yaml:3: state.cooldown_until.CpuEvict: unknown key (did you mean CPUEvict?)",
        "n.yaml:4: state.burst_cooldown_until.cart: cart is not allowed; a pod is written namespace/name",
    ]


# --- the answer of a running agent ------------------------------------------------------------------------------------------------


def test_what_an_agent_answers_at_snapshot_is_read_as_it_decided_on_it():
    service = Pod(
        name="api",
        namespace="shop",
        qos=QoS.LS,
        priority=9000,
        created=1794427000.25,
        cpu=PodCpu(request=0.2, limit=0.3, usage=0.12890625),
        memory=PodMemory(rss=393216, growth=0.0),
        latency=PodLatency(p99=0.0625, slo=0.05, median=1e-05),
    )
    read = Snapshot(
        node=Node(cpus=2.5, cpu_usage=0.5, topology=(CpuId(cpu=0, core=0, socket=0, numa=0),)),
        pods=(service,),
        be_cpus=(0, 1),
        be_shielded=True,
        be_memory=4096,
        time=34216.65,
        node_age=0.001,
        pods_age=2.5,
        paused=True,
        missing={"node.load1": "belongs to the whole machine", "pods.shop/api.memory.request": "none declared"},
        forecasts=(Forecast("shop/api", ("shop/api",), 0.5, 0.25),),
        attributions=(Attribution("shop/api", (), "nobody waits"),),
    )
    answer = msgspec.json.encode({"cycle": 321, "wall": 1796009172.05, "snapshot": read}).decode()
    found, state = load_snapshot(answer, "answer.json")
    assert msgspec.structs.replace(found, missing=read.missing) == read
    assert found.missing["node.load1"] == "belongs to the whole machine"
    assert found.missing["node.iowait"] == "not in the document"
    assert state == State()


def test_an_answer_is_held_to_the_same_bounds():
    text = '{"cycle": 1, "wall": 2.5, "snapshot": {"node": {"cpus": 0, "cpu_usage": -1}, "node_age": -2, "podz": []}}'
    with pytest.raises(DocumentError) as caught:
        load_snapshot(text, "a.json")
    said = [str(problem) for problem in caught.value.problems]
    assert [line.split(": ")[1] for line in said] == ["snapshot.podz", "snapshot.node.cpus", "snapshot.node.cpu_usage", "snapshot.node_age"]
