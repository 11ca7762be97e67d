"""The node judged: each fact, whether it stands in the way, and what would mend it (specification, sections 3, 4 and 9)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

from msgspec import Struct

from qosmanager.config.settings import CpuIsolation, Settings, Switch
from qosmanager.doctor.host import Host, Kubelet, Trial
from qosmanager.documents.quantities import shown_bytes, size

_DESCRIPTORS = 4096  # a node of 110 pods needs some 600
_RAM_FILESYSTEMS = ("tmpfs", "ramfs")
_FULL = (5, 14)  # kernel: cpu.max.burst, cgroup.kill


class Mark(Enum):
    """How a fact stands: fine, worse than it could be, in the way, or not known; a note is neither good nor bad."""

    OK = "ok"
    NOTE = "note"
    UNKNOWN = "unknown"
    DEGRADED = "degraded"
    IMPOSSIBLE = "impossible"


class Finding(Struct, frozen=True, kw_only=True):
    """One fact about the node."""

    subject: str
    mark: Mark
    text: str
    fix: str = ""


def findings(host: Host, settings: Settings) -> tuple[Finding, ...]:
    """Judge a node for an agent with these settings."""
    return (
        _kernel(host.kernel),
        _cgroups(host),
        _rights(host),
        *_writes(host),
        *_knobs(host, settings),
        *_stalls(host),
        _fast_path(host, settings),
        _swap(host),
        *_kubelet(host, settings),
        _foreign(host.foreign),
        _clock(host),
        *_state(host),
        _descriptors(host),
        _oom_score(host),
        _systemd(host),
    )


def _kernel(release: str) -> Finding:
    match = re.match(r"(\d+)\.(\d+)", release)
    old = match is not None and (int(match[1]), int(match[2])) < _FULL
    text = f"Linux {release}"
    if not old:
        return Finding(subject="kernel", mark=Mark.OK, text=text)
    text += ", older than 5.14: no kernel burst, and on v2 no cgroup.kill"
    return Finding(subject="kernel", mark=Mark.DEGRADED, text=text, fix="a newer kernel; limits and evictions work without")


def _cgroups(host: Host) -> Finding:
    if host.cgroup_problem:
        return Finding(
            subject="cgroups", mark=Mark.IMPOSSIBLE, text=host.cgroup_problem, fix="mount cgroups, or name their root: --cgroup-root"
        )
    text = ", ".join(f"{name} v{version}" for name, version in host.versions.items() if version is not None)
    absent = [name for name in ("cpu", "memory") if host.versions.get(name) is None]
    if not absent:
        return Finding(subject="cgroups", mark=Mark.OK, text=text)
    fix = "kernel command line: no cgroup_disable=; on v2, cgroup.subtree_control"
    return Finding(subject="cgroups", mark=Mark.IMPOSSIBLE, text=f"{text}; not there: {', '.join(absent)}", fix=fix)


def _rights(host: Host) -> Finding:
    if host.root:
        return Finding(subject="rights", mark=Mark.OK, text="root")
    return Finding(subject="rights", mark=Mark.UNKNOWN, text="not root: what root could do was not tried", fix="run the doctor as root")


def _writes(host: Host) -> Iterator[Finding]:
    for controller, trial in host.writes.items():
        subject = f"{controller} limit"
        yield _tried(subject, trial, Mark.IMPOSSIBLE, "is /sys/fs/cgroup mounted read-only, or a capability missing?")


def _knobs(host: Host, settings: Settings) -> Iterator[Finding]:
    """What is not there is a lack only where the settings ask for it."""
    isolation = settings.isolation
    asked = {"cpu": isolation.cpu is CpuIsolation.IDLE}
    asked |= {name: getattr(isolation, name) is Switch.AUTO for name in ("services", "memory", "io")}
    for name, trial in host.knobs.items():
        setting, _, subject = name.partition(": ")
        otherwise = Mark.DEGRADED if asked[setting] else Mark.NOTE
        yield _tried(subject, trial, otherwise, f"isolation.{setting}: off" if asked[setting] else "")


def _stalls(host: Host) -> Iterator[Finding]:
    fix = "boot with psi=1, a kernel with CONFIG_PSI"
    yield _tried("PSI, node", host.node_stall, Mark.DEGRADED, fix)
    yield _tried("PSI, groups", host.group_stall, Mark.DEGRADED, f"{fix}, and a cgroup v2 tree (also beside v1)")


def _fast_path(host: Host, settings: Settings) -> Finding:
    if not settings.fast_path.enabled:
        return Finding(subject="fast path", mark=Mark.NOTE, text="off: fastPath.enabled is false")
    if host.group_stall.ok is None:
        return Finding(subject="fast path", mark=Mark.UNKNOWN, text=host.group_stall.detail or "not tried")
    if not host.group_stall.ok:
        text = "off: without PSI of groups a surge is answered in the cycle after it"
        return Finding(subject="fast path", mark=Mark.DEGRADED, text=text, fix="boot with psi=1, and a cgroup v2 tree (also beside v1)")
    by_kernel = ", those at rest by kernel triggers" if host.stall_trigger.ok else f"; no kernel triggers: {host.stall_trigger.detail}"
    text = f"services are looked at every {settings.fast_path.interval * 1000:.0f} ms{by_kernel}"
    if host.versions.get("cpu") == 1:
        # Which services that are the running agent tells (doctor/pods.py).
        return Finding(
            subject="fast path", mark=Mark.NOTE, text=f"of services whose processes sit in a v2 group of the same path too: {text}"
        )
    return Finding(subject="fast path", mark=Mark.OK, text=text)


def _swap(host: Host) -> Finding:
    if host.swap_total is None:
        return Finding(subject="swap", mark=Mark.UNKNOWN, text="/proc/meminfo does not tell")
    if host.swap_total == 0:
        return Finding(subject="swap", mark=Mark.NOTE, text="none: the swap factor is left out and the others are scaled")
    return Finding(subject="swap", mark=Mark.NOTE, text=f"{shown_bytes(host.swap_total)}; what a pod has there counts as held")


def _kubelet(host: Host, settings: Settings) -> Iterator[Finding]:
    kubelet = host.kubelet
    if kubelet is None:
        yield Finding(subject="kubelet", mark=Mark.NOTE, text="none here; workloads come from workload files")
        return
    if kubelet.static is None:
        yield Finding(
            subject="kubelet CPUs", mark=Mark.DEGRADED, text=kubelet.problem, fix="run as root; CPUs given to single pods are not known"
        )
    else:
        policy = "static: its pods' own CPUs are kept free of batch work" if kubelet.static else "none: it gives no CPUs to single pods"
        yield Finding(subject="kubelet CPUs", mark=Mark.OK, text=f"policy {policy}")
    yield _eviction(kubelet, host.memory_total, settings)


def _eviction(kubelet: Kubelet, total: int | None, settings: Settings) -> Finding:
    subject = "kubelet eviction"
    shown = ", ".join(f"{name} {value}" for name, value in kubelet.eviction.items())
    threshold = max((_amount(value, total) for name, value in kubelet.eviction.items() if name.endswith("memory.available")), default=None)
    if not kubelet.eviction:
        return Finding(subject=subject, mark=Mark.UNKNOWN, text=kubelet.problem or "its thresholds are not readable here")
    ours = None if total is None else settings.memory_evict.min_available * total
    if threshold is None or ours is None or threshold < ours:
        return Finding(subject=subject, mark=Mark.OK, text=shown)
    text = f"{shown}: kubelet evicts before MemoryEvict, which waits for {shown_bytes(ours)}"
    return Finding(subject=subject, mark=Mark.DEGRADED, text=text, fix="memoryEvict.minAvailable above kubelet's memory.available")


def _amount(text: str, total: int | None) -> float:
    """Return a threshold in bytes, 0 for one that is not understood."""
    try:
        return float(text[:-1]) / 100 * (total or 0) if text.endswith("%") else float(size(text))
    except ValueError:
        return 0.0


def _foreign(foreign: str | None) -> Finding:
    if foreign is None:
        return Finding(subject="other agents", mark=Mark.OK, text="none that writes the same files")
    return Finding(subject="other agents", mark=Mark.IMPOSSIBLE, text=foreign, fix="stop it, or run with --dry-run")


def _clock(host: Host) -> Finding:
    source = f", clock source {host.clock_source}" if host.clock_source else ""
    if host.synchronised is None:
        return Finding(subject="clock", mark=Mark.UNKNOWN, text=f"the kernel does not tell whether it is synchronised{source}")
    if host.synchronised:
        return Finding(subject="clock", mark=Mark.OK, text=f"synchronised{source}")
    text = f"not synchronised{source}; decisions use a clock that never jumps, times in logs may be wrong"
    return Finding(subject="clock", mark=Mark.NOTE, text=text, fix="run chrony or systemd-timesyncd")


def _state(host: Host) -> Iterator[Finding]:
    yield _tried("state directory", host.state_write, Mark.IMPOSSIBLE, f"{host.state_dir} must be writable by the agent alone: --state-dir")
    if host.state_filesystem in _RAM_FILESYSTEMS:
        yield Finding(subject="journal", mark=Mark.OK, text=f"{host.state_dir} is on {host.state_filesystem}")
    else:
        on = host.state_filesystem or "an unknown file system"
        text = f"{host.state_dir} is on {on}: a write may wait 200 ms behind batch work"
        yield Finding(subject="journal", mark=Mark.DEGRADED, text=text, fix="--state-dir, on a tmpfs (findmnt -t tmpfs)")


def _descriptors(host: Host) -> Finding:
    text = f"up to {host.open_files}"
    if host.open_files >= _DESCRIPTORS:
        return Finding(subject="open files", mark=Mark.OK, text=text)
    return Finding(
        subject="open files", mark=Mark.DEGRADED, text=f"{text}: 110 pods need some 600", fix=f"LimitNOFILE={_DESCRIPTORS} or more"
    )


def _oom_score(host: Host) -> Finding:
    return _tried("oom_score_adj", host.oom_score, Mark.DEGRADED, "CAP_DAC_OVERRIDE for other users' processes, and a writable /proc")


def _systemd(host: Host) -> Finding:
    if host.systemd:
        return Finding(subject="systemd", mark=Mark.OK, text="runs here; `qosmanager install-service` installs the units")
    return Finding(
        subject="systemd", mark=Mark.NOTE, text="does not run here: something else must start the agent, and `restore --if-expired`"
    )


def _tried(subject: str, trial: Trial, otherwise: Mark, fix: str) -> Finding:
    if trial.ok is None:
        return Finding(subject=subject, mark=Mark.UNKNOWN, text=trial.detail or "not tried")
    if trial.ok:
        return Finding(subject=subject, mark=Mark.OK, text=trial.detail or "can be written")
    return Finding(subject=subject, mark=otherwise, text=trial.detail, fix=fix)
