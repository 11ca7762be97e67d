"""What is read less when the agent spares the node, and what never is."""

from __future__ import annotations

import pytest

from measuring import Bench, rule
from qosmanager.model.own_use import STEPS
from qosmanager.model.qos import QoS


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path, (rule("api", "shop/api", QoS.LS, cpu_request=1.0),), "v2")
    made.kernel.add("shop/api")
    return made


def looks(bench: Bench, steps: int, seconds: int = 60) -> dict[str, int]:
    """Count in how many of so many seconds a reading was another one than before, while each counter rises each second."""
    bench.sampler.spare(steps)
    changed = dict.fromkeys(("usage", "rss", "io", "psi"), 0)
    before: dict[str, object] = {}
    for second in range(seconds):
        bench.clock.advance(1.0)
        rising = 1_000_000 * (second + 1) * (second + 2)
        put(bench, "cpu_stat", f"usage_usec {rising}\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0")
        put(bench, "memory_stat", f"anon {rising}\nshmem 0")
        put(bench, "io_stat", f"8:0 rbytes={rising * second} wbytes=0")
        put(bench, "memory_pressure", stall(second))
        put(bench, "io_pressure", stall(second))
        pod = bench.pod("api")
        now = {"usage": pod.cpu.usage, "rss": pod.memory.rss, "io": pod.observed.io_read, "psi": pod.observed.memory_psi_full}
        for name, value in now.items():
            changed[name] += value != before.get(name, value)
        before = now
    return changed


def put(bench: Bench, name: str, text: str) -> None:
    bench.kernel._put_by_name("shop/api", name, text)


def stall(second: int) -> str:
    line = f"avg10={second % 100}.00 avg60=0.00 avg300=0.00 total={second}"
    return f"some {line}\nfull {line}"


def test_all_is_read_at_its_own_pace(bench):
    found = looks(bench, 0)
    assert found["usage"] >= 57
    assert 10 <= found["rss"] <= 12
    assert 4 <= found["io"] <= 6
    assert 4 <= found["psi"] <= 6


def test_first_what_is_only_shown_is_read_half_as_often(bench):
    looks(bench, 0)
    found = looks(bench, 1)
    assert 2 <= found["io"] <= 3
    assert 2 <= found["psi"] <= 3
    assert found["usage"] >= 57
    assert found["rss"] >= 10


def test_then_not_at_all_with_the_reason(bench):
    looks(bench, 0)
    looks(bench, 2, 30)
    snapshot, _ = bench.sampler.sample()
    assert snapshot.pods[0].observed.io_read is None
    assert "over its own budget" in snapshot.missing["pods.default/api.observed.io_read"]
    found = looks(bench, 2)
    assert found["io"] == found["psi"] == 0
    assert found["rss"] >= 10


def test_then_memory_half_as_often_and_cpu_never_less(bench):
    looks(bench, 0)
    found = looks(bench, 3)
    assert 5 <= found["rss"] <= 7
    assert found["usage"] >= 57
    assert len(STEPS) == 3


def test_coming_back_all_is_read_again(bench):
    looks(bench, 2)
    looks(bench, 0, 40)
    assert looks(bench, 0)["io"] >= 4
    snapshot, _ = bench.sampler.sample()
    assert "pods.default/api.observed.memory_psi_full" not in snapshot.missing
