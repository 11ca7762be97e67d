"""Random nodes, pods, states and settings for the property tests: anything that could be measured, configured or remembered."""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec.structs import replace

from qosmanager.config.settings import (
    CpuBurstSettings,
    CpuEvictSettings,
    CpuSuppressSettings,
    Hysteresis,
    MemoryEvictSettings,
    Policy,
    Settings,
    Smoothing,
    Strategy,
    SuppressRatio,
    SystemReserved,
    Thresholds,
    Trigger,
    VictimOrder,
)
from qosmanager.model.qos import Level, Mode, Plugin, QoS
from qosmanager.model.snapshot import Node, Pod, PodCpu, PodLatency, PodMemory, Snapshot
from qosmanager.model.state import Burst, Moment, Objective, Pending, State

GIB = 1 << 30
NOW = 10_000.0
CPUS = st.sampled_from([1.0, 2.0, 4.0, 7.5, 16.0, 64.0, 256.0])


def cores(most: float) -> st.SearchStrategy[float]:
    return st.floats(0, most, allow_nan=False).map(lambda value: round(value, 4))


def maybe(strategy):
    return st.none() | strategy


@st.composite
def pods(draw, number: int, cpus: float):
    qos = draw(st.sampled_from(list(QoS)))
    limit = draw(maybe(st.floats(0.05, cpus)))
    usage = draw(maybe(cores(cpus if limit is None else limit * 1.05)))
    slo = draw(maybe(st.floats(0.01, 1)))
    return Pod(
        name=f"p{number}",
        namespace=draw(st.sampled_from(["shop", "batch"])),
        qos=qos,
        priority=draw(st.integers(-5, 9999)),
        created=draw(maybe(st.floats(0, NOW))),
        critical=draw(st.booleans()),
        terminating=draw(st.sampled_from([False, False, False, True])),
        owner=draw(st.sampled_from([None, "Deployment", "DaemonSet", "Node"])),
        labelled=draw(st.sampled_from([True, True, False])),
        exclusive_cpus=draw(st.sampled_from([(), (0,)])) if qos is QoS.LSE else (),
        cpu=PodCpu(
            request=draw(maybe(cores(cpus))),
            limit=limit,
            usage=usage,
            usage_mean=draw(maybe(cores(cpus))),
            wait=draw(maybe(cores(4))),
            throttled=draw(maybe(st.floats(0, 1))),
        ),
        memory=PodMemory(
            request=draw(maybe(st.integers(0, 8 * GIB))),
            rss=draw(maybe(st.integers(0, 8 * GIB))),
            growth=draw(maybe(st.floats(0, 50_000_000))),
        ),
        latency=PodLatency(
            p99=draw(maybe(st.floats(0.001, 2))) if slo else None,
            slo=slo,
            trend=draw(maybe(st.floats(-50, 50))),
            median=draw(maybe(st.floats(0.001, 2))),
        ),
    )


@st.composite
def snapshots(draw, with_time: bool = True):
    cpus = draw(CPUS)
    total = draw(st.sampled_from([1, 8, 64, 512])) * GIB
    some = tuple(draw(pods(number, cpus)) for number in range(draw(st.integers(0, 6))))
    percent = st.floats(0, 100)
    node = Node(
        cpus=cpus,
        cpu_usage=draw(cores(cpus)),
        system_reserved=draw(cores(cpus / 4)),
        cpu_trend=draw(maybe(st.floats(0, 10))),
        load1=draw(maybe(st.floats(0, 4 * cpus))),
        memory_total=total,
        memory_available=draw(maybe(st.integers(0, total))),
        memory_available_trend=draw(maybe(st.floats(-1e9, 1e9))),
        swap_total=draw(st.sampled_from([None, 0, GIB])),
        swap_used=draw(maybe(st.integers(0, GIB))),
        pgscan_direct=draw(maybe(st.floats(0, 1e5))),
        pgscan_kswapd=draw(maybe(st.floats(0, 1e5))),
        memory_psi_full=draw(maybe(percent)),
        io_psi_some=draw(maybe(percent)),
        iowait=draw(maybe(percent)),
        disk_util=draw(maybe(percent)),
        net_util=draw(maybe(percent)),
        ls_memory_growth=draw(maybe(st.floats(0, 50))),
    )
    allowed = draw(st.sampled_from([(), (), (0,), (900,)]))
    return Snapshot(node=node, pods=some, be_cpus=allowed, be_shielded=draw(st.booleans()), time=NOW if with_time else None)


