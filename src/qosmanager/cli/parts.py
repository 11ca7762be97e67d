"""The parts of an agent put together: the acting side, the measuring side (specification, section 9)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from qosmanager.cli.errors import CannotRunError
from qosmanager.collect.kubepods import Kubepods
from qosmanager.collect.readings import NodeReader
from qosmanager.collect.sampler import Sampler, Sources
from qosmanager.collect.states_informer import RuleSource, StatesInformer
from qosmanager.config.settings import Settings
from qosmanager.execute.actuator import Actuator, Enforcer, Recorder
from qosmanager.execute.evictor import Evictor
from qosmanager.execute.resource_executor import ResourceExecutor
from qosmanager.execute.shield import Shield
from qosmanager.linux.boot import LinuxBoot
from qosmanager.linux.cgroup import CgroupRootError, Hierarchies, safe_group
from qosmanager.linux.cgroup_reader import CgroupReaders, home_controller
from qosmanager.linux.cgroup_tree import CgroupTree
from qosmanager.linux.descriptor import ENOUGH, SPARED, allow_many_descriptors
from qosmanager.linux.disks import BlockDevices
from qosmanager.linux.evictions import LocalEvictions
from qosmanager.linux.foreign import foreign_agent
from qosmanager.linux.group_node import GroupNode
from qosmanager.linux.host import HostNode
from qosmanager.linux.journal import FileJournal
from qosmanager.linux.kubelet import KubeletCpus
from qosmanager.linux.latency import PrometheusLatencies
from qosmanager.linux.lock import LockHeldError, NodeLock, TreeLock
from qosmanager.linux.processes import ProcScores
from qosmanager.linux.shelf import FileShelf
from qosmanager.linux.systemd import Systemd
from qosmanager.model.actions import Knob
from qosmanager.model.workload import WorkloadRule
from qosmanager.ports import Clock, Shelf
from qosmanager.views.cluster import ClusterView
from qosmanager.views.log_lines import pairs

if TYPE_CHECKING:
    from qosmanager.cli.kubernetes import Joined

_LOG = logging.getLogger("qosmanager")


class Acting(Struct, frozen=True):
    """The acting side. `own_limit` tells the limit in cores that a group had before we raised it (None: we did not), `allowed_cpus` the
    CPUs that all of some groups may have without us (empty: not known). `renew` puts lock and journal back where somebody has removed them,
    and tells so; it raises LockHeldError or OSError. `shield` looks at how the kernel isolates BE, `knobs` says how all that stands."""

    hierarchies: Hierarchies
    actuator: Actuator
    own_limit: Callable[[str], float | None]
    allowed_cpus: Callable[[Collection[str]], frozenset[int]]
    renew: Callable[[], bool]
    shield: Shield
    knobs: Callable[[], tuple[Knob, ...]]
    shelf: Shelf | None = None  # for what is learned; None: what only records keeps nothing


class Wanted(Struct, frozen=True, kw_only=True):
    """What is to be measured: the whole machine or one cgroup as the node, the declared workloads."""

    node_cgroup: str | None
    rules: tuple[WorkloadRule, ...]
    settings: Settings
    cluster: Joined | None = None  # None: the node is none of a cluster


class Measuring(Struct, frozen=True):
    """The measuring side, and how it takes other settings and declarations into use; the cluster that it listens to, if it does."""

    readings: Sampler
    use_settings: Callable[[Settings], None]
    use_rules: Callable[[tuple[WorkloadRule, ...]], None]
    cluster: Joined | None = None

    def view(self) -> ClusterView | None:
        """Return what is shown of the cluster; None: there is none."""
        return None if self.cluster is None else self.cluster.view()


def hierarchies_at(root: Path) -> Hierarchies:
    """Probe the cgroup root. Raises CannotRunError."""
    try:
        return Hierarchies.probe(root)
    except CgroupRootError as error:
        raise CannotRunError(f"--cgroup-root: {error}") from None


def acting(cgroup_root: Path, state_dir: Path | None, stack: ExitStack, cluster: Joined | None = None) -> Acting:
    """Build what acts; `state_dir` None: what only records; with a `cluster`, its pods are evicted by it. The lock is held until `stack`
    unwinds. Raises CannotRunError."""
    hierarchies = hierarchies_at(cgroup_root)
    shield = Shield(hierarchies)
    if state_dir is None:
        return Acting(hierarchies, Recorder(), lambda _: None, lambda _: frozenset(), lambda: False, shield, lambda: (shield.knob(),))
    try:
        lock = stack.enter_context(NodeLock(state_dir))
    except LockHeldError as error:
        raise CannotRunError(f"{error}; --dry-run needs no lock") from None
    except OSError as error:
        raise CannotRunError(
            f"--state-dir {state_dir}: {error.strerror or error}; a directory that can be written is needed; --dry-run needs none"
        ) from None
    journal = FileJournal(state_dir)
    executor = ResourceExecutor(hierarchies, journal, ProcScores(), LinuxBoot(), BlockDevices())
    local = LocalEvictions(hierarchies, Systemd())
    evictor = Evictor(local if cluster is None else cluster.evictions(local, hierarchies, stack))
    return Acting(
        hierarchies,
        Enforcer(executor, evictor),
        executor.own_limit,
        executor.allowed_cpus,
        lambda: any([lock.renew(), journal.renew()]),
        shield,
        lambda: (*executor.knobs(), shield.knob()),
        FileShelf(state_dir / "forecast.json"),
    )


def alone() -> None:
    """Make sure that no other agent writes what this one writes. Raises CannotRunError."""
    if (foreign := foreign_agent()) is not None:
        raise CannotRunError(f"{foreign}; stop it, or use --dry-run; --beside-koordlet where it writes no limits")


def own_node(group: str | None, hierarchies: Hierarchies, stack: ExitStack) -> None:
    """Make sure that no other agent acts on the node's groups until `stack` unwinds. Raises CannotRunError."""
    try:
        stack.enter_context(TreeLock(hierarchies.directory(home_controller(hierarchies), safe_group(group or ""))))
    except LockHeldError as error:
        raise CannotRunError(f"{error}; --dry-run needs no lock") from None


