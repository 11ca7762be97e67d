"""Policy cpuset where no cpuset can be written, over the whole cycle: the quota holds BE all the time (specification, section 5.4)."""

import pytest

from acting import Bench
from builders import NOW, be, ls, snapshot
from qosmanager.config.settings import CpuSuppressSettings, Policy, Settings
from qosmanager.engine.step import step
from qosmanager.model.state import State
from qosmanager.verify import observe, settle

CPUSET = Settings(cpu_suppress=CpuSuppressSettings(policy=Policy.CPUSET))


class Loop:
    """The pure engine over an executor on a fake kernel, one second a cycle."""

    def __init__(self, path):
        self.bench = Bench(path)
        self.bench.tree.add("be")
        self.state = State()
        self.now = NOW

    def cycle(self, request):
        self.now += 1.0
        reading = snapshot(ls(request=request, usage=0.0), be(usage=1.0), cpus=4.0, cpu_usage=1.0, time=self.now)
        seen, _ = observe(self.state, reading)
        planned, _, plan = step(seen, reading, CPUSET)
        receipts = self.bench.executor.apply(plan, self.bench.placement, reading, self.now)
        self.state, _ = settle(seen, planned, plan, receipts, reading)

    def held(self):
        return self.bench.tree.text("be", "cpu.cfs_quota_us"), self.bench.tree.text("be", "cpuset.cpus")


@pytest.fixture
def loop(tmp_path):
    return Loop(tmp_path)


def test_kubelets_static_policy_leaves_batch_to_the_quota_for_good(loop):
    loop.bench.kubelet_cpusets = "be"
    for _ in range(2):
        loop.cycle(request=2.0)
    assert loop.held() == ("200000", "0-3")
    for _ in range(130):
        loop.cycle(request=2.0)
        assert loop.held() == ("200000", "0-3"), "also in the cycles that try CPUs again"
    loop.cycle(request=3.0)
    assert loop.held() == ("100000", "0-3")


def test_when_cpus_can_be_set_again_they_take_over_from_the_quota(loop):
    loop.bench.kubelet_cpusets = "be"
    for _ in range(3):
        loop.cycle(request=2.0)
    loop.bench.kubelet_cpusets = None
    for _ in range(62):
        loop.cycle(request=2.0)
        assert loop.held() in (("200000", "0-3"), ("-1", "0-1"))
    assert loop.held() == ("-1", "0-1")
    assert (loop.state.be_cpus, loop.state.cpuset_refused) == ("0-1", None)


@pytest.mark.parametrize("kubelet", ["kubelet_cpusets", "kubelet_may_write"])
def test_batch_that_loses_its_cpus_to_kubelet_is_held_by_the_quota_from_the_next_cycle_on(loop, kubelet):
    for _ in range(3):
        loop.cycle(request=2.0)
    assert loop.held() == ("-1", "0-1")
    setattr(loop.bench, kubelet, "be")
    loop.cycle(request=2.0)
    assert loop.held() == ("-1", "0-3")
    assert (loop.state.be_cpus, loop.state.cpuset_refused) == ("0-1", loop.now)
    loop.cycle(request=2.0)
    assert loop.held() == ("200000", "0-3")
    assert (loop.state.be_limit, loop.state.be_cpus) == (2.0, None)
