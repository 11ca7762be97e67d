"""What each plugin can do on this node: active, degraded or impossible, why, and the fix (specification, section 5)."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from msgspec import Struct

from qosmanager.config.settings import Policy, Settings, Trigger
from qosmanager.doctor.host import Host, Trial
from qosmanager.model.qos import Mode, Plugin


class Ability(Enum):
    """`unknown`: what it needs could not be tried here."""

    ACTIVE = "active"
    DEGRADED = "degraded"
    IMPOSSIBLE = "impossible"
    UNKNOWN = "unknown"
    OBSERVES = "observes"
    OFF = "off"


class Lack(Struct, frozen=True, kw_only=True):
    """Something that a plugin needs and has not."""

    ability: Ability
    why: str
    fix: str


class PluginFinding(Struct, frozen=True, kw_only=True):
    """One plugin. `lacks` also names what a plugin that is off or observes would lack."""

    plugin: str
    ability: Ability
    lacks: tuple[Lack, ...] = ()


_WORST = (Ability.IMPOSSIBLE, Ability.UNKNOWN, Ability.DEGRADED)


def plugin_findings(host: Host, settings: Settings) -> tuple[PluginFinding, ...]:
    """Judge each plugin, in the order in which they run."""
    return tuple(_judged(plugin, tuple(_lacks(plugin, host, settings)), settings.mode(plugin)) for plugin in Plugin)


def _judged(plugin: Plugin, lacks: tuple[Lack, ...], mode: Mode) -> PluginFinding:
    ability = next((worst for worst in _WORST if any(lack.ability is worst for lack in lacks)), Ability.ACTIVE)
    if mode is Mode.OFF:
        ability = Ability.OFF
    elif mode is Mode.OBSERVE and ability in (Ability.ACTIVE, Ability.DEGRADED):
        ability = Ability.OBSERVES
    return PluginFinding(plugin=plugin.value, ability=ability, lacks=lacks)


def _lacks(plugin: Plugin, host: Host, settings: Settings) -> Iterator[Lack]:
    match plugin:
        case Plugin.NODE_QOS_RESOURCE:
            yield from _weight(host)
        case Plugin.SYSTEM_QOS_RESOURCE:
            yield from _usage(host)
        case Plugin.CPU_BURST:
            yield from _acting(host)
            yield from _limit(host, "cpu")
        case Plugin.CPU_SUPPRESS:
            yield from _acting(host)
            yield from _usage(host)
            yield from _suppressing(host, settings)
        case Plugin.CPU_EVICT:
            yield from _acting(host)
            yield from _ending(host)
            yield from _waiting(host, settings)
        case Plugin.MEMORY_EVICT:
            yield from _acting(host)
            yield from _ending(host)
            yield from _memory(host)


def _acting(host: Host) -> Iterator[Lack]:
    if host.cgroup_problem:
        yield Lack(ability=Ability.IMPOSSIBLE, why=host.cgroup_problem, fix="name the cgroup root: --cgroup-root")
    if host.foreign is not None:
        yield Lack(ability=Ability.IMPOSSIBLE, why=host.foreign, fix="stop the other agent")
    if host.state_write.ok is False:
        yield Lack(ability=Ability.IMPOSSIBLE, why=f"no journal: {host.state_write.detail}", fix="a writable --state-dir")


def _weight(host: Host) -> Iterator[Lack]:
    if not host.cgroup_problem and host.versions.get("cpu") is None:
        yield Lack(ability=Ability.DEGRADED, why="no cpu controller: BE has no smallest weight", fix="enable the cpu controller")


def _usage(host: Host) -> Iterator[Lack]:
    if not host.cgroup_problem and all(host.versions.get(name) is None for name in ("cpuacct", "cpu", "unified")):
        yield Lack(ability=Ability.IMPOSSIBLE, why="no hierarchy tells the CPU use of groups", fix="enable cpuacct, or mount cgroup v2")


def _limit(host: Host, controller: str) -> Iterator[Lack]:
    if host.cgroup_problem:
        return
    if host.versions.get(controller) is None:
        yield Lack(ability=Ability.IMPOSSIBLE, why=f"no {controller} controller", fix=f"enable the {controller} controller")
        return
    trial = host.writes.get(controller, Trial(None, "not tried"))
    if trial.ok is None:
        yield Lack(ability=Ability.UNKNOWN, why=f"{controller} limit: {trial.detail}", fix="run the doctor as root")
    elif not trial.ok:
        yield Lack(ability=Ability.IMPOSSIBLE, why=f"{controller} limit: {trial.detail}", fix="cgroups that can be written, and root")


def _suppressing(host: Host, settings: Settings) -> Iterator[Lack]:
    if settings.cpu_suppress.policy is Policy.CFS_QUOTA:
        yield from _limit(host, "cpu")
        return
    yield from _limit(host, "cpuset")
    if host.kubelet is not None and host.kubelet.static is not False and host.versions.get("cpuset") == 1:
        policy = "static policy" if host.kubelet.static else "policy is not known; the static one"
        why = f"kubelet's {policy} writes the cpusets of all containers itself"
        yield Lack(ability=Ability.DEGRADED, why=why, fix="cpuSuppress.policy: cfsQuota")


def _ending(host: Host) -> Iterator[Lack]:
    if not host.root:
        yield Lack(ability=Ability.UNKNOWN, why="ending other users' processes was not tried", fix="run the doctor as root")


def _waiting(host: Host, settings: Settings) -> Iterator[Lack]:
    if host.group_stall.ok is not False:
        return
    fix = "PSI of groups: psi=1 and a cgroup v2 tree"
    if settings.cpu_evict.trigger is Trigger.BOTH:
        why = "no PSI of groups: that a service waits for CPU is never known, and with trigger both nobody is evicted"
        yield Lack(ability=Ability.IMPOSSIBLE, why=why, fix=f"{fix}; or trigger: either")
    else:
        yield Lack(ability=Ability.DEGRADED, why="no PSI of groups: waiting for CPU is not known", fix=fix)


def _memory(host: Host) -> Iterator[Lack]:
    if not host.cgroup_problem and host.versions.get("memory") is None:
        why = "no memory controller: what a pod holds is not known, and such pods are no victims"
        yield Lack(ability=Ability.IMPOSSIBLE, why=why, fix="enable the memory controller (cgroup_enable=memory)")
    if host.node_stall.ok is False:
        yield Lack(ability=Ability.DEGRADED, why="no memory PSI: one sign of OOM risk is missing", fix="psi=1, CONFIG_PSI")
    if host.oom_score.ok is False:
        yield Lack(ability=Ability.DEGRADED, why="the kernel may kill a service first", fix=f"oom_score_adj: {host.oom_score.detail}")
