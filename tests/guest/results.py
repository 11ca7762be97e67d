"""What a guest told about each test, for the tests outside that stand for them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]


def names_in(file: str) -> list[str]:
    """Node ids of the tests in a file below tests/."""
    tree = ast.parse((TESTS / file).read_text())
    return [f"{file}::{node.name}" for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


class Results:
    """Results as they come; asking for one waits for it."""

    def __init__(self, coming: Iterator[dict[str, str]], log: Path) -> None:
        self._coming = coming
        self._log = log
        self._known: dict[str, list[dict[str, str]]] = {}

    def judge(self, name: str) -> None:
        """Pass, fail or skip as the test of that name did inside, and say what it said."""
        results = self._of(name)
        sys.stdout.write("".join(result["text"] for result in results if result["outcome"] == "passed"))
        failed = [f"{result['test']}\n{result['text']}" for result in results if result["outcome"] == "failed"]
        if failed:
            pytest.fail("\n".join(failed), pytrace=False)
        if all(result["outcome"] == "skipped" for result in results):
            pytest.skip(results[0]["text"])

    def close(self) -> None:
        """End the guest, if it still runs."""
        self._coming.close()

    def _of(self, name: str) -> list[dict[str, str]]:
        """Return the results of a test: one for each set of its parameters."""
        for result in self._coming:
            test = result["test"].partition("[")[0]
            self._known.setdefault(test, []).append(result)
            if name in self._known and test != name:
                break
        if name not in self._known:
            broken = [result["text"] for results in self._known.values() for result in results if "::" not in result["test"]]
            console = self._log.read_text(errors="replace")[-3000:] if self._log.exists() else ""
            pytest.fail(f"the guest told nothing of this test\n{''.join(broken)}\n{console}", pytrace=False)
        return self._known[name]
