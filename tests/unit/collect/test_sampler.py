import json
import os
from pathlib import Path

import msgspec
import pytest

from measuring import WALL, Bench, rule
from qosmanager.collect.sampler import NodeUnreadableError
from qosmanager.linux.procfs import TICK
from qosmanager.model.qos import QoS
from qosmanager.model.snapshot import PodLatency, Snapshot
from qosmanager.model.workload import CgroupFile, LatencySource
from qosmanager.ports import Earlier

SOURCE = LatencySource("http://127.0.0.1:1/metrics", "h")
API = rule("api", "web/api", cpu_request=1.0, cpu_limit=2.0, slo_p99=0.1, latency=SOURCE)
JOB = rule("job", "batch/*", QoS.BE)


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path, (API, JOB))
    made.kernel.add("web/api", cpu_cfs_quota_us="200000")
    made.kernel.add("batch/a")
    return made


def use(bench, group, nanoseconds):
    file = CgroupFile("cpuacct", group, "cpuacct.usage")
    bench.kernel.put(file, str(int(bench.kernel.files.read(file)) + nanoseconds))


def step(bench, seconds=1.0, api=0, job=0):
    """Let time pass while the pods use so many nanoseconds of CPU."""
    bench.clock.advance(seconds)
    use(bench, "web/api", api)
    use(bench, "batch/a", job)
    return bench.sampler.sample()[0]


def of(snapshot, name):
    return next(pod for pod in snapshot.pods if pod.name == name)


def hold(bench, group, rss):
    bench.kernel.put(CgroupFile("memory", group, "memory.stat"), f"total_rss {rss}\ntotal_shmem 0\ntotal_swap 0")


def test_the_first_cycle_has_no_rates_and_says_so(bench):
    snapshot, _ = bench.sampler.sample()
    assert snapshot.time == 1000.0
    assert snapshot.node.cpu_usage is None
    assert of(snapshot, "api").cpu.usage is None
    assert snapshot.missing["pods.default/api.cpu.usage"] == "a rate needs two samples"
    assert snapshot.node.cpu_trend == 0.0
    assert snapshot.node_age == 0.0


def test_usage_in_cores_over_real_elapsed_time(bench):
    bench.sampler.sample()
    snapshot = step(bench, 1.6, api=800_000_000, job=2_400_000_000)
    assert of(snapshot, "api").cpu.usage == pytest.approx(0.5)
    assert of(snapshot, "job-a").cpu.usage == pytest.approx(1.5)
    assert "pods.default/api.cpu.usage" not in snapshot.missing


def test_in_short_cycles_a_rate_is_that_of_half_a_second(bench):
    bench.sampler.sample()
    step(bench, 1.0, api=500_000_000)
    # 0.1 s at 2 cores after a second at a half: over that second and this tenth, for 0.1 s alone says nothing of a pod.
    assert of(step(bench, 0.1, api=200_000_000), "api").cpu.usage == pytest.approx(0.7 / 1.1)
    # The next one begins at the end of the first second.
    assert of(step(bench, 0.4, api=100_000_000), "api").cpu.usage == pytest.approx(0.3 / 0.5)


def test_the_pod_that_hurries_a_cycle_is_measured_since_a_moment_ago(bench):
    bench.sampler.sample()
    step(bench, 1.0, api=500_000_000, job=1_000_000_000)
    # Read between two cycles, 0.1 s before the next one: 0.9 s at half a core, then a tenth at 2.
    bench.clock.advance(0.9)
    use(bench, "web/api", 450_000_000)
    bench.clock.advance(0.1)
    bench.sampler.hurry({"default/api": Earlier(0.1, 0.95, 0.0)})
    snapshot = step(bench, 0.0, api=200_000_000, job=1_000_000_000)
    assert of(snapshot, "api").cpu.usage == pytest.approx(2.0)
    assert of(snapshot, "job-a").cpu.usage == pytest.approx(1.0), "the others as ever"
    assert of(step(bench, 1.0, api=500_000_000), "api").cpu.usage == pytest.approx(0.5), "and only once"


def test_what_was_read_before_a_reset_is_no_beginning(bench):
    bench.sampler.sample()
    step(bench, 1.0, api=500_000_000)
    bench.sampler.hurry({"default/api": Earlier(0.1, 0.2, 0.0)})
    # The counter stood at 0.5 already: 0.2 is that of another group.
    assert of(step(bench, 1.0, api=400_000_000), "api").cpu.usage == pytest.approx(0.4)


