"""Does the agent hold the objective, against the best fixed setting of the kernel? Real cgroups, real load, interleaved pairs.

    python benchmarks/slo --pairs 10                      all situations but disk (some 55 minutes)
    python benchmarks/slo --situation "own limit" --pairs 3

Each pair runs `slo` and the fixed settings that come closest to it once, in an order drawn anew; the other treatments join the first pairs
(--beside). A run in which others used more than 0.1 cores is made again, three times at most, then dropped. A request is a fixed CPU time,
and batch is judged by its CPU time: the speed of a shared host changes by half within minutes. Results go to a JSON file as they come
(--out); --report only prints the tables of such a file and draws the picture beside it. Needs root and cgroup v1 controllers.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "tests"), str(Path(__file__).resolve().parent)]

from judge import Runs, is_disturbed, verdict, work_of  # noqa: E402
from node import Node  # noqa: E402
from picture import draw  # noqa: E402
from situations import SITUATIONS, Situation, Treatment  # noqa: E402

from real_groups import obstacle  # noqa: E402 - found by the path above

AGAIN = 3
ENOUGH = 3  # pairs


def measure(situations: list[Situation], arguments: argparse.Namespace) -> None:
    """Pair by pair through all situations, so that what is there when the time is over is of all of them."""
    chance = random.Random(1)
    over = time.monotonic() + arguments.minutes * 60
    for pair in range(arguments.first, arguments.first + arguments.pairs):
        for situation in situations:
            treatments = of_pair(situation, pair, arguments)
            chance.shuffle(treatments)
            rows = [undisturbed(situation, treatment, pair, arguments.warm_up) for treatment in treatments]
            with arguments.out.open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
            if time.monotonic() > over:
                return


def of_pair(situation: Situation, pair: int, arguments: argparse.Namespace) -> list[Treatment]:
    """What runs in a pair of a situation."""
    if pair >= situation.pairs:
        return []
    found = situation.rivals + (situation.beside if pair < arguments.beside else ())
    return [each for each in found if arguments.treatment is None or each.name in arguments.treatment]


def undisturbed(situation: Situation, treatment: Treatment, pair: int, warm_up: float) -> dict:
    """One run, made again while it is disturbed."""
    for attempt in range(1, AGAIN + 1):
        with Node(situation, treatment, warm_up) as node:
            result = node.run()
        disturbed = is_disturbed(result.outside)
        print(
            f"{pair} {situation.name}, {treatment.name}: p99 {result.p99:.1f} ms, BE {result.be_cores:.2f} cores, "
            + ("" if result.moved is None else f"{result.moved:.1f} MB/s, ")
            + f"outside {result.outside:.2f}"
            + (f", kills {result.oom_kills}, evictions {result.evictions}" if situation.growing else "")
            + (f" - disturbed, attempt {attempt}" if disturbed else ""),
            flush=True,
        )
        if not disturbed:
            break
    return result.plain() | {"pair": pair, "disturbed": disturbed}


def report(out: Path) -> None:
    by_situation: dict[str, list[dict]] = defaultdict(list)
    for line in out.read_text().splitlines():
        row = json.loads(line)
        by_situation[row["situation"]].append(row)
    for name, rows in by_situation.items():
        print(f"\n### {name}\n")
        print(table(rows))
    draw(by_situation, {name: objective_of(name) for name in by_situation}, out.with_suffix(".html"))


def table(rows: list[dict]) -> str:
    """Markdown: each treatment, and `slo` against it in the pairs that have both. Disturbed runs are left out."""
    runs: dict[str, dict[int, dict]] = defaultdict(dict)
    for row in rows:
        if not row["disturbed"]:
            runs[row["treatment"]][row["pair"]] = row
    left_out = sum(row["disturbed"] for row in rows)
    objective = objective_of(rows[0]["situation"])
    unit = "cores" if rows[0].get("moved") is None else "MB/s"
    lines = [
        f"objective {objective:.0f} ms; {left_out} runs left out as disturbed",
        "",
        f"| treatment | runs | LS p99 ms (min to max) | BE {unit} | OOM kills | `slo`: p99 ratio | `slo`: BE ratio | `slo` better |",
        f"|{' --- |' * 8}",
    ]
    for name, each in sorted(runs.items(), key=lambda item: _order(item[0])):
        all_of_it = runs_of(each.values())
        cells = [
            name,
            str(len(each)),
            f"{statistics.median(all_of_it.p99):.1f} ({min(all_of_it.p99):.1f} to {max(all_of_it.p99):.1f})",
            f"{statistics.median(all_of_it.work):.2f}",
            str(all_of_it.kills),
        ]
        lines.append(f"| {' | '.join(cells + against(runs.get('slo', {}), each, objective))} |")
    return "\n".join(lines)


def against(mine: dict[int, dict], other: dict[int, dict], objective: float) -> list[str]:
    """`slo` beside another treatment, in the pairs that have both; nothing where there are fewer than three."""
    both = sorted(mine.keys() & other.keys())
    if mine is other or len(both) < ENOUGH or not work_of(other[both[0]]):
        return [""] * 3
    judged = verdict(runs_of(mine[pair] for pair in both), runs_of(other[pair] for pair in both), objective)
    answer = {True: "yes", False: "no", None: "not clear"}[judged.better]
    return [str(judged.p99), str(judged.work), f"{answer} ({judged.why})"]


def runs_of(rows: Iterable[dict]) -> Runs:
    kept = list(rows)
    return Runs([row["p99"] for row in kept], [work_of(row) for row in kept], sum(row["oom_kills"] for row in kept))


def objective_of(name: str) -> float:
    """The SLO of the service that is judged, in milliseconds."""
    situation = next(each for each in SITUATIONS if each.name == name)
    return next(service.slo for service in situation.services if service.slo) * 1000


def _order(name: str) -> tuple[int, str]:
    first = ("alone", "unmanaged")
    last = ("pressure", "usage", "slo")
    return (first.index(name), "") if name in first else (10 + last.index(name), "") if name in last else (5, name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="number of the first pair, when measured in parts")
    parser.add_argument("--minutes", type=float, default=300.0, help="begin no other situation after so long")
    parser.add_argument(
        "--beside", type=int, default=3, help="pairs in which all treatments of a situation run, not only those that are compared"
    )
    parser.add_argument("--warm-up", type=float, default=2.0, help="seconds beside batch at the first load before it is measured")
    parser.add_argument("--situation", action="append", choices=[each.name for each in SITUATIONS])
    parser.add_argument("--treatment", action="append", help="only these, by name")
    parser.add_argument("--out", type=Path, default=Path("build/slo.jsonl"))
    parser.add_argument("--report", action="store_true", help="only print the tables of what was measured")
    arguments = parser.parse_args()
    if not arguments.report:
        if (reason := obstacle()) is not None:
            raise SystemExit(reason)
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        chosen = [each for each in SITUATIONS if (not each.asked if arguments.situation is None else each.name in arguments.situation)]
        measure(chosen, arguments)
    report(arguments.out)


if __name__ == "__main__":
    main()
