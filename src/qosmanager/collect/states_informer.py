"""StatesInformer: who runs here now, and where BE lies (specification, sections 9 and 11).

In: the rules of a workload file and kubelet's tree, as sources over the tree of groups. Out: `Residents`. Discovery is cheap: each cycle
looks at the link counts of a few directories; everything is read again when one has changed, when a group has vanished, and every 10 s.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Protocol

from msgspec import Struct

from qosmanager.collect.readings import GroupTree
from qosmanager.model.plain import plain
from qosmanager.model.qos import QoS
from qosmanager.model.workload import Workload, WorkloadRule

RESCAN = 10.0  # seconds


class Residents(Struct, frozen=True, kw_only=True):
    """Who runs here. `be_parent` is the one group that holds all BE and nothing else, `kubelet_owned` says whose it is; `kubelet_pods`
    are the pods' groups whose files kubelet writes.

    `kubelet_cpusets` is the group below which kubelet writes cpusets itself, if there is one, `kubelet_may_write` the same where it is not
    known whether it does. `problems` tells what of the declarations could not be followed, for people.
    """

    workloads: tuple[Workload, ...] = ()
    be_parent: str | None = None
    kubelet_owned: bool = False
    kubelet_pods: frozenset[str] = frozenset()
    kubelet_cpusets: str | None = None
    kubelet_may_write: str | None = None
    problems: tuple[str, ...] = ()


class Source(Protocol):
    """Something that knows workloads. What the properties say is that of the last scan."""

    @property
    def in_use(self) -> bool: ...

    @property
    def problems(self) -> tuple[str, ...]: ...

    @property
    def writes_cpusets_below(self) -> str | None: ...

    @property
    def may_write_cpusets_below(self) -> str | None: ...

    @property
    def revision(self) -> object:
        """What is another one when a scan would find other things in the same groups."""

    def watched(self) -> list[str]: ...

    def be_homes(self) -> list[str]: ...

    def owns(self, group: str) -> bool: ...

    def scan(self) -> list[Workload]: ...

    def forget(self) -> None: ...


class RuleSource:
    """The workloads that a file declares. A rule that names a group in full comes before any pattern that matches it too."""

    def __init__(self, tree: GroupTree, rules: tuple[WorkloadRule, ...]) -> None:
        self._tree = tree
        self._rules = tuple(sorted(rules, key=lambda rule: rule.is_pattern))
        self.in_use = bool(rules)
        self.problems: tuple[str, ...] = ()
        self.writes_cpusets_below = None
        self.may_write_cpusets_below = None
        self.revision = None

    def watched(self) -> list[str]:
        """Return the parents of all declared groups, whose link counts tell that one came or went."""
        return sorted({_parent(rule.cgroup) for rule in self._rules})

    def be_homes(self) -> list[str]:
        """Return the groups that BE pods are born in: where all that comes is BE."""
        return sorted({_parent(rule.cgroup) for rule in self._rules if rule.qos is QoS.BE and rule.cgroup.rsplit("/", 1)[-1] == "*"})

    def owns(self, group: str) -> bool:  # noqa: ARG002 - the Source protocol's question; kubelet owns nothing declared here
        return False

    def scan(self) -> list[Workload]:
        """Return the declared workloads whose groups are there, patterns' matches in order of their names."""
        found: list[Workload] = []
        problems: list[str] = []
        for rule in self._rules:
            # A pattern without a match is a quiet hour; one below a group that is not there may be a typing error.
            needed = _parent(rule.cgroup) if rule.is_pattern else rule.cgroup
            if self._tree.identity(needed) is None:
                problems.append(f"{rule.key}: no cgroup {needed} under {self._tree.root} (yet)")
            elif rule.is_pattern:
                found += self._matches(rule)
            else:
                found.append(self._workload(rule, rule.name, rule.cgroup))
        self.problems = tuple(problems)
        return found

    def _matches(self, rule: WorkloadRule) -> list[Workload]:
        parent, pattern = _parent(rule.cgroup), rule.cgroup.rsplit("/", 1)[-1]
        names = [name for name in self._tree.children(parent) if fnmatchcase(name, pattern)]
        return [self._workload(rule, f"{rule.name}-{_shown(name)}", f"{parent}/{name}" if parent else name) for name in names]

    def forget(self) -> None:
        """Nothing is kept between scans."""

    def _workload(self, rule: WorkloadRule, name: str, group: str) -> Workload:
        return Workload(
            name=name,
            namespace=rule.namespace,
            qos=rule.qos,
            cgroup=group,
            priority=rule.priority,
            created=self._tree.created(group),
            critical=rule.critical,
            owner=rule.owner,
            cpu_request=rule.cpu_request,
            cpu_limit=rule.cpu_limit,
            memory_request=rule.memory_request,
            memory_limit=rule.memory_limit,
            slo_p99=rule.slo_p99,
            latency=rule.latency,
            grace=rule.grace,
        )


