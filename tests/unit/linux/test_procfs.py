import pytest

from proc_tree import DISKSTATS, MEMINFO, NET_DEV, STAT, VMSTAT
from qosmanager.linux.procfs import TICK, parse_diskstats, parse_loadavg, parse_meminfo, parse_net_dev, parse_scans, parse_stat


def test_cpu_time_is_neither_idle_nor_waiting_nor_stolen():
    times = parse_stat(STAT.encode())
    # 1000 user + 200 nice + 300 system + 10 irq + 20 softirq; guest time (500) is in user already
    assert times.busy == pytest.approx(1530 * TICK)
    assert times.total == pytest.approx((1530 + 8000 + 400 + 30) * TICK)
    assert (times.iowait, times.softirq, times.steal) == pytest.approx((400 * TICK, 20 * TICK, 30 * TICK))
    assert times.online == 4
    assert times.context_switches == 70000


@pytest.mark.parametrize("content", [b"", b"cpu", b"cpu  1 2 x 4 5 6 7 8\n", b"intr 1 2 3 4 5 6 7 8\n", b"\xff\xfe"])
def test_a_stat_that_is_not_one_is_refused(content):
    with pytest.raises(ValueError, match=r"."):
        parse_stat(content)


def test_memory_is_in_bytes_and_without_hugepages():
    info = parse_meminfo(MEMINFO.encode())
    assert info.total == (16384000 - 1048576) * 1024
    assert info.available == 8000000 * 1024
    assert info.swap_total == 1000000 * 1024
    assert info.swap_used == 250000 * 1024


def test_hugepages_of_kernels_that_only_tell_the_default_size():
    text = "\n".join(line for line in MEMINFO.splitlines() if not line.startswith("Hugetlb"))
    assert parse_meminfo(text.encode()).total == (16384000 - 512 * 2048) * 1024


def test_what_meminfo_does_not_tell_is_none():
    info = parse_meminfo(b"MemTotal: 100 kB\nMemFree: 50 kB\n")
    assert (info.total, info.available, info.swap_total, info.swap_used) == (102400, None, None, None)


@pytest.mark.parametrize("content", [b"", b"garbage", b"MemTotal: many kB\n", b"MemFree: 50 kB\n"])
def test_a_meminfo_that_is_not_one_is_refused(content):
    with pytest.raises(ValueError, match=r"."):
        parse_meminfo(content)


def test_scans_by_their_whole_name():
    assert parse_scans(VMSTAT.encode()) == (300, 4000)
    assert parse_scans(b"pgscan_direct_throttle 9\n") == (None, None)
    assert parse_scans(b"pgscan_direct 7") == (7, None)


def test_busy_seconds_of_disks_with_lines_of_any_age():
    busy = parse_diskstats(DISKSTATS.encode())
    assert busy["vda"] == 8.0
    assert busy["nvme0n1"] == 2.0


def test_diskstats_that_are_not_in_their_form_are_refused():
    with pytest.raises(ValueError, match="diskstats"):
        parse_diskstats(b"nothing here\n")
    assert parse_diskstats(b"") == {}


def test_traffic_of_links():
    assert parse_net_dev(NET_DEV.encode()) == {"lo": (9000000, 9000000), "eth0": (1000000, 466738), "eth1": (500, 500)}


def test_load():
    assert parse_loadavg(b"1.25 0.50 0.10 1/100 4242\n") == 1.25
    with pytest.raises(ValueError, match="loadavg"):
        parse_loadavg(b"")
