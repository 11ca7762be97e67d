"""Limits on the demo's own processes: none outlives the demo or its time, whatever happens to the demo.

`python -m qosmanager.demo.bounded COMMAND...` runs a command that gets SIGTERM when its parent is gone (the agent then puts all back).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def end_with_parent(number: signal.Signals) -> None:
    """Have the kernel send this process a signal when its parent ends; it survives exec. Raises OSError."""
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:  # it ended before the kernel was told
        os.kill(os.getpid(), number)


def end_after(seconds: float) -> None:
    """End this process when the time is over (SIGALRM, default action)."""
    signal.setitimer(signal.ITIMER_REAL, seconds)


def main() -> None:
    end_with_parent(signal.SIGTERM)
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606 - the demo's own command line


if __name__ == "__main__":
    main()
