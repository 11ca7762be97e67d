import pytest

from proc_tree import ProcTree
from qosmanager.collect.node_tracker import NodeTracker
from qosmanager.linux.host import HostNode
from qosmanager.linux.procfs import TICK


@pytest.fixture
def tree(tmp_path):
    return ProcTree(tmp_path)


@pytest.fixture
def host(tree):
    return HostNode(tree.proc, tree.sysfs)


def test_a_whole_reading(host):
    counters = host.read()
    assert counters.cpus == 4
    assert counters.cpu_busy == pytest.approx(1530 * TICK)
    assert counters.load1 == 1.25
    assert counters.memory_total == (16384000 - 1048576) * 1024
    assert (counters.pgscan_direct, counters.pgscan_kswapd) == (300, 4000)
    assert (counters.io_psi_some, counters.memory_psi_full) == (1.5, 0.25)
    assert [place.cpu for place in counters.topology] == [0, 1, 2, 3]
    assert counters.missing == {}


def test_only_real_disks_count(host):
    assert host.read().disks == {"vda": 8.0, "nvme0n1": 2.0}


def test_links_with_a_device_and_their_speed_in_bytes(host):
    links = host.read().links
    assert links.keys() == {"eth0", "eth1"}
    assert links["eth0"] == (1000000, 466738, 125_000_000.0)
    assert links["eth1"].speed is None


@pytest.mark.parametrize(
    ("file", "fields"),
    [
        ("loadavg", {"load1"}),
        ("vmstat", {"pgscan_direct", "pgscan_kswapd"}),
        ("diskstats", {"disk_util"}),
        ("net/dev", {"net_util"}),
        ("pressure/io", {"io_psi_some", "io_psi_full"}),
    ],
)
def test_a_file_that_is_not_there_costs_its_own_readings_only(host, tree, file, fields):
    (tree.proc / file).unlink()
    counters = host.read()
    assert counters.missing.keys() == fields
    assert all(str(tree.proc / file) in reason for reason in counters.missing.values())


def test_garbage_costs_its_own_readings_only(host, tree):
    tree.put("pressure/memory", "\x00\xff")
    tree.put("loadavg", "")
    counters = host.read()
    assert counters.missing.keys() == {"memory_psi_some", "memory_psi_full", "load1"}
    assert counters.memory_psi_some is None
    assert counters.io_psi_some == 1.5


def test_a_kernel_without_the_cpus_full_line(host, tree):
    tree.put("pressure/cpu", "some avg10=1.50 avg60=0.50 avg300=0.10 total=4651743\n")
    counters = host.read()
    assert counters.cpu_psi_some == 1.5
    assert counters.missing.keys() == {"cpu_psi_full"}


def test_no_link_of_known_speed(host, tree):
    (tree.sysfs / "class/net/eth0/speed").write_text("-1\n")
    assert host.read().missing == {"net_util": "no physical link whose speed is known"}


def test_no_real_disk(host, tree):
    tree.put("diskstats", "   7       0 loop0 5 0 5 0 0 0 0 0 0 99000 0 0 0 0 0 0 0\n")
    assert host.read().missing == {"disk_util": "no real disk"}


def test_rates_over_real_elapsed_time(host, tree):
    tracker = NodeTracker(host)
    assert tracker.read(100.0, 15.0)
    assert tracker.node.cpu_usage is None
    assert tracker.missing["node.cpu_usage"] == "a rate needs two samples"
    # in 2 s: 300 ticks of user time, 80 of waiting for I/O, 20 of softirq, 400 idle: 800 ticks in all
    tree.change("stat", "cpu  1000 200 300 8000 400 10 20 30", "cpu  1300 200 300 8400 480 10 40 30")
    tree.change("stat", "ctxt 70000", "ctxt 70500")
    tree.change("vmstat", "pgscan_direct 300", "pgscan_direct 700")
    tree.change("diskstats", "0 8000 20623", "0 8500 20623")
    tree.change("net/dev", "eth0: 1000000", "eth0: 51000000")
    assert tracker.read(102.0, 15.0)
    node = tracker.node
    assert node.cpu_usage == pytest.approx(320 * TICK / 2)
    assert node.iowait == pytest.approx(10.0)
    assert node.softirq == pytest.approx(2.5)
    assert node.steal == 0.0
    assert node.context_switches == pytest.approx(250.0)
    assert (node.pgscan_direct, node.pgscan_kswapd) == (200.0, 0.0)
    assert node.disk_util == pytest.approx(25.0)  # 0.5 s of 2 s
    assert node.net_util == pytest.approx(20.0)  # 25 MB/s of 125 MB/s
    assert tracker.missing == {}


def test_a_counter_that_falls_gives_no_rate_for_that_cycle(host, tree):
    tracker = NodeTracker(host)
    tracker.read(100.0, 15.0)
    tree.change("stat", "cpu  1000 200", "cpu  10 200")
    tree.change("vmstat", "pgscan_kswapd 4000", "pgscan_kswapd 3")
    tracker.read(101.0, 15.0)
    assert tracker.node.cpu_usage is None
    assert tracker.node.pgscan_kswapd is None
    assert tracker.node.pgscan_direct == 0.0
    assert tracker.missing["node.cpu_usage"] == "the counter began anew, or no tick passed"
    tree.change("stat", "cpu  10 200", "cpu  110 200")
    tracker.read(102.0, 15.0)
    assert tracker.node.cpu_usage == pytest.approx(100 * TICK)


def test_a_hole_of_two_hours_gives_no_rate(host, tree):
    tracker = NodeTracker(host)
    tracker.read(100.0, 15.0)
    tree.change("stat", "cpu  1000 200", "cpu  9000 200")
    tracker.read(7300.0, 15.0)
    assert tracker.node.cpu_usage is None
    assert "gap" in tracker.missing["node.cpu_usage"]


def test_a_node_that_cannot_be_read_keeps_its_last_sample(host, tree):
    tracker = NodeTracker(host)
    tracker.read(100.0, 15.0)
    before = tracker.node
    tree.put("stat", "")
    assert not tracker.read(101.0, 15.0)
    assert tracker.node is before
    assert tracker.sampled == 100.0
    assert "/proc/stat" in tracker.failure


def test_usage_is_never_more_than_the_cpus(host, tree):
    tracker = NodeTracker(host)
    tracker.read(100.0, 15.0)
    tree.change("stat", "cpu  1000 200", "cpu  1500 200")
    tracker.read(101.0, 15.0)
    assert tracker.node.cpu_usage == 4.0
