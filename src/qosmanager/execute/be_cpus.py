"""The CPUs that BE may use: policy cpuset, and never a CPU that a pod has exclusively (specification, section 5.4).

In: the wanted CPUs (None: the group's own), the exclusive ones, who BE is. Out: families of wishes. On v1 every group below holds a subset
of its parent and is written too; on v2 the group alone suffices. A set that would be empty is never written.
"""

from __future__ import annotations

from collections.abc import Collection
from posixpath import dirname

from qosmanager.execute.be_groups import BeGroups
from qosmanager.execute.dialect import CPUS_NAME, cpus_file, same
from qosmanager.execute.family import Family, Wish
from qosmanager.execute.ledger import Ledger
from qosmanager.execute.ordering import depth
from qosmanager.execute.tree import below
from qosmanager.execute.writing import Trouble, read
from qosmanager.model.actions import Receipt, Result
from qosmanager.model.cpu_list import format_cpus, parse_cpus
from qosmanager.model.workload import CgroupFile
from qosmanager.ports import KernelFiles


class BeCpus:
    """Works out each BE group's cpuset."""

    def __init__(self, kernel: KernelFiles, ledger: Ledger) -> None:
        self._kernel = kernel
        self._ledger = ledger

    def families(
        self, wanted: frozenset[int] | None, exclusive: frozenset[int], groups: Collection[str], be: BeGroups
    ) -> dict[str, Family | Receipt]:
        """The family of each of these groups, or the reason why it has none."""
        if wanted is None and not exclusive:
            return {}
        found: dict[str, Family | Receipt] = {}
        for group in groups:
            refused = None if wanted is None else self._refused(group, be)
            if refused is not None:
                found[group] = refused
            elif not self._kubelet_writes_below(group, be.kubelet_cpusets):
                # Also where kubelet may: exclusive CPUs that it knows of are in no set that it writes.
                found[group] = self._family(group, be.holders[group], wanted, exclusive)
        return found

    def refused(self, be: BeGroups) -> list[Receipt]:
        """Why none of the groups that hold BE is given CPUs, each with its reason; empty: some are."""
        refused = [self._refused(group, be) for group in be.holders]
        return [] if None in refused else [receipt for receipt in refused if receipt is not None]

    def _refused(self, group: str, be: BeGroups) -> Receipt | None:
        if self._kubelet_writes_below(group, be.kubelet_cpusets):
            detail = f"kubelet's static CPU policy writes cpusets below {be.kubelet_cpusets} itself"
        elif self._kubelet_writes_below(group, be.kubelet_may_write):
            detail = f"kubelet's CPU policy is not known: with the static one it writes cpusets below {be.kubelet_may_write} itself"
        else:
            return None
        # Not the file's name: what of ours may be in it goes back.
        return Receipt(target=CPUS_NAME, result=Result.REFUSED, pod=be.holders[group], detail=f"{detail}; policy cfsQuota holds BE there")

    def allowed(self, groups: Collection[str]) -> frozenset[int]:
        """The CPUs that each of these groups may have without us; empty: not known, or none that all of them may have."""
        found: list[frozenset[int]] = []
        for group in groups:
            file = cpus_file(group)
            text = read(self._kernel, file)
            if not isinstance(text, Trouble):
                allowed = self._allowed(group)
                own = parse_cpus(self._original(file, text)) or allowed
                found.append(own & (allowed or own))
        return frozenset.intersection(*found) if found else frozenset()

    def _kubelet_writes_below(self, group: str, kubelet: str | None) -> bool:
        """Whether kubelet keeps BE off its exclusive CPUs itself, and would fail below a smaller set of ours.

        It writes its shared pool into every container, on v1 only inside the parent's set: when the pool grows before ours does, new
        containers cannot start. On v2 a child may ask for more than its parent has.
        """
        return kubelet is not None and self._kernel.version("cpuset") == 1 and f"{group}/".startswith(f"{kubelet}/")

    def newborn(self) -> list[Family]:
        """Groups born below a group that we hold (v1): what they hold is ours, not their own, and has to be widened with it again."""
        if self._kernel.version("cpuset") != 1:
            return []
        families = []
        held = [entry for file, entry in self._ledger.entries.items() if file.name == CPUS_NAME]
        # The nearest group above is the one that it was born from.
        for entry in sorted(held, key=lambda entry: -depth(entry.file)):
            for child in below(self._kernel, "cpuset", entry.file.group):
                file = cpus_file(child)
                now = None if file in self._ledger.entries else read(self._kernel, file)
                if isinstance(now, str) and any(same(file, now, written) for written in entry.written):
                    families.append(Family(wishes=(Wish(file, now, entry.original),)))
        return families

    def _family(self, group: str, pod: str | None, wanted: frozenset[int] | None, exclusive: frozenset[int]) -> Family | Receipt:
        file = cpus_file(group)
        text = read(self._kernel, file)
        if isinstance(text, Trouble):
            return Receipt(target=str(file), result=text.result, pod=pod, detail=text.detail)
        allowed = self._allowed(group)
        own = parse_cpus(self._original(file, text)) or allowed
        cpus = ((own if wanted is None else own & wanted) & (allowed or own)) - exclusive
        if not cpus:
            detail = f"no CPU would be left: wanted {format_cpus(own if wanted is None else wanted)!r}, own {format_cpus(own)!r}, "
            detail += f"allowed {format_cpus(allowed)!r}, exclusive {format_cpus(exclusive)!r}"
            return Receipt(target=str(file), result=Result.REFUSED, pod=pod, before=text, detail=detail)
        wishes = [Wish(file, format_cpus(cpus))]
        if self._kernel.version("cpuset") == 1:
            wishes += self._children(group, cpus)
        elif outside := self._outside(group, cpus):
            detail = f"{outside} asks for other CPUs than {format_cpus(cpus)!r} alone: the kernel would give it these, whoever has them"
            return Receipt(target=str(file), result=Result.REFUSED, pod=pod, before=text, detail=detail)
        return Family(wishes=tuple(wishes), pod=pod)

    def _outside(self, group: str, cpus: frozenset[int]) -> str | None:
        """Name a group below (v2) that asks for CPUs of which none is among these: it would be kept off its own, and be given all of them,
        which kubelet may have given to somebody else."""
        for child in below(self._kernel, "cpuset", group):
            text = read(self._kernel, cpus_file(child))
            asked = frozenset[int]() if isinstance(text, Trouble) else parse_cpus(text)
            if asked and not asked & cpus:
                return child
        return None

    def _children(self, group: str, cpus: frozenset[int]) -> list[Wish]:
        wishes = []
        held = {group: cpus}
        for child in below(self._kernel, "cpuset", group):
            file = cpus_file(child)
            now = read(self._kernel, file)
            if isinstance(now, Trouble) or not now:
                continue  # gone, or never given CPUs: it has no tasks and holds nothing
            original = self._original(file, now)
            above = held.get(dirname(child), cpus)
            held[child] = (parse_cpus(original) & above) or above
            # Owned from the first, also when it fits already: else it would be taken for one born later.
            wishes.append(Wish(file, format_cpus(held[child]), original))
        return wishes

    def _allowed(self, group: str) -> frozenset[int]:
        """What the group above has; empty: not known, any."""
        above, _, _ = group.rpartition("/")
        name = CPUS_NAME if self._kernel.version("cpuset") == 1 else "cpuset.cpus.effective"
        try:
            return parse_cpus(self._kernel.read(CgroupFile("cpuset", above, name)))
        except (OSError, ValueError):
            return frozenset()

    def _original(self, file: CgroupFile, text: str) -> str:
        entry = self._ledger.entries.get(file)
        return text if entry is None else entry.original
