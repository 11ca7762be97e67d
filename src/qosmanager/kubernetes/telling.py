"""What the cluster is told of each cycle: events where something begins, and the node's status (specification, section 7)."""

from __future__ import annotations

from qosmanager.config.settings import Settings
from qosmanager.engine.runner import Listener
from qosmanager.kubernetes.events import Events, Happening
from qosmanager.kubernetes.node import NodeWriter
from qosmanager.model.record import CycleRecord
from qosmanager.views.reports import PAUSED, degradations, starving_text
from qosmanager.views.status import starved_tens

_BARRED = "barred"  # the rule under which a plan says that nobody can be evicted


class Telling:
    """Tells the cluster of each cycle, then the listener behind it. Nothing here waits."""

    def __init__(self, behind: Listener, events: Events, node: NodeWriter) -> None:
        self._behind = behind
        self._events = events
        self._node = node
        self._degraded: frozenset[str] = frozenset()
        self._starved = 0
        self._barred: frozenset[str] = frozenset()

    def cycle_done(self, record: CycleRecord, settings: Settings) -> None:
        self._node.observe(record)
        self._tell_degraded(degradations(record))
        self._tell_starving(record)
        self._tell_barred(record)
        self._behind.cycle_done(record, settings)

    def cycle_failed(self, error: Exception) -> None:
        self._say("QoSDegraded", "HoldBack", f"a cycle failed: {type(error).__name__}: {error}", "cycle_failed")
        self._behind.cycle_failed(error)

    def rejected(self, problems: str) -> None:
        """Tell that a changed configuration was refused and the old one stays in force."""
        self._say("QoSConfigRejected", "KeepOld", f"the old configuration stays in force: {problems}", "config")

    def _tell_degraded(self, now: dict[str, str]) -> None:
        names = frozenset(now.keys() - {PAUSED})
        for name in sorted(names - self._degraded):
            self._say("QoSDegraded", "HoldBack", now[name], name)
        self._degraded = names

    def _tell_starving(self, record: CycleRecord) -> None:
        tens = starved_tens(record.state)
        if tens > self._starved:
            self._say("BestEffortStarving", "Suppress", starving_text(record), "starving")
        self._starved = tens

    def _tell_barred(self, record: CycleRecord) -> None:
        """An eviction that is decided and withheld is told once for as long as that lasts."""
        barred = {refusal.plugin.value: refusal.reason for refusal in record.plan.refusals if refusal.rule == _BARRED}
        for plugin in sorted(barred.keys() - self._barred):
            self._say("EvictionWithheld", "Withhold", f"{plugin} would evict, but {barred[plugin]}", f"barred-{plugin}")
        self._barred = frozenset(barred)

    def _say(self, reason: str, action: str, note: str, topic: str) -> None:
        self._events.say(Happening(about=self._events.node, reason=reason, action=action, note=note, topic=topic))
