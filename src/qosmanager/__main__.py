"""`qosmanager`, and `python -m qosmanager`: Ctrl-C while the commands are still being imported ends quietly, as it does later."""

import _signal as signal  # type: ignore[import-not-found]  # its wrapper takes ten milliseconds, in which Ctrl-C would show a traceback
import os
import sys

_INTERRUPTED = 130  # as a shell says it


def start() -> None:
    """Run the command line; Ctrl-C shows a traceback neither before nor after it."""
    _leave_when_interrupted()
    _have_standard_streams()
    from qosmanager.cli.main import main  # noqa: PLC0415 - takes a third of a second, in which Ctrl-C is to be heard

    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        main()
    finally:
        _leave_when_interrupted()


def _leave_when_interrupted() -> None:
    """Whoever handles Ctrl-C in a way of their own, or ignores it, goes on to do so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def _have_standard_streams() -> None:
    """Stand in for those that were closed, in the order of their numbers: no file of ours is to be one of them."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - as long as the process


def _leave(*_: object) -> None:
    # Not an exception: in the midst of an import, or of the interpreter's end, Python would show it.
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    start()
