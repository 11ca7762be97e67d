"""What `make mutants` found: the score of each file, and every mutant that no test notices and accepted.yaml does not explain.

In: the directory that mutmut works in. Exit code 1 when something is left to look at.
"""

from __future__ import annotations

import ast
import difflib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import yaml

# mutmut's exit codes; any other is a test that failed or ran for ever.
_LIVES, _NOT_RUN, _REFUSED = (0, 33), (None,), (37,)
_COLUMNS = ("all", "killed", "refused by mypy", "accepted", "left", "not run")
_MARK = "# type: ignore # mutmut generated"


def main(mutants: Path) -> int:
    accepted = {
        (function, change)
        for entry in yaml.safe_load((Path(__file__).parent / "accepted.yaml").read_text(encoding="utf-8"))
        for function, changes in entry["mutants"].items()
        for change in changes
    }
    alive: list[tuple[str, str]] = []
    total: Counter[str] = Counter()
    for meta in sorted(mutants.rglob("*.py.meta")):
        exit_codes = json.loads(meta.read_text(encoding="utf-8"))["exit_code_by_key"]
        if exit_codes:
            source = meta.with_suffix("")
            name = source.relative_to(mutants / "src/qosmanager").as_posix()
            lives = [(f"{name} {function}", change) for function, change in _alive(source, exit_codes)]
            alive += lives
            count = Counter(
                {
                    "all": len(exit_codes),
                    "refused by mypy": sum(code in _REFUSED for code in exit_codes.values()),
                    "not run": sum(code in _NOT_RUN for code in exit_codes.values()),
                    "accepted": sum(one in accepted for one in lives),
                    "left": sum(one not in accepted for one in lives),
                }
            )
            count["killed"] = count["all"] - sum(count[column] for column in _COLUMNS[2:])
            total += count
            print(_row(name, count))
    print(_row("all", total))
    for function, change in alive:
        if (function, change) not in accepted:
            print(f"left: {function}: {change}")
    for function, change in sorted(accepted - set(alive)):
        print(f"accepted, but killed or gone: {function}: {change}")
    return 1 if total["left"] or total["not run"] else 0


def _alive(source: Path, exit_codes: dict[str, int | None]) -> Iterator[tuple[str, str]]:
    """Yield function and change of each mutant that lives; a change is its new lines, or the old ones where it only takes some away."""
    text = source.read_text(encoding="utf-8")
    lines = text.replace(_MARK, "").splitlines()
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    bodies = {node.name: [line.strip() for line in lines[node.lineno : node.end_lineno]] for node in functions}
    for key, code in exit_codes.items():
        if code in _LIVES:
            mutant = key.rpartition(".")[2]
            function = mutant.rpartition("__mutmut_")[0]
            changed = list(difflib.ndiff(bodies[f"{function}__mutmut_orig"], bodies[mutant]))
            new, old = ([line[2:] for line in changed if line.startswith(sign)] for sign in "+-")
            yield function.removeprefix("x_").removeprefix("xǁ").replace("ǁ", "."), " ".join(new) or f"without {' '.join(old)}"


def _row(name: str, count: Counter[str]) -> str:
    return f"{name:<36}" + ", ".join(f"{count[column]:>5} {column}" for column in _COLUMNS)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
