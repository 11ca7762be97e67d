"""The demo's processes: started with a bound on their life, each in its group, ended by their pid."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec

from qosmanager.demo.groups import Groups
from qosmanager.demo.load import Report

STARTUP = 60.0  # seconds for a process to come up, on a busy machine too
_AGENT_STOP = 15.0
_TICKS = os.sysconf("SC_CLK_TCK")
_RUN = "import sys; from qosmanager.cli.main import main; main(sys.argv[1:])"


class ProcessError(Exception):
    """A process of the demo did not come up or ended before its time; the text says which and what it said."""


def start(module: str, *arguments: str, group: tuple[Groups, str] | None = None, pipes: bool = False) -> subprocess.Popen[bytes]:
    """Start a module of the demo, in a session of its own so that Ctrl-C reaches only the demo itself."""
    process = subprocess.Popen(  # noqa: S603 - our own modules
        [sys.executable, "-m", f"qosmanager.demo.{module}", *arguments],
        stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
        stdout=subprocess.PIPE if pipes else subprocess.DEVNULL,
        stderr=None,
        start_new_session=True,
    )
    if group is not None:
        try:
            group[0].attach(group[1], process.pid)
        except OSError:
            end(process)
            raise
    return process


def end(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGKILL, within: float = 5.0) -> int | None:
    """End a process and close its pipes; return its exit code, None when it had to be killed in the end."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
    try:
        code: int | None = process.wait(within)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        code = None
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
    return code


class Service:
    """The LS service in its group."""

    def __init__(self, groups: Groups, child: str, seconds: float) -> None:
        self.process = start("service", "--seconds", str(seconds), group=(groups, child), pipes=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode().strip()
        if not line.startswith("port="):
            self.stop()
            raise ProcessError("the demo's service did not come up")
        self.port = int(line.removeprefix("port="))

    def stop(self) -> None:
        end(self.process)


class Load:
    """The load generator and what it has reported, by stage."""

    def __init__(self, port: int, seconds: float) -> None:
        self.process = start("load", "--port", str(port), "--seconds", str(seconds), pipes=True)
        self._lock = threading.Lock()
        self._latencies: dict[str, list[float]] = {}
        self._recent: list[float] = []
        self._waiting: dict[str, int] = {}
        self._errors: dict[str, int] = {}
        self._reader = threading.Thread(target=self._read, name="load", daemon=True)
        self._reader.start()

    def stage(self, name: str, rate: float) -> None:
        """Go over to another rate (requests/s). Raises ProcessError when the generator is gone."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{name} {rate}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise ProcessError("the demo's load generator has ended") from None

    def latencies(self, stage: str) -> list[float]:
        """Return the latencies (ms) of a stage's answered requests so far."""
        with self._lock:
            return list(self._latencies.get(stage, ()))

    def take_recent(self) -> list[float]:
        """Return the latencies (ms) that came in since the last call."""
        with self._lock:
            recent, self._recent = self._recent, []
        return recent

    def unanswered(self, stage: str) -> int:
        """Return how many requests of a stage failed or wait for their answer."""
        with self._lock:
            return self._waiting.get(stage, 0) + self._errors.get(stage, 0)

    def drain(self) -> None:
        """Send no more and take in the last answers."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        self._reader.join(10.0)

    def stop(self) -> None:
        end(self.process)
        self._reader.join(1.0)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(ValueError, OSError):  # closed under the reader at the end
            for line in self.process.stdout:
                report = msgspec.json.decode(line, type=Report)
                with self._lock:
                    self._latencies.setdefault(report.stage, []).extend(report.latencies)
                    self._recent.extend(report.latencies)
                    self._waiting[report.stage] = report.waiting
                    self._errors[report.stage] = self._errors.get(report.stage, 0) + report.errors


class Agent:
    """A real `qosmanager run` over the demo's groups."""

    def __init__(self, directory: Path, options: list[str]) -> None:
        self.port = _free_port()
        self._log = directory / "agent.log"
        command = [sys.executable, "-m", "qosmanager.demo.bounded", sys.executable, "-c", _RUN, "run", *options]
        command += ["--state-dir", str(directory / "state"), "--listen", f"127.0.0.1:{self.port}", "--on-stop", "restore"]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own command
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def check(self) -> None:
        """Raise ProcessError with the agent's last words when it has ended."""
        if self.process.poll() is not None:
            words = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
            raise ProcessError("the agent ended: " + (" | ".join(words) or f"exit code {self.process.returncode}"))

    def cost(self) -> tuple[float, float, int]:
        """Return the CPU time (s) the agent has used, how long it has lived (s), its memory (bytes). Raises OSError when it is gone."""
        fields = _stat(self.process.pid)
        lived = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / _TICKS
        return (int(fields[11]) + int(fields[12])) / _TICKS, lived, int(fields[21]) * os.sysconf("SC_PAGE_SIZE")

    def stop(self) -> int | None:
        """Have the agent put all back and end; return its exit code, None when it had to be killed."""
        return end(self.process, signal.SIGTERM, _AGENT_STOP)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process of the demo, in seconds. Raises OSError when it is gone."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS


def busy_seconds() -> float:
    """Return the time this machine's CPUs have worked, in seconds of one CPU."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text(encoding="ascii").split(maxsplit=9)[1:9])
    return (user + nice + system + irq + softirq + steal) / _TICKS


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port
