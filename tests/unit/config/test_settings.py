"""What settings say of themselves (specification, sections 2, 6 and 9)."""

from qosmanager.config.settings import CpuBurstSettings, MemoryEvictSettings, Settings, VictimOrder
from qosmanager.model.qos import Mode, Plugin


def test_in_a_dry_run_what_would_act_only_observes_and_the_node_is_counted_as_ever():
    settings = Settings(
        cpu_burst=CpuBurstSettings(mode=Mode.OFF, burst_ratio=2.0), memory_evict=MemoryEvictSettings(order=VictimOrder.PRIORITY)
    )
    dry = settings.observing()
    assert {plugin: dry.mode(plugin) for plugin in Plugin} == {
        Plugin.NODE_QOS_RESOURCE: Mode.ENFORCE,
        Plugin.SYSTEM_QOS_RESOURCE: Mode.ENFORCE,
        Plugin.CPU_BURST: Mode.OFF,
        Plugin.CPU_SUPPRESS: Mode.OBSERVE,
        Plugin.CPU_EVICT: Mode.OBSERVE,
        Plugin.MEMORY_EVICT: Mode.OBSERVE,
    }
    assert (dry.cpu_burst, dry.memory_evict.order) == (settings.cpu_burst, VictimOrder.PRIORITY)