@st.composite
def states(draw, snapshot: Snapshot):
    moment = maybe(st.floats(NOW - 200, NOW))
    later = maybe(st.floats(NOW - 50, NOW + 100))
    bursting = [pod for pod in snapshot.pods if pod.cpu.limit and pod.qos in (QoS.LS, QoS.LSR) and draw(st.booleans())]
    victims = [pod for pod in snapshot.pods if pod.qos is QoS.BE and draw(st.sampled_from([False, False, True]))]
    past = draw(st.lists(st.tuples(st.floats(0.1, 4.9), st.floats(0, 100)), max_size=4))
    return State(
        time=draw(st.sampled_from([None, NOW - 1, NOW - 0.1, NOW - 7200])),
        be_limit=draw(maybe(st.floats(0.1, snapshot.node.cpus))),
        be_cpus=draw(st.sampled_from([None, None, "0", "0-1"])),
        cpuset_refused=draw(moment),
        be_observed=draw(st.booleans()),
        suppress_level=draw(maybe(st.sampled_from(list(Level)))),
        suppress_since=draw(moment),
        below_since=draw(moment),
        memory_short=draw(st.booleans()),
        cooldown_until={"CPUEvict": draw(later)},
        burst_cooldown_until={pod.key: draw(later) for pod in snapshot.pods if draw(st.booleans())},
        bursts=tuple(
            Burst(
                pod=pod.key,
                base_limit=pod.cpu.limit,
                limit=pod.cpu.limit * draw(st.floats(1, 2)),
                started=draw(moment),
                calm_since=draw(moment),
                observed=draw(st.booleans()),
            )
            for pod in bursting
        ),
        recent=tuple(Moment(time=NOW - age, cpu_score=score) for age, score in sorted(past, reverse=True)),
        system_usage=draw(maybe(cores(snapshot.node.cpus))),
        score_above_since=draw(moment),
        evict_rounds=draw(st.integers(0, 3)),
        pending=tuple(Pending(pod=pod.key, since=NOW - 1) for pod in victims),
        unfit_since={pod.key: NOW - 20 for pod in snapshot.pods if draw(st.sampled_from([False, False, True]))},
        victim_ended=draw(moment),
        last_move=draw(st.sampled_from([-1, 0, 1])),
        objective=draw(objectives(snapshot)),
    )


@st.composite
def objectives(draw, snapshot: Snapshot):
    moment = maybe(st.floats(NOW - 200, NOW))
    return Objective(
        calm={pod.key: draw(st.floats(0, 0.25)) for pod in snapshot.pods if draw(st.booleans())},
        wanted=draw(maybe(cores(snapshot.node.cpus))),
        margin=draw(maybe(cores(snapshot.node.cpus / 4))),
        suffering_since=draw(moment),
        fell=draw(moment),
        ceiling=draw(maybe(st.floats(0.1, snapshot.node.cpus))),
        severity=draw(maybe(st.floats(0, 5))),
        relapses=draw(st.floats(0, 5)),
        futile=draw(st.integers(0, 20)),
        borne_until=draw(maybe(st.floats(NOW - 50, NOW + 100))),
        borne=draw(st.floats(0, 5)),
    )


@st.composite
def settings(draw):
    mode = st.sampled_from([Mode.ENFORCE, Mode.ENFORCE, Mode.OBSERVE, Mode.OFF])
    bounds = sorted(draw(st.lists(st.integers(1, 100), min_size=4, max_size=4, unique=True)))
    ratios = sorted(draw(st.lists(st.floats(0, 1), min_size=5, max_size=5)), reverse=True)
    wanted = Settings(
        cpu_pressure=Thresholds(low=bounds[0], medium=bounds[1], high=bounds[2], critical=bounds[3]),
        hysteresis=Hysteresis(margin=draw(st.sampled_from([0.0, 3.0, 20.0])), hold=draw(st.sampled_from([0.0, 3.0]))),
        smoothing=Smoothing(window=draw(st.sampled_from([0.0, 0.0, 300.0]))),
        evict_unlabelled=draw(st.booleans()),
        system_reserved=SystemReserved(cpu=draw(st.sampled_from([0.0, 1.0]))),
        cpu_burst=CpuBurstSettings(mode=draw(mode), min_node_cpu_idle=draw(st.sampled_from([0.0, 0.1, 0.2]))),
        cpu_suppress=CpuSuppressSettings(
            mode=draw(mode),
            suppress_ratio=SuppressRatio(low=ratios[0], medium=ratios[1], high=ratios[2], critical=ratios[3], emergency=ratios[4]),
            strategy=draw(st.sampled_from(list(Strategy))),
            policy=draw(st.sampled_from(list(Policy))),
        ),
        cpu_evict=CpuEvictSettings(mode=draw(mode), trigger=draw(st.sampled_from(list(Trigger)))),
        memory_evict=MemoryEvictSettings(mode=draw(mode), order=draw(st.sampled_from(list(VictimOrder)))),
    )
    left_out = draw(st.sampled_from([None, None, None, *Plugin]))
    return replace(wanted, plugins=tuple(plugin for plugin in Plugin if plugin is not left_out))


@st.composite
def worlds(draw):
    """Return (state, snapshot, settings)."""
    snapshot = draw(snapshots())
    return draw(states(snapshot)), snapshot, draw(settings())