class StatesInformer:
    """Joins any number of sources; what two of them claim belongs to the first."""

    def __init__(self, tree: GroupTree, sources: tuple[Source, ...], node: str = "") -> None:
        """`node`: the group that is the node; what lies outside it is another's, and left alone. "": the machine."""
        self._tree = tree
        self._sources = sources
        self._node = node
        self._residents = Residents()
        self._marks: dict[str, tuple[int, int] | None] | None = None
        self._revisions: list[object] = []
        self._scanned = 0.0

    def invalidate(self) -> None:
        """Have the next call read everything again: a group vanished."""
        self._marks = None

    def refresh(self, now: float) -> Residents:
        """Return who runs here at `now` (monotonic); the same object as long as nothing has changed."""
        revisions = [source.revision for source in self._sources]
        is_known = revisions == self._revisions and now - self._scanned < RESCAN
        if self._marks is not None and is_known and self._look() == self._marks:
            return self._residents
        if self._marks is None:
            for source in self._sources:
                source.forget()
        # Looked at before the scan, so that the next one finds what comes while it runs; after it, only what the scan itself found.
        before = self._look()
        residents = self._scan()
        self._scanned, self._marks, self._revisions = now, self._look() | before, revisions
        if residents != self._residents:
            self._residents = residents
        return self._residents

    def _look(self) -> dict[str, tuple[int, int] | None]:
        return {group: self._tree.identity(group) for source in self._sources for group in source.watched()}

    def _scan(self) -> Residents:
        claims = _Claims()
        for source in self._sources:
            for workload in source.scan():
                if self._is_here(workload.cgroup):
                    claims.add(workload)
                elif not source.owns(workload.cgroup):
                    claims.problems.append(f"{workload.key}: {workload.cgroup} lies outside {self._node}, which is the node; left alone")
        workloads = tuple(claims.workloads.values())
        be_parent = self._be_parent(workloads)
        return Residents(
            workloads=workloads,
            be_parent=be_parent,
            kubelet_owned=be_parent is not None and any(source.owns(be_parent) for source in self._sources),
            kubelet_pods=frozenset(each.cgroup for each in workloads if any(source.owns(each.cgroup) for source in self._sources)),
            kubelet_cpusets=next((source.writes_cpusets_below for source in self._sources if source.writes_cpusets_below), None),
            kubelet_may_write=next((source.may_write_cpusets_below for source in self._sources if source.may_write_cpusets_below), None),
            problems=tuple(map(plain, (*claims.problems, *self._problems()))),
        )

    def _is_here(self, group: str) -> bool:
        return not self._node or group.startswith(f"{self._node}/")

    def _problems(self) -> tuple[str, ...]:
        told = tuple(problem for source in self._sources for problem in source.problems)
        if any(source.in_use for source in self._sources):
            return told
        return (f"no workload is declared and no kubelet tree was found under {self._tree.root}", *told)

    def _be_parent(self, workloads: tuple[Workload, ...]) -> str | None:
        """Return the group at which all BE can be limited together, or None.

        It is the one parent of every BE group and of those still to come, is not the root, has no processes of its own, and every group
        right below it is a BE pod, or one that was born after they were listed: nothing else may fall under the limit by accident.
        """
        be_groups = {workload.cgroup for workload in workloads if workload.qos is QoS.BE}
        homes = {home for source in self._sources for home in source.be_homes() if self._is_here(home) and self._tree.identity(home)}
        parents = {_parent(group) for group in be_groups} or homes
        if len(parents) != 1:
            return None
        parent = parents.pop()
        if not parent or self._tree.has_processes(parent):
            return None
        others = {f"{parent}/{name}" for name in self._tree.children(parent)} - be_groups
        if parent in homes:
            others &= {workload.cgroup for workload in workloads}
        return None if others else parent


class _Claims:
    """Workloads in the order in which they claim their groups; no process may count twice, and no name stand for two groups."""

    def __init__(self) -> None:
        self.workloads: dict[str, Workload] = {}
        self.problems: list[str] = []
        self._owners: dict[str, str] = {}  # group -> key of its pod
        self._holders: dict[str, str] = {}  # group above a claimed one -> key of the pod below

    def add(self, workload: Workload) -> None:
        """Take a workload in, or say in `problems` why not; the same group once more is no problem, it belongs to the first."""
        group = workload.cgroup
        if group in self._owners:
            return
        above = _above(group)
        outer = next((name for name in above if name in self._owners), None)
        if workload.key in self.workloads:
            other = self.workloads[workload.key].cgroup
            self.problems.append(f"{workload.key} stands for both {other} and {group}; the first counts")
        elif outer is not None:
            self.problems.append(f"{workload.key}: {group} lies inside {outer}, which is {self._owners[outer]}; the first counts")
        elif group in self._holders:
            self.problems.append(f"{workload.key}: {group} holds {self._holders[group]}; the first counts")
        else:
            self.workloads[workload.key] = workload
            self._owners[group] = workload.key
            self._holders.update(dict.fromkeys(above, workload.key))


def _parent(group: str) -> str:
    return group.rpartition("/")[0]


def _above(group: str) -> list[str]:
    """Return the groups that hold this one, without the root."""
    above = []
    while group := _parent(group):
        above.append(group)
    return above


def _shown(name: str) -> str:
    """Return a group's name as a part of a pod's: text, on one line."""
    return plain(name).replace("\t", r"\t")
