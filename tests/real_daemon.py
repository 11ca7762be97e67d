"""A real `qosmanager run` for tests.

Its node is one group of the test's own, in it an LS pod `api` and a BE pod for each group below `be`.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from qosmanager.cli.main import main
from waiting import PATIENCE, SLOWNESS, wait

# Ten cycles a second, but not where they would take the whole of an emulated machine.
PERIOD = "100ms" if SLOWNESS < 10 else "1s"
CONFIG = f"""\
qosManager:
  syncPeriod: {PERIOD}
  cpuSuppress: {{strategy: usage, targetUtilization: %s}}
  memoryEvict: {{enabled: false}}
"""


class Daemon:
    """A `qosmanager run` over one group of the test's own as its node."""

    def __init__(self, groups, directory: Path, *, on_stop: str = "restore", more: tuple[str, ...] = ()) -> None:
        self.directory = directory
        self.config = directory / "config.yaml"
        self.workloads = directory / "workloads.yaml"
        self.log = directory / "agent.log"
        if not self.config.exists():
            self.config.write_text(CONFIG % 0.4)
        top = groups.top
        self.workloads.write_text(
            "workloads:\n"
            f'- {{name: api, qos: LS, cgroup: "{top}/api", requests: {{cpu: 500m}}}}\n'
            f'- {{name: job, qos: BE, cgroup: "{top}/be/*", priority: 3000}}\n'
        )
        self._offset = self.log.stat().st_size if self.log.exists() else 0
        self.process = self._begun(
            (
                *("run", "--config", str(self.config), "--workloads", str(self.workloads), "--node-cgroup", top),
                *("--state-dir", str(directory / "state"), "--listen", "127.0.0.1:0", "--on-stop", on_stop),
                *more,
            )
        )

    def _begun(self, words: tuple[str, ...]):
        with self.log.open("ab") as output:
            return subprocess.Popen([sys.executable, "-m", "qosmanager", *words], stdout=output, stderr=output)

    def lines(self) -> str:
        with self.log.open() as log:
            log.seek(self._offset)
            return log.read()

    def wait_for(self, what: str, seconds: float = 20.0) -> str:
        """Wait until the log says something; return the log."""
        said = f"{what!r} in the log of process {self.process.pid}:\n"
        return wait(lambda: self.lines() if what in self.lines() else None, seconds, said, self.lines)

    @property
    def url(self) -> str:
        return self.wait_for("http=").split("http=")[1].split()[0]

    def get(self, path: str):
        with urllib.request.urlopen(f"{self.url}{path}", timeout=5 * PATIENCE) as answer:
            body = answer.read().decode()
        return json.loads(body) if answer.headers["content-type"].startswith("application/json") else body

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(20 * PATIENCE)


class ForkedDaemon(Daemon):
    """The same, forked off a process that has read all of the program already: begun in a tenth of the time, for those who begin many."""

    def _begun(self, words: tuple[str, ...]):
        self.log.touch()
        return _Forked(words, self.log)


class _Forked:
    """What the tests ask of a Popen."""

    def __init__(self, words: tuple[str, ...], log: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["qosmanager.cli.main", "qosmanager.http.server"])
        self._process = context.Process(target=_command, args=(words, log))
        self._process.start()
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self, seconds: float) -> int | None:
        self._process.join(seconds)
        return self._process.exitcode


def _command(words: tuple[str, ...], log: Path) -> None:
    """The program, in a process of its own."""
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    for standard in (1, 2):
        os.dup2(output, standard)
    main(words, prog_name="qosmanager")


def calm_groups(groups):
    """An LS group with a little work, and a BE parent with one pod that has none."""
    for name in ("api", "be", "be/one"):
        groups.add(name)
    groups.start("api", sys.executable, "-c", f"import time\nwhile True:\n  time.sleep({0.01 * SLOWNESS})")
    groups.start("be/one", "sleep", "3600")
    return groups


def busy_groups(groups):
    """The same with a greedy pod."""
    calm_groups(groups).busy("be/one", 2)
    return groups


def limit_in_force(groups) -> bool:
    return groups.quota(groups.path("be")).split()[0] not in ("-1", "max")
