"""The service manager's side channel: datagrams to NOTIFY_SOCKET, as sd_notify(3) describes them.

In: what the agent has to say. Out: nothing where no manager listens. A datagram that cannot be sent is no reason to stop.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import MutableMapping


class ServiceManager:
    """`watchdog` is the seconds within which the manager wants to hear that cycles finish; None: it does not watch."""

    def __init__(self, address: str = "", watchdog: float | None = None) -> None:
        self._address = b"\0" + os.fsencode(address[1:]) if address.startswith("@") else os.fsencode(address)
        self._socket: socket.socket | None = None
        self.watchdog = watchdog if address else None
        if address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)

    @classmethod
    def of(cls, environment: MutableMapping[str, str]) -> ServiceManager:
        """Take the channel out of the environment, so that no child of ours speaks for us."""
        address = environment.pop("NOTIFY_SOCKET", "")
        period, pid = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
        meant = not pid or pid == str(os.getpid())
        watched = meant and period.isascii() and period.isdigit() and int(period) > 0
        return cls(address if address.startswith(("/", "@")) else "", int(period) / 1e6 if watched else None)

    def ready(self, status: str) -> None:
        """Say that the agent does its work."""
        self._send("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        """Say that the configuration is read anew; `ready` ends it."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self, status: str) -> None:
        """Say that the agent puts things in order and ends."""
        self._send("STOPPING=1", f"STATUS={status}")

    def alive(self, status: str) -> None:
        """Say that a cycle has finished."""
        self._send(*(("WATCHDOG=1",) if self.watchdog else ()), f"STATUS={status}")

    def allow(self, seconds: float) -> None:
        """Have the manager wait this long for the next sign of life."""
        if self.watchdog and seconds != self.watchdog:
            self.watchdog = seconds
            self._send(f"WATCHDOG_USEC={int(seconds * 1e6)}")

    def close(self) -> None:
        """Let the socket go."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, *lines: str) -> None:
        if self._socket is None:
            return
        text = "\n".join(line.replace("\n", " ") for line in lines)
        try:
            self._socket.sendto(text.encode("utf-8", "replace"), self._address)
        except OSError:
            return  # the manager is restarting, or its queue is full: the next one gets through