@pytest.mark.parametrize("jumped", [{"default/api": Earlier(0.1, 0.5, 0.0)}, {}], ids=["a service", "memory"])
def test_a_cycle_that_came_early_is_no_part_of_the_history(bench, jumped):
    bench.sampler.sample()
    step(bench, 1.0, api=500_000_000)
    bench.clock.advance(0.4)
    bench.sampler.hurry(jumped)
    step(bench, 0.0, api=800_000_000)
    step(bench, 0.6, api=300_000_000)
    # 0.5 of the first second, and the half second after the early cycle: the 2 cores of that one are left out.
    assert bench.sampler.cache.pod("default/api").usage.mean(0.0) == pytest.approx(0.5)


def test_every_none_has_a_reason(bench):
    for snapshot in (bench.sampler.sample()[0], step(bench), step(bench, 30.0)):
        names = {f"node.{name}" for name in snapshot.node.__struct_fields__ if getattr(snapshot.node, name) is None}
        for pod in snapshot.pods:
            for part in ("cpu", "memory", "latency", "observed"):
                fields = getattr(pod, part)
                names |= {f"pods.{pod.key}.{part}.{name}" for name in fields.__struct_fields__ if getattr(fields, name) is None}
        assert names - snapshot.missing.keys() == set()
        # and no reason for what is measured
        assert snapshot.missing.keys() - names == set()


def test_a_counter_that_falls_gives_no_rate_for_that_cycle(bench):
    bench.sampler.sample()
    step(bench, api=5_000_000_000)
    bench.kernel.put(CgroupFile("cpuacct", "web/api", "cpuacct.usage"), "7")
    snapshot = step(bench)
    assert of(snapshot, "api").cpu.usage is None
    assert snapshot.missing["pods.default/api.cpu.usage"] == "the counter began anew"
    assert of(step(bench, api=250_000_000), "api").cpu.usage == pytest.approx(0.25)


def test_a_hole_of_two_hours_is_a_gap(bench):
    bench.sampler.sample()
    step(bench, api=1_000_000_000)
    snapshot = step(bench, 7200.0, api=1_000_000_000_000)
    assert of(snapshot, "api").cpu.usage is None
    assert of(snapshot, "api").cpu.usage_mean is None
    assert snapshot.node.cpu_usage is None
    assert "gap" in snapshot.missing["pods.default/api.cpu.usage"]


def test_a_slow_cycle_is_no_gap(bench):
    bench.sampler.sample()
    assert of(step(bench, 8.0, api=8_000_000_000), "api").cpu.usage == pytest.approx(1.0)


def test_a_pod_that_cannot_be_read_is_not_zero(bench):
    bench.sampler.sample()
    (bench.kernel.root / "cpuacct/web/api/cpuacct.usage").write_text("")
    snapshot = step_without_use(bench)
    assert of(snapshot, "api").cpu.usage is None
    assert of(snapshot, "job-a").cpu.usage == 0.0
    assert "invalid literal" in snapshot.missing["pods.default/api.cpu.usage"]


def step_without_use(bench, seconds=1.0):
    bench.clock.advance(seconds)
    return bench.sampler.sample()[0]


def test_the_mean_is_that_of_five_minutes(bench):
    bench.sampler.sample()
    for _ in range(10):
        step(bench, api=1_000_000_000)
    for _ in range(10):
        step(bench)
    for _ in range(10):
        snapshot = step(bench)
    # looked at every ten seconds: 10 busy samples of 20 to 30
    assert 10 / 30 <= of(snapshot, "api").cpu.usage_mean <= 10 / 20


def test_the_throttled_ratio(bench):
    bench.sampler.sample()
    bench.kernel.put(CgroupFile("cpu", "web/api", "cpu.stat"), "nr_periods 10\nnr_throttled 3\nthrottled_time 1")
    snapshot = step(bench)
    assert of(snapshot, "api").cpu.throttled == pytest.approx(0.3)
    assert of(snapshot, "job-a").cpu.throttled == 0.0


