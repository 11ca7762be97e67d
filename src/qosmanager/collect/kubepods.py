"""The pods that kubelet's cgroup tree shows, without asking an API server (specification, section 9: Kubernetes layouts).

systemd driver: `kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid with _>.slice/<runtime>-<id>.scope`; cgroupfs driver:
`kubepods/burstable/pod<uid>/<id>`; Guaranteed pods directly below kubepods in both. kubelet's own --cgroup-root puts all of it elsewhere.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from qosmanager.collect.readings import CpuGrants, CpuManager, GroupReaders, GroupTree
from qosmanager.model.qos import QoS
from qosmanager.model.workload import Container, Workload

NAMESPACE = "kubepods"
USERS = "user.slice"  # where systemd keeps them
DEPTH = 4  # how far below the cgroup root kubelet's tree is looked for (kind: docker/<id>/kubelet/kubepods)
TIERS = {"": QoS.LSR, "burstable": QoS.LS, "besteffort": QoS.BE}
_POD = re.compile(r"(?:.*-)?pod([0-9a-f][0-9a-f_-]{7,})(?:\.slice)?")
_CONTAINER = re.compile(r"(?:[a-z-]+-)?([0-9a-f]{12,64})(?:\.scope)?")


def find_kubepods(tree: GroupTree, node: str = "") -> str | None:
    """Return kubelet's group: the one nearest to the group that is the node ("": the machine), or, where there is none below that, to the
    root; None: there is none within four levels.

    Users' own groups are not looked at: whoever has logged in may make a `kubepods` there, with pods of any request.
    """
    return _nearest(tree, node) or (_nearest(tree, "") if node else None)


def _nearest(tree: GroupTree, top: str) -> str | None:
    level = [top]
    for _ in range(DEPTH):
        below = [f"{group}/{name}" if group else name for group in level if group != USERS for name in tree.children(group)]
        for group in below:
            name = group.rsplit("/", 1)[-1]
            if name in ("kubepods", "kubepods.slice") or name.endswith("-kubepods.slice"):
                return group
        level = below
    return None


class Kubepods:
    """A source of the StatesInformer. The class is that of the tier, for labels are not to be seen here."""

    def __init__(self, tree: GroupTree, readers: GroupReaders, cpu_manager: CpuManager, node: str = "") -> None:
        """`node`: the group that is the node; "": the machine."""
        self._tree = tree
        self._node = node
        self._readers = readers
        self._cpu_manager = cpu_manager
        self._grants = CpuGrants()
        self._root: str | None = None  # kubelet's group; looked for at each scan until it is found
        self._known: dict[str, tuple[tuple[int, int], Workload]] = {}

    revision = None  # groups are all there is to it

    @property
    def in_use(self) -> bool:
        """Whether kubelet's tree was found."""
        return self._root is not None

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be read in the last scan, for people."""
        return (self._grants.problem,) if self._root is not None and self._grants.problem else ()

    @property
    def writes_cpusets_below(self) -> str | None:
        """Return the group below which kubelet writes cpusets itself, as its static CPU policy does; None: it does not."""
        return self._root if self._grants.static else None

    @property
    def may_write_cpusets_below(self) -> str | None:
        """Return that group where it is not known whether kubelet has that policy; None: it is known."""
        return self._root if self._grants.problem else None

    def watched(self) -> list[str]:
        """Return the groups whose link counts tell that a pod came or went."""
        return [] if self._root is None else [self._tier(self._root, name) for name in TIERS]

    def be_homes(self) -> list[str]:
        """Return the group that BE pods are born in."""
        return [] if self._root is None else [self._tier(self._root, "besteffort")]

    def owns(self, group: str) -> bool:
        """Tell whether kubelet writes this group's files."""
        return self._root is not None and (group == self._root or group.startswith(f"{self._root}/"))

    def scan(self) -> list[Workload]:
        """Return the pods in order of their groups."""
        if self._root is None:
            self._root = find_kubepods(self._tree, self._node)
        if self._root is None:
            return []
        self._grants = self._cpu_manager.grants()
        known: dict[str, tuple[tuple[int, int], Workload]] = {}
        for name, qos in TIERS.items():
            tier = self._tier(self._root, name)
            for child, identity in self._tree.children(tier).items():
                match = _POD.fullmatch(child)
                group = f"{tier}/{child}"
                if match:
                    before = self._known.get(group)
                    # Unchanged inode and number of containers: the pod as known, without reading its directory again.
                    same = before is not None and before[0] == identity
                    known[group] = before if same and before else (identity, self._pod(group, match[1].replace("_", "-"), qos))
        self._known = known
        return [self._with_grant(workload) for _, workload in known.values()]

    def _with_grant(self, workload: Workload) -> Workload:
        cpus = self._grants.by_uid.get(workload.uid)
        return replace(workload, exclusive_cpus=cpus) if cpus else workload

    def forget(self) -> None:
        """Have the next scan read all again: a container that was replaced leaves the link count as it was."""
        self._known.clear()

    @staticmethod
    def _tier(root: str, name: str) -> str:
        """Return a tier's group; below the systemd driver's `x.slice` it is `x-burstable.slice`."""
        if not name:
            return root
        last = root.rsplit("/", 1)[-1]
        return f"{root}/{last.removesuffix('.slice')}-{name}.slice" if last.endswith(".slice") else f"{root}/{name}"

    def _pod(self, group: str, uid: str, qos: QoS) -> Workload:
        containers = []
        for child in self._tree.children(group):
            match = _CONTAINER.fullmatch(child)
            if match and "conmon" not in child:  # CRI-O's monitor sits beside the container it watches
                containers.append(Container(name=match[1][:12], cgroup=f"{group}/{child}"))
        return Workload(
            name=f"pod{uid}",
            namespace=NAMESPACE,
            uid=uid,
            qos=qos,
            cgroup=group,
            created=self._tree.created(group),
            labelled=False,
            cpu_request=None if qos is QoS.BE else self._request(group),
            containers=tuple(containers),
        )

    def _request(self, group: str) -> float | None:
        """Return what the group's weight stands for; kubelet made the weight from the request."""
        reader = self._readers.open(group)
        try:
            return reader.weight()
        except Exception:  # noqa: BLE001 - whatever is wrong with the group shows again, with its reason, when it is measured
            return None
        finally:
            reader.close()