def measuring(wanted: Wanted, acting: Acting, clock: Clock, stack: ExitStack) -> Measuring:
    """Build what measures; it ends when `stack` unwinds. Raises CannotRunError when the node's cgroup is not there."""
    hierarchies = acting.hierarchies
    if (limit := allow_many_descriptors()) < ENOUGH:
        few = f"files are kept open up to {max(limit - SPARED, 0)}, the others are opened at each reading; {ENOUGH} keep those of 110 pods"
        _LOG.warning(pairs("FewDescriptors", limit=limit, problem=few))
    tree, readers = CgroupTree(hierarchies), CgroupReaders(hierarchies)
    latencies, cpu_manager = PrometheusLatencies(clock), KubeletCpus()

    reader, node = _node(wanted.node_cgroup, hierarchies)
    cluster = wanted.cluster

    def informer(rules: tuple[WorkloadRule, ...]) -> StatesInformer:
        kubepods = Kubepods(tree, readers, cpu_manager, node)
        return StatesInformer(tree, (RuleSource(tree, rules), kubepods if cluster is None else cluster.source(kubepods)), node)

    sources = Sources(
        clock=clock,
        node=reader,
        groups=readers,
        informer=informer(wanted.rules),
        latencies=latencies,
        own_limit=acting.own_limit,
        allowed_cpus=acting.allowed_cpus,
        pods_age=_unasked if cluster is None else cluster.pods_age,
        evictions_barred=_unbarred if cluster is None else cluster.evictions_barred,
        isolated=acting.shield,
        shelf=acting.shelf,
    )
    sampler = Sampler(sources, wanted.settings)
    stack.callback(sampler.close)

    def use(settings: Settings) -> None:
        sampler.configure(settings)
        if cluster is not None:
            cluster.use(settings)

    use(wanted.settings)
    return Measuring(sampler, use, lambda rules: sampler.inform(informer(rules)), cluster)


def _unasked() -> None:
    """How old what a cluster says is, where none is asked."""


def _unbarred() -> str:
    return ""


def _node(group: str | None, hierarchies: Hierarchies) -> tuple[NodeReader, str]:
    """What reads the node, and the group that it is ("": the machine)."""
    if group is None:
        return HostNode(), ""
    try:
        return GroupNode(hierarchies, safe_group(group)), safe_group(group)
    except (OSError, ValueError) as error:
        raise CannotRunError(f"--node-cgroup {group}: {error}; a cgroup below the cgroup root is needed") from None