class TestWait:
    def stall(self, bench, microseconds):
        bench.kernel.put(CgroupFile("unified", "web/api", "cgroup.events"), "populated 1\nfrozen 0")
        text = f"some avg10=40.00 avg60=0.00 avg300=0.00 total={microseconds}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0"
        bench.kernel.put(CgroupFile("unified", "web/api", "cpu.pressure"), text)

    def test_it_is_the_stall_rate_of_the_pods_own_group_times_its_usage(self, tmp_path):
        bench = Bench(tmp_path, (API, JOB), "hybrid")
        bench.kernel.add("web/api")
        bench.kernel.add("batch/a")
        self.stall(bench, 1_000_000)
        bench.sampler.sample()
        self.stall(bench, 1_400_000)
        cpu = of(step(bench, 2.0, api=3_000_000_000), "api").cpu
        assert cpu.usage == pytest.approx(1.5)
        assert cpu.wait == pytest.approx(0.2 * 1.5)

    def test_it_is_unknown_without_such_a_group(self, bench):
        bench.sampler.sample()
        snapshot = step(bench, api=1_000_000_000)
        assert of(snapshot, "api").cpu.wait is None
        assert "cpu.pressure" in snapshot.missing["pods.default/api.cpu.wait"]


class TestLimit:
    def test_the_kernels(self, bench):
        assert of(bench.sampler.sample()[0], "api").cpu.limit == 2.0
        assert of(bench.sampler.sample()[0], "job-a").cpu.limit is None

    def test_a_declared_one_that_the_kernel_does_not_hold_is_none_in_fact(self, bench):
        bench.kernel.put(CgroupFile("cpu", "web/api", "cpu.cfs_quota_us"), "-1")
        snapshot, _ = bench.sampler.sample()
        assert of(snapshot, "api").cpu.limit is None
        assert "declared" in snapshot.missing["pods.default/api.cpu.limit"]

    def test_a_declared_one_is_told_exactly_where_the_kernel_rounds(self, bench):
        bench.kernel.put(CgroupFile("cpu", "web/api", "cpu.cfs_quota_us"), "199999")
        assert of(bench.sampler.sample()[0], "api").cpu.limit == 2.0

    def test_another_one_in_the_kernel_holds(self, bench):
        bench.kernel.put(CgroupFile("cpu", "web/api", "cpu.cfs_quota_us"), "300000")
        assert of(bench.sampler.sample()[0], "api").cpu.limit == 3.0

    def test_a_burst_of_ours_never_shows(self, bench):
        bench.sampler.sample()
        bench.own["web/api"] = 2.0
        bench.kernel.put(CgroupFile("cpu", "web/api", "cpu.cfs_quota_us"), "300000")
        for _ in range(25):
            assert of(step(bench), "api").cpu.limit == 2.0
        bench.kernel.put(CgroupFile("cpu", "web/api", "cpu.cfs_quota_us"), "200000")
        del bench.own["web/api"]
        assert of(step(bench), "api").cpu.limit == 2.0

    def test_a_change_by_others_right_after_a_burst_shows_at_once(self, bench):
        bench.own["web/api"] = 2.0
        bench.sampler.sample()
        bench.kernel.put(CgroupFile("cpu", "web/api", "cpu.cfs_quota_us"), "400000")
        del bench.own["web/api"]
        assert of(step(bench), "api").cpu.limit == 4.0


class TestContainers:
    UID = "a1b2c3d4-0000-4000-8000-00000000000a"
    ONE, TWO = (letter * 64 for letter in "12")

    @pytest.fixture
    def pod(self, tmp_path):
        bench = Bench(tmp_path)
        self.group = f"kubepods/burstable/pod{self.UID}"
        self.first, self.second = f"{self.group}/{self.ONE}", f"{self.group}/{self.TWO}"
        bench.kernel.add(self.first, cpu_cfs_quota_us="50000")
        bench.kernel.add(self.second, cpu_cfs_quota_us="25000")
        return bench

    def throttle(self, bench, group, periods, throttled):
        text = f"nr_periods {periods}\nnr_throttled {throttled}\nthrottled_time 0"
        bench.kernel.put(CgroupFile("cpu", group, "cpu.stat"), text)

    def test_the_most_throttled_container_speaks_for_the_pod(self, pod):
        pod.sampler.sample()
        self.throttle(pod, self.first, 10, 1)
        self.throttle(pod, self.second, 10, 4)
        pod.clock.advance(1.0)
        snapshot, placement = pod.sampler.sample()
        assert snapshot.pods[0].cpu.throttled == pytest.approx(0.4)
        assert placement.throttled == pytest.approx({self.first: 0.1, self.second: 0.4})

    def test_limits_of_all_containers_together_are_the_pods(self, pod):
        assert pod.sampler.sample()[0].pods[0].cpu.limit == pytest.approx(0.75)

    def test_a_container_without_a_limit_makes_the_pod_unlimited(self, pod):
        pod.kernel.put(CgroupFile("cpu", self.second, "cpu.cfs_quota_us"), "-1")
        assert pod.sampler.sample()[0].pods[0].cpu.limit is None

    def test_the_pods_own_limit_comes_first(self, pod):
        pod.kernel.put(CgroupFile("cpu", self.group, "cpu.cfs_quota_us"), "60000")
        assert pod.sampler.sample()[0].pods[0].cpu.limit == pytest.approx(0.6)


