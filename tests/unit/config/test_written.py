import pytest
from hypothesis import given

from qosmanager.config.parse import Loaded, load, load_settings
from qosmanager.config.presets import Preset
from qosmanager.config.settings import CpuEvictSettings, Settings, SystemReserved
from qosmanager.config.written import Change, changes, effective_yaml
from qosmanager.documents.quantities import written_bytes
from qosmanager.model.qos import Mode
from worlds import settings as any_settings


def test_each_value_tells_where_it_comes_from():
    loaded = load("qosManager:\n  preset: latency-first\n  cpuPressure:\n    low: 30\n  cpuBurst: {enabled: false}\n", "qos.yaml")
    lines = effective_yaml(loaded).splitlines()
    assert lines[:6] == [
        "qosManager:",
        "  syncPeriod: 1s                      # default",
        "  cpuPressure:",
        "    low: 30                           # qos.yaml:4",
        "    medium: 50                        # preset latency-first",
        "    high: 65                          # preset latency-first",
    ]
    assert '    mode: "off"                       # qos.yaml:5' in lines


@given(any_settings())
def test_what_is_shown_reads_back_to_the_same_settings(wanted):
    assert load_settings(effective_yaml(Loaded(wanted, {})), "shown") == wanted


def test_quantities_and_durations_are_written_exactly():
    wanted = Settings(
        sync_period=0.25,
        system_reserved=SystemReserved(cpu=1.5, memory=1_500 << 20),
        cpu_evict=CpuEvictSettings(evict_cooldown=90.0, mode=Mode.OBSERVE),
    )
    text = effective_yaml(Loaded(wanted, {}))
    assert "syncPeriod: 250ms " in text
    assert "memory: 1500Mi " in text
    assert "evictCooldown: 90s " in text
    assert load_settings(text, "shown") == wanted


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0"), (1, "1"), (1024, "1Ki"), (1025, "1025"), (3 << 40, "3Ti"), (1_000_000_000, "1000000000")]
)
def test_bytes(amount, text):
    assert written_bytes(amount) == text


def test_presets_tell_what_they_change():
    assert changes(Preset.BALANCED) == ()
    assert Change("cpuBurst.burstRatio", "2", "1.5") in changes(Preset.LATENCY_FIRST)
    assert changes(Preset.THROUGHPUT_FIRST)[-1] == Change("cpuEvict.mode", '"off"', "enforce")
