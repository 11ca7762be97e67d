"""What happens in the guest, and who looks after its memory."""

from __future__ import annotations

from typing import NamedTuple

TREATMENTS = ("nothing", "earlyoom", "nohang", "qosmanager")
FULL_SPEED = 0


class Situation(NamedTuple):
    """A batch process takes memory at a `rate` (MB/s, FULL_SPEED: as fast as it can) and never gives it back.

    `service`: share of the memory that the service holds; `stubborn`: the batch process ignores SIGTERM.
    """

    name: str
    rate: int
    service: float = 0.1
    stubborn: bool = False


SITUATIONS = (
    Situation("full speed", FULL_SPEED),
    Situation("500 MB/s", 500),
    Situation("100 MB/s", 100),
    Situation("ignores SIGTERM", FULL_SPEED, stubborn=True),
    Situation("large service", FULL_SPEED, service=0.55),
)