class TestMemory:
    def test_held_memory_is_looked_at_every_five_seconds(self, bench):
        hold(bench, "web/api", 100)
        assert of(bench.sampler.sample()[0], "api").memory.rss == 100
        hold(bench, "web/api", 300)
        for _ in range(5):
            snapshot = step(bench)
        assert of(snapshot, "api").memory.rss == 300

    def test_while_little_is_available_what_batch_holds_is_looked_at_each_time(self, bench):
        for group in ("web/api", "batch/a"):
            hold(bench, group, 100)
        step(bench)
        step(bench)
        # 15,335,424 kB without hugepages, of that 0.15: 2,300,313.6.
        for before, available, rss in ((8_000_000, 2_300_314, 100), (2_300_314, 2_300_313, 300)):
            bench.proc.change("meminfo", f"MemAvailable:    {before} kB", f"MemAvailable:    {available} kB")
            for group in ("web/api", "batch/a"):
                hold(bench, group, 300)
            snapshot = step(bench)
            assert of(snapshot, "job-a").memory.rss == rss
            assert of(snapshot, "api").memory.rss == 100, "that of services is not"

    @pytest.mark.parametrize(("steps", "rss"), [(2, 300), (3, 100)])
    def test_that_is_the_third_thing_to_be_spared(self, bench, steps, rss):
        hold(bench, "batch/a", 100)
        bench.sampler.spare(steps)
        bench.proc.change("meminfo", "MemAvailable:    8000000 kB", "MemAvailable:    1000000 kB")
        step(bench)
        step(bench)
        hold(bench, "batch/a", 300)
        assert of(step(bench), "job-a").memory.rss == rss

    def test_ls_growth_in_percent_of_it_per_minute(self, bench):
        for second in range(0, 121, 5):
            hold(bench, "web/api", 1_000_000 + 1000 * second)
            snapshot = step(bench, 5.0)
            if second == 40:
                assert snapshot.node.ls_memory_growth == 0.0
        # 60 000 bytes a minute of 1 120 000 (the pod is looked at every 5 s, so it may lag by one step)
        assert snapshot.node.ls_memory_growth == pytest.approx(60_000 / 1_120_000 * 100, rel=0.03)

    def test_a_leak_over_half_an_hour(self, bench):
        created = WALL + bench.clock.now - 3600
        for directory in ("cpu", "memory"):
            born(bench.kernel.root / directory / "web/api", created)
        for minute in range(34 * 4):
            hold(bench, "web/api", 100_000_000 + 2_000_000 * minute)
            snapshot = step(bench, 15.0)
            if minute == 25 * 4:
                assert of(snapshot, "api").memory.growth == 0.0
        assert of(snapshot, "api").memory.growth == pytest.approx(8_000_000, rel=0.01)
        assert of(snapshot, "job-a").memory.growth == 0.0


def born(path: Path, when):
    os.utime(path, (when, when))


