"""Whether the kernel itself puts all BE behind all LS (specification, section 5.1): what the weights really say, read back.

In: the groups of BE and of LS. Out: whether, where the paths of BE and of each LS group part, the one side holds all BE and is idle or has
next to no weight beside the other; or why that is not so, or not known. Weight counts among siblings only.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from msgspec import Struct

from qosmanager.execute.dialect import SMALLEST_WEIGHT, idle_file, memory_file, weight_file
from qosmanager.execute.writing import Trouble, read
from qosmanager.model.actions import Knob, KnobState
from qosmanager.ports import KernelFiles

NEGLIGIBLE = 0.02  # BE's share of the CPU where both sides want all of it
KNOB = "BE behind LS"


class Verdict(NamedTuple):
    """`holds` None: not known. `why` is for people in any case."""

    holds: bool | None
    why: str


class _Side(Struct, frozen=True):
    group: str
    idle: bool
    weight: int


class Shield:
    """Looks at the groups, and remembers what it last found."""

    def __init__(self, kernel: KernelFiles) -> None:
        self._kernel = kernel
        self.last = Verdict(None, "not looked at yet")

    def shielded(self, batch: Collection[str], services: Collection[str]) -> Verdict:
        """Judge BE's groups (the one that holds all BE, or each pod's) beside those of the LS pods. Never fails."""
        self.last = self._judge(batch, services)
        return self.last

    def knob(self) -> Knob:
        """What was last found, beside the other standing properties."""
        return Knob(KNOB, KnobState.IN_FORCE if self.last.holds else KnobState.WAITING, self.last.why)

    def memory(self, group: str) -> int | None:
        """Bytes that a v2 group holds, page cache and all; None: not known."""
        if self._kernel.version("memory") != 2:
            return None
        text = read(self._kernel, memory_file(group, "memory.current"))
        return int(text) if isinstance(text, str) and text.isdecimal() else None

    def _judge(self, batch: Collection[str], services: Collection[str]) -> Verdict:
        version = self._kernel.version("cpu")
        if version is None:
            return Verdict(None, "no cpu controller")
        if not batch:
            return Verdict(None, "there is no BE")
        common = _common(batch)
        if not common:
            return Verdict(False, "no group of its own holds all BE")
        pairs = {_parting(common, service) for service in services} if services else {(common, "")}
        sides: dict[str, _Side | str] = {}
        for weak, strong in sorted(pairs):
            if not weak:
                return Verdict(False, f"{common} and {strong} lie one inside the other: no weight stands between BE and LS")
            for group in filter(None, (weak, strong)):
                if group not in sides:
                    sides[group] = self._side(version, group)
            verdict = _compared(version, sides[weak], sides[strong] if strong else None)
            if verdict is not None:
                return verdict
        weak = max(pairs)[0]
        return Verdict(True, f"{weak} is {_shown(sides[weak])}; all LS lies beside it")

    def _side(self, version: int, group: str) -> _Side | str:
        weight = read(self._kernel, weight_file(version, group))
        if isinstance(weight, Trouble):
            return f"{group}: {weight.detail}"
        idle = read(self._kernel, idle_file(group))  # older kernels have none
        return _Side(group, idle == "1", int(weight))


def _compared(version: int, weak: _Side | str, strong: _Side | str | None) -> Verdict | None:
    """Return None where BE's side makes way, else the verdict."""
    if isinstance(weak, str):
        return Verdict(None, weak)
    if isinstance(strong, str):
        return Verdict(None, strong)
    if strong is None:
        fair = weak.idle or weak.weight <= int(SMALLEST_WEIGHT[version])
    else:
        fair = not strong.idle and (weak.idle or weak.weight / (weak.weight + strong.weight) <= NEGLIGIBLE)
    beside = "" if strong is None else f" beside {strong.group}, {_shown(strong)}"
    return None if fair else Verdict(False, f"{weak.group} is {_shown(weak)}{beside}")


def _shown(side: _Side | str) -> str:
    if isinstance(side, str):
        return side
    return "idle" if side.idle else f"of weight {side.weight}"


def _common(groups: Collection[str]) -> str:
    """Return the deepest group that holds all of these, or is the only one; "" is the root."""
    first, *others = [group.split("/") for group in groups]
    for parts in others:
        same = 0
        while same < min(len(first), len(parts)) and first[same] == parts[same]:
            same += 1
        first = first[:same]
    return "/".join(first)


def _parting(batch: str, service: str) -> tuple[str, str]:
    """Return the two sibling groups in which the paths part, BE's first; BE's is "" where the service lies inside."""
    ours, theirs = batch.split("/"), service.split("/")
    same = 0
    while same < min(len(ours), len(theirs)) and ours[same] == theirs[same]:
        same += 1
    if same == len(ours) or same == len(theirs):
        return "", service
    return "/".join(ours[: same + 1]), "/".join(theirs[: same + 1])
