"""Memory runs out in a guest: who acts before the kernel has to, and whom does it hit? Nothing, earlyoom, nohang and qosmanager.

    python benchmarks/memory_guest --runs 5 --out runs.json       User-mode Linux, at full speed (half an hour)
    python benchmarks/memory_guest --report runs.json             the table of such a file
    python benchmarks/memory_guest --guest qemu --runs 1 --situation "full speed"

The guest has its own kernel with cgroup v2, 2 GiB, no swap, and nothing of this machine but its Python. Debian's earlyoom and nohang
run with the configuration of their packages, which are unpacked and not installed. qosmanager runs with what its unit gives it and its
defaults but CPUSuppress, so that batch is slowed by nothing. Treatments come one after the other, each with all its runs. Needs root and
Debian; `make bench-memory` puts the kernel in place first.
"""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "tests"), str(HERE.parent)]

from memory_guest.situations import SITUATIONS, TREATMENTS  # noqa: E402

from debian import unpacked  # noqa: E402 - found by the path above
from guest.machine import Guest, emulated, obstacle, project, user_mode, user_mode_obstacle  # noqa: E402

MEMORY, DISK = 2048, 64  # MiB
GUESTS = {"user-mode-linux": (user_mode, user_mode_obstacle), "qemu": (emulated, obstacle)}


def content(arguments: argparse.Namespace) -> bytes:
    environment = {"CONFIG": shlex.quote(arguments.config)}
    if arguments.show:
        environment["SHOW"] = "1"
    names = " ".join(shlex.quote(each) for each in arguments.situation)
    archive = project(f"-m memory_guest.inside {arguments.runs} {','.join(arguments.treatment)} {names}", environment)
    archive.tree(HERE, "project/tests/memory_guest")
    with unpacked("earlyoom", "nohang") as tree:
        for name in ("usr/bin/earlyoom", "usr/sbin/nohang", "etc/nohang/nohang.conf"):
            archive.copy(tree / name, name)
    return archive.data()


def measure(arguments: argparse.Namespace) -> list[dict]:
    start, _ = GUESTS[arguments.guest]
    rows = []
    # User-mode Linux keeps the guest's memory in a file here: on a disk, all of it would be written out.
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        for row in start(Guest(content(arguments), MEMORY, DISK), Path(directory, "console.log"), arguments.minutes * 60):
            if "error" in row:
                print(row["error"], file=sys.stderr)
                continue
            rows.append(row)
            if arguments.out:
                with arguments.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            print(f"{row['run']} {row['situation']}, {row['treatment']}: {outcome(row)}, lowest {row['lowest'] / 1e6:.0f} MB", flush=True)
            if arguments.show:
                print(row.get("log", ""))
        if not rows:
            print(Path(directory, "console.log").read_text(errors="replace")[-3000:], file=sys.stderr)
    return rows


def outcome(row: dict) -> str:
    if not row["service_alive"]:
        return f"the service died{' by the kernel' * (row['oom_kills'] > 0)}"
    if row["oom_kills"]:
        return "the kernel killed batch"
    return "batch lives" if row["batch_alive"] else "batch ended"


def table(rows: list[dict]) -> None:
    cells = defaultdict(list)
    for row in rows:
        cells[row["situation"], row["treatment"]].append(row)
    print(
        "\n| situation | treatment | runs | kernel OOM killer | service died | least available MB | "
        "under 10 percent to gone, ms | service's worst answer ms | RSS MB |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    )
    for situation in SITUATIONS:
        for treatment in TREATMENTS:
            if found := cells.get((situation.name, treatment)):
                print(line(situation.name, treatment, found))
    speeds = [row["rate"] / 1e6 for row in rows if row["rate"] and row["situation"] == SITUATIONS[0].name]
    if speeds:
        print(f"\n{MEMORY} MiB; full speed is {min(speeds):.0f} to {max(speeds):.0f} MB/s there")


def line(situation: str, treatment: str, rows: list[dict]) -> str:
    def spread(name: str, factor: float) -> str:
        values = [row[name] * factor for row in rows if row[name] is not None]
        if not values:
            return "-"
        return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"

    kills = sum(row["oom_kills"] > 0 for row in rows)
    died = sum(not row["service_alive"] for row in rows)
    rss = [row["rss"] for row in rows if row["rss"]]
    return (
        f"| {situation} | {treatment} | {len(rows)} | {kills} | {died} | {spread('lowest', 1e-6)} | {spread('after_ten', 1e3)} "
        f"| {spread('worst', 1e3)} | {f'{max(rss) / 1e6:.0f}' if rss else '-'} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--guest", choices=GUESTS, default="user-mode-linux")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--situation", action="append", default=[], choices=[each.name for each in SITUATIONS])
    parser.add_argument("--treatment", action="append", choices=TREATMENTS)
    parser.add_argument("--config", default="{cpuSuppress: {enabled: false}}", help="qosmanager's configuration, as one line of YAML")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--out", type=Path, help="a file to add each run to, as JSON")
    parser.add_argument("--report", type=Path, help="only print the table of such a file")
    parser.add_argument("--show", action="store_true", help="print the log of who looks after the memory")
    arguments = parser.parse_args()
    arguments.treatment = arguments.treatment or list(TREATMENTS)
    if arguments.report:
        table([json.loads(row) for row in arguments.report.read_text().splitlines()])
        return
    # The guest ends with us, however we end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    if (why_not := GUESTS[arguments.guest][1]()) is not None:
        sys.exit(why_not)
    table(measure(arguments))


if __name__ == "__main__":
    main()