class TestNode:
    def busy(self, bench, ticks):
        text = (bench.proc.proc / "stat").read_text()
        user = int(text.split()[1])
        bench.proc.put("stat", text.replace(f"cpu  {user} ", f"cpu  {user + ticks} ", 1))

    def test_the_trend_is_that_of_the_node_without_be(self, bench):
        bench.sampler.sample()
        second = 1 / TICK
        for number in range(130):
            # node: 1 core + BE's rising use; without BE it is level
            self.busy(bench, int(second + second * number * 0.02))
            snapshot = step(bench, job=int(1e9 * number * 0.02))
        assert snapshot.node.cpu_usage == pytest.approx(1 + 129 * 0.02, abs=0.02)
        assert snapshot.node.cpu_trend == pytest.approx(0.0, abs=0.2)

    def test_a_rise_without_be_is_a_trend(self, bench):
        bench.sampler.sample()
        for number in range(130):
            self.busy(bench, int(100 + 1 * number))
            snapshot = step(bench)
        # 0.01 cores a second of 4: 0.25 points a second
        assert snapshot.node.cpu_trend == pytest.approx(15.0, rel=0.02)

    def test_no_trend_is_learned_while_a_be_pod_is_not_measured(self, bench):
        bench.sampler.sample()
        (bench.kernel.root / "cpuacct/batch/a/cpuacct.usage").write_text("")
        for number in range(100):
            self.busy(bench, 100 + number)
            snapshot = step_without_use(bench)
        assert snapshot.node.cpu_trend == 0.0

    def test_the_net_fall_of_available_memory_over_a_minute(self, bench):
        kilobytes = 8_000_000
        for second in range(100):
            bench.proc.change("meminfo", f"MemAvailable:    {kilobytes} kB", f"MemAvailable:    {kilobytes - 100} kB")
            kilobytes -= 100
            snapshot = step(bench)
            if second < 10:
                assert snapshot.node.memory_available_trend is None
        assert snapshot.node.memory_available_trend == pytest.approx(-102400.0)

    def test_a_node_that_cannot_be_read_ages(self, bench):
        bench.sampler.sample()
        step(bench)
        bench.proc.put("stat", "")
        snapshot = step(bench)
        assert snapshot.node_age == 1.0
        assert snapshot.node.load1 == 1.25
        assert "/proc/stat" in bench.sampler.problems[0]
        assert step(bench, 2.5).node_age == 3.5

    def test_a_node_that_was_never_readable_is_an_error(self, bench):
        (bench.proc.proc / "meminfo").unlink()
        with pytest.raises(NodeUnreadableError, match="meminfo"):
            bench.sampler.sample()

    def test_the_peak_of_this_hour(self, bench):
        first, _ = bench.sampler.sample()
        assert first.missing["node.cpu_peak_24h"] == "no whole minute yet"
        for minute in range(3):
            for _ in range(12):
                snapshot = step(bench, 5.0, api=int(5e9 * (minute + 1) * 0.5))
        snapshot = step(bench, 5.0, api=int(5e9))
        # the last whole minute, 1080 to 1140: nine times 1 core, three times 1.5
        assert snapshot.node.ls_cpu_peak == pytest.approx(1.125)
        assert snapshot.node.ls_cpu_p95 == snapshot.node.ls_cpu_peak
        assert snapshot.node.cpu_peak_24h == 0.0, "the node's own counter does not move here"


class TestLatency:
    def told(self, bench, p99):
        bench.latencies.known["default/api"] = PodLatency(p99=p99)

    def test_the_p99_with_its_slo_and_habit(self, bench):
        for p99 in (0.02, 0.02, 0.02):
            self.told(bench, p99)
            snapshot = step(bench, 10.0)
        assert of(snapshot, "api").latency == PodLatency(p99=0.02, slo=0.1, trend=0.0, median=0.02)
        assert [workload.key for workload in bench.latencies.watched] == ["default/api", "default/job-a"]

    def test_the_trend_is_in_percent_of_the_slo_per_minute(self, bench):
        for second in range(80):
            self.told(bench, 0.05 + 0.0005 * second)
            snapshot = step(bench)
        # 0.03 s a minute of 0.1 s
        assert of(snapshot, "api").latency.trend == pytest.approx(30.0, rel=0.01)

    def test_the_median_forgives_a_spike(self, bench):
        for p99 in (0.02, 0.02, 0.9, 0.02, 0.02):
            self.told(bench, p99)
            snapshot = step(bench, 10.0)
        assert of(snapshot, "api").latency.median == 0.02

    def test_an_unknown_p99_is_not_the_last_one(self, bench):
        self.told(bench, 0.02)
        step(bench)
        bench.latencies.known.clear()
        latency = of(step(bench), "api").latency
        assert (latency.p99, latency.slo, latency.trend) == (None, 0.1, None)

    def test_a_p99_that_is_known_again_has_a_trend_again(self, bench):
        self.told(bench, 0.02)
        step(bench)
        bench.latencies.known.clear()
        step(bench)
        self.told(bench, 0.02)
        snapshot = step(bench)
        assert of(snapshot, "api").latency.trend == pytest.approx(0.0)
        assert "pods.default/api.latency.trend" not in snapshot.missing


