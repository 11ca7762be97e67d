"""Random small nodes through the simulator: whatever the load, the promises of the agent hold."""

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from qosmanager.config.settings import CpuSuppressSettings, Settings, Strategy
from qosmanager.model.actions import Evict, RestoreCpuLimit, SetCpuLimit
from qosmanager.simulate.run import managed
from simulated import scenario, without_agent

# No shrinking: a simulation takes too long to be made smaller a thousand times.
BOUNDED = settings(max_examples=15, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
SURGE_BEGINS, SURGE_ENDS = 10, 20  # seconds
# Longer than the minute after a fall before which a limit does not rise.
DURATION = 150


@st.composite
def nodes(draw):
    """A node with a surge of its services that ends, and what runs beside them."""
    cpus = draw(st.sampled_from([2, 4, 8, 16]))
    amount = st.floats(0.05, cpus * 0.4).map(lambda value: round(value, 2))
    workloads = []
    for number in range(draw(st.integers(1, 3))):
        qos = draw(st.sampled_from(["LS", "LS", "LSR", "SYSTEM"]))
        calm, surge = draw(amount) / 4, draw(amount)
        steps = f"steps: [{{at: 0s, value: {calm}}}, {{at: {SURGE_BEGINS}s, value: {surge}}}, {{at: {SURGE_ENDS}s, value: {calm}}}]"
        noise = draw(st.sampled_from([0, 0.02, 0.2]))
        queue = "" if qos == "SYSTEM" or draw(st.booleans()) else f", slo: {{p99: 50ms}}, service: {{time: {draw(st.integers(1, 20))}ms}}"
        limit = draw(st.sampled_from(["", f", limits: {{cpu: {max(surge, 0.2) * 0.8:.2f}}}"]))
        request = "" if limit or qos == "SYSTEM" else f", requests: {{cpu: {draw(amount) / 2:.2f}, memory: 1Gi}}"
        workloads.append(f"name: s{number}, qos: {qos}, cpu: {{{steps}, noise: {noise}}}{queue}{limit}{request}")
    for number in range(draw(st.integers(1, 3))):
        memory = draw(st.sampled_from(["start: 1Gi", "start: 6Gi", "start: 2Gi, growth: 200Gi"]))
        extra = draw(st.sampled_from(["", ", critical: true", ", ending: 20s", ", comes_back: 5s"]))
        workloads.append(
            f"name: b{number}, qos: BE, count: {draw(st.integers(1, 4))}, cpu: {{constant: {draw(amount)}}}, memory: {{{memory}}}{extra}"
        )
    layout = draw(st.sampled_from(["plain", "kubernetes"]))
    return scenario(*workloads, node=f"{{cpus: {cpus}, memory: 16Gi, system_cpu: 0.05, layout: {layout}}}", duration=f"{DURATION}s")


strategies = st.sampled_from(list(Strategy)).map(lambda each: Settings(cpu_suppress=CpuSuppressSettings(strategy=each)))


@BOUNDED
@given(loaded=nodes(), chosen=strategies, seed=st.integers(0, 9))
def test_services_are_never_evicted_or_lowered_and_the_node_hands_out_no_more_than_it_has(loaded, chosen, seed):
    batch = {f"{spec.namespace}/{spec.name}" for spec in loaded.scenario.workloads if spec.qos.value == "BE" and not spec.critical}
    cpus = loaded.scenario.node.cpus
    for cycle in managed(loaded, chosen, seed):
        own = {pod.key: pod.cpu.limit for pod in cycle.record.snapshot.pods}
        for action in cycle.record.plan.actions:
            if isinstance(action, Evict):
                assert action.pod in batch or action.pod.rpartition("-")[0] in batch
            elif isinstance(action, SetCpuLimit | RestoreCpuLimit):
                assert own[action.pod] is None or action.cores >= own[action.pod]
        assert cycle.record.plan.failures == ()
        truth = cycle.truth
        assert truth.node_cpu <= cpus + 1e-6
        assert truth.ls_cpu >= -1e-6
        assert truth.ls_cpu + truth.be_cpu <= truth.node_cpu + 1e-6
        assert truth.be_limit is None or truth.be_cpu <= cpus


def allowance(record):
    """What BE may have at the level it is held at: section 5.4, worked out anew from the record."""
    resources, state = record.plan.resources, record.state
    granted = {burst.pod: burst.limit for burst in state.bursts}
    services = [pod for pod in record.snapshot.pods if pod.qos.value in ("LS", "LSR", "LSE")]
    ratio = Settings().cpu_suppress.suppress_ratio.of(record.plan.level)
    claim = sum(max(pod.cpu.request or 0.0, granted.get(pod.key, 0.0)) for pod in services)
    recent = [moment for moment in state.recent if record.snapshot.time - moment.time < 3]
    demand = sum(max(granted.get(pod.key, 0.0), *(moment.demand.get(pod.key, 0.0) for moment in recent)) for pod in services)
    return max(0.1, min((resources.node_available - claim) * ratio, resources.node_available - demand))


@BOUNDED
@given(loaded=nodes(), seed=st.integers(0, 9))
def test_after_a_surge_batch_gets_back_what_its_level_allows(loaded, seed):
    # What it allowed at the least within a minute: after a fall the limit rests as long. A rise of less than 2 percent is none.
    cycles = list(managed(loaded, Settings(), seed))
    least = min(allowance(cycle.record) for cycle in cycles[-62:])
    assert cycles[-1].truth.be_limit >= least - 0.021 * loaded.scenario.node.cpus


@settings(BOUNDED, max_examples=5)
@given(loaded=nodes(), seed=st.integers(0, 9))
def test_without_the_agent_the_same_seed_is_the_same_run(loaded, seed):
    assert without_agent(loaded, seed) == without_agent(loaded, seed)
