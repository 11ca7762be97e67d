"""The disks of this machine, as far as sharing them by weight goes: the `Disks` that the executor asks."""

from __future__ import annotations

from pathlib import Path


class BlockDevices:
    """Over sysfs."""

    def __init__(self, sysfs: Path = Path("/sys")) -> None:
        self._blocks = sysfs / "block"

    def weighing(self) -> bool:
        """Tell whether some disk has bfq, the only scheduler that goes by the weights of groups."""
        return any(_is_bfq(path) for path in self._blocks.glob("*/queue/scheduler"))


def _is_bfq(path: Path) -> bool:
    try:
        return "[bfq]" in path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
