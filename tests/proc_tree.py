"""A small /proc and /sys of real files, as a 4-CPU machine with two sockets shows them; tests change what they need."""

from __future__ import annotations

from pathlib import Path

STAT = """cpu  1000 200 300 8000 400 10 20 30 500 0
cpu0 250 50 75 2000 100 2 5 8 125 0
cpu1 250 50 75 2000 100 3 5 7 125 0
cpu2 250 50 75 2000 100 2 5 8 125 0
cpu3 250 50 75 2000 100 3 5 7 125 0
intr 12345 0 9 0
ctxt 70000
btime 1790000000
processes 4242
softirq 5 0 1 2
"""
MEMINFO = """MemTotal:       16384000 kB
MemFree:         2000000 kB
MemAvailable:    8000000 kB
Buffers:          100000 kB
SwapTotal:       1000000 kB
SwapFree:         750000 kB
HugePages_Total:     512
HugePages_Free:      512
Hugepagesize:       2048 kB
Hugetlb:         1048576 kB
"""
VMSTAT = """nr_free_pages 500000
pgscan_kswapd 4000
pgscan_direct 300
pgscan_direct_throttle 9
"""
DISKSTATS = """   7       0 loop0 5 0 5 0 0 0 0 0 0 99000 0 0 0 0 0 0 0
 254       0 vda 30313 5936 2651698 16609 6891 17917 1086616 3431 0 8000 20623 5568 51 216176 554 385 27
 254       1 vda1 30000 5000 2600000 16000 6000 17000 1080000 3400 0 7900 20000 0 0 0 0 0 0
 259       0 nvme0n1 10 0 10 0 0 0 0 0 0 2000 0
 253       0 dm-0 1 0 1 0 0 0 0 0 0 99000 0 0 0 0 0 0 0
"""
NET_DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 9000000    29    0    0    0     0          0         0  9000000      29    0    0    0     0       0          0
  eth0: 1000000  5737    0    0    0     0          0         0   466738    3606    0    0    0     0       0          0
  eth1: 500    1    0    0    0     0          0         0   500    1    0    0    0     0       0          0
"""
PRESSURE = """some avg10=1.50 avg60=0.50 avg300=0.10 total=4651743
full avg10=0.25 avg60=0.10 avg300=0.05 total=1234567
"""


class ProcTree:
    """`proc` and `sysfs` are what `HostNode` takes."""

    def __init__(self, path: Path) -> None:
        self.proc = path / "proc"
        self.sysfs = path / "sys"
        for name, text in {
            "stat": STAT,
            "meminfo": MEMINFO,
            "loadavg": "1.25 0.50 0.10 1/100 4242\n",
            "vmstat": VMSTAT,
            "diskstats": DISKSTATS,
            "net/dev": NET_DEV,
            "pressure/cpu": PRESSURE,
            "pressure/memory": PRESSURE,
            "pressure/io": PRESSURE,
        }.items():
            self.put(name, text)
        for disk in ("vda", "nvme0n1"):
            (self.sysfs / "block" / disk / "device").mkdir(parents=True)
        (self.sysfs / "block/dm-0").mkdir()
        for link, speed in {"eth0": "1000\n", "eth1": "-1\n"}.items():
            (self.sysfs / "class/net" / link / "device").mkdir(parents=True)
            (self.sysfs / "class/net" / link / "speed").write_text(speed)
        cpus = self.sysfs / "devices/system/cpu"
        for cpu in range(4):
            (cpus / f"cpu{cpu}/topology").mkdir(parents=True)
            (cpus / f"cpu{cpu}/topology/core_cpus_list").write_text("0,2\n" if cpu % 2 == 0 else "1,3\n")
            (cpus / f"cpu{cpu}/topology/physical_package_id").write_text(f"{cpu % 2}\n")
            (cpus / f"cpu{cpu}/node{cpu % 2}").mkdir()
        (cpus / "online").write_text("0-3\n")

    def put(self, name: str, text: str) -> None:
        path = self.proc / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def change(self, name: str, old: str, new: str) -> None:
        text = (self.proc / name).read_text()
        assert old in text
        self.put(name, text.replace(old, new))
