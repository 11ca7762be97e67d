"""Runs inside the guest: pytest on the given files, each result as a line of JSON on the second serial port."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

PORT = Path("/dev/ttyS1")


class Teller:
    """A pytest plugin."""

    def __init__(self) -> None:
        self._port = PORT.open("w", encoding="ascii")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._tell(report.nodeid, "failed", str(report.longrepr))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self._tell(report.nodeid, report.outcome, report.capstdout if report.passed else _text(report), round(report.duration, 1))

    def _tell(self, test: str, outcome: str, text: str, seconds: float = 0.0) -> None:
        self._port.write(json.dumps({"test": test.removeprefix("tests/"), "outcome": outcome, "text": text, "seconds": seconds}) + "\n")
        self._port.flush()


def _text(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return "\n".join((report.longreprtext, *(f"{title}\n{content}" for title, content in report.sections)))[-6000:]


if __name__ == "__main__":
    sys.exit(pytest.main(["-p", "no:cacheprovider", "-q", *sys.argv[1:]], plugins=[Teller()]))
