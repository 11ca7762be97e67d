"""`qosmanager`, and `python -m qosmanager`: Ctrl-C while the commands are still being imported ends quietly, as it does later."""

import _signal as signal  # type: ignore[import-not-found]  # its wrapper takes ten milliseconds, in which Ctrl-C would show a traceback
import os

_INTERRUPTED = 130  # as a shell says it


def start() -> None:
    """Run the command line; Ctrl-C shows a traceback neither before nor after it."""
    _leave_when_interrupted()
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


def _leave(*_: object) -> None:
    # Not an exception: in the midst of an import, or of the interpreter's end, Python would show it.
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    start()