def test_a_pod_that_has_ended_is_no_longer_there(bench):
    bench.kernel.add("batch/b")
    bench.sampler.sample()
    bench.kernel.remove("batch/a")
    snapshot = step_without_use(bench)
    assert [pod.name for pod in snapshot.pods] == ["api", "job-b"]
    assert len(bench.sampler.cache) == 2


def test_a_new_pod_is_measured_from_its_first_cycle_on(bench):
    bench.sampler.sample()
    bench.kernel.add("batch/b")
    snapshot = step(bench)
    assert of(snapshot, "job-b").cpu.usage is None
    assert of(step(bench), "job-b").cpu.usage == 0.0


def test_system_pods_are_measured_too(tmp_path):
    bench = Bench(tmp_path, (rule("sshd", "system/sshd", QoS.SYSTEM),))
    bench.kernel.add("system/sshd")
    bench.sampler.sample()
    bench.clock.advance(1.0)
    use(bench, "system/sshd", 100_000_000)
    pod = bench.pod("sshd")
    assert pod.qos is QoS.SYSTEM
    assert pod.cpu.usage == pytest.approx(0.1)


def test_exclusive_cpus_of_lse_pods(tmp_path):
    bench = Bench(tmp_path, (rule("dpdk", "fast/dpdk", QoS.LSE), API))
    bench.kernel.add("fast/dpdk", cpuset_cpus="2-3")
    bench.kernel.add("web/api", cpuset_cpus="0-1")
    pods = bench.pods()
    assert pods["dpdk"].exclusive_cpus == (2, 3)
    assert pods["api"].exclusive_cpus == ()


def test_an_lse_pod_with_every_cpu_has_none_of_its_own(tmp_path):
    bench = Bench(tmp_path, (rule("dpdk", "fast/dpdk", QoS.LSE),))
    bench.kernel.add("fast/dpdk", cpuset_cpus="0-3")
    assert bench.pod("dpdk").exclusive_cpus == ()


def test_other_rules_go_on_without_a_break(bench):
    bench.sampler.sample()
    step(bench)
    bench.sampler.inform(bench.informer((msgspec.structs.replace(API, priority=7, slo_p99=0.2),)))
    snapshot = step(bench, api=500_000_000)
    assert [pod.name for pod in snapshot.pods] == ["api"]
    assert snapshot.pods[0].cpu.usage == pytest.approx(0.5)
    assert snapshot.pods[0].priority == 7
    assert snapshot.pods[0].latency.slo == 0.2


def test_what_cannot_be_followed_is_so_still_when_a_pod_ends_or_other_rules_come(tmp_path):
    rules = (API, JOB, rule("gone", "web/gone", QoS.LS))
    bench = Bench(tmp_path, rules)
    bench.kernel.add("web/api")
    bench.kernel.add("batch/a")
    bench.sampler.sample()
    told = bench.sampler.problems
    assert any("web/gone" in problem for problem in told)
    bench.kernel.remove("batch/a")
    bench.clock.advance(0.5)
    bench.sampler.sample()
    assert bench.sampler.problems == told
    bench.sampler.inform(bench.informer(rules[:2]))
    assert bench.sampler.problems == told, "until the next cycle has looked"
    bench.sampler.sample()
    assert bench.sampler.problems == ()


def test_a_snapshot_is_plain_data(bench):
    bench.sampler.sample()
    snapshot = step(bench)
    text = msgspec.json.encode(snapshot)
    assert msgspec.json.decode(text, type=Snapshot) == snapshot
    assert "NaN" not in json.dumps(json.loads(text))


def test_what_the_latency_sources_and_the_node_have_is_told_and_close_ends_both(bench):
    bench.latencies.troubles = ("latency of default/api: refused",)
    bench.sampler.sample()
    told = bench.sampler.problems
    assert "latency of default/api: refused" in told
    bench.proc.put("stat", "garbage")
    bench.sampler.sample()
    assert set(bench.sampler.problems) > set(told)
    assert not bench.latencies.closed
    bench.sampler.close()
    assert bench.latencies.closed


def test_no_descriptor_is_left_open(bench):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        step(bench)
    assert len(os.listdir("/proc/self/fd")) > before
    bench.sampler.close()
    # the node's own files stay
    assert len(os.listdir("/proc/self/fd")) <= before + 9
