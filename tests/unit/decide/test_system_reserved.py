"""NodeQOSResource and SystemQOSResource: what there is, and what is left (specification, sections 5.1 and 5.2)."""

import pytest

from builders import GIB, be, decided, ls, snapshot
from qosmanager.config.settings import Settings, SystemQosResourceSettings, SystemReserved
from qosmanager.model.qos import Mode, Plugin, QoS


def reserved(configured=0.0, given=0.0, usage=5.0, mode=Mode.ENFORCE):
    reading = snapshot(ls(usage=1.0), be(usage=1.0), ls("kube-proxy", QoS.SYSTEM, usage=1.0), cpu_usage=usage, system_reserved=given)
    settings = Settings(system_reserved=SystemReserved(cpu=configured), system_qos_resource=SystemQosResourceSettings(mode=mode))
    return decided(reading, settings=settings).resources


def test_the_system_and_its_pods_are_reserved_for_as_measured():
    resources = reserved()
    assert (resources.system_usage, resources.system_reserved, resources.node_available) == (3.0, 3.0, 13.0)


@pytest.mark.parametrize(("configured", "given", "expected"), [(4.0, 0.0, 4.0), (0.0, 4.0, 4.0), (2.0, 1.0, 3.0), (5.0, 4.0, 5.0)])
def test_the_largest_of_configured_given_and_measured_holds(configured, given, expected):
    assert reserved(configured, given).system_reserved == expected


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.OBSERVE])
def test_without_the_plugin_the_configured_reservation_alone_holds(mode):
    resources = reserved(configured=1.0, mode=mode)
    assert (resources.system_reserved, resources.node_available) == (1.0, 15.0)


def test_a_plugin_left_out_of_the_list_is_off():
    plugins = tuple(plugin for plugin in Plugin if plugin is not Plugin.SYSTEM_QOS_RESOURCE)
    reading = snapshot(cpu_usage=5.0)
    assert decided(reading, settings=Settings(plugins=plugins)).resources.system_reserved == 0


def test_a_pod_without_a_reading_hides_the_system_usage():
    assert decided(snapshot(ls(), cpu_usage=5.0)).resources.system_reserved == 0


def test_a_system_pod_without_a_reading_hides_nothing():
    assert decided(snapshot(ls("kube-proxy", QoS.SYSTEM), cpu_usage=5.0)).resources.system_reserved == 5.0


def test_the_allowance_of_batch_is_what_ls_requests_leave():
    pods = (ls("a", usage=0.0, request=3.0), ls("b", QoS.LSE, usage=0.0, request=4.0, exclusive_cpus=(0, 1, 2, 3)))
    resources = decided(snapshot(*pods, cpu_usage=1.0)).resources
    assert (resources.ls_request, resources.be_allowance, resources.exclusive_cpus) == (7.0, 8.0, 4.0)


def test_an_lse_pod_has_its_exclusive_cpus_or_else_its_request():
    pods = (ls("a", QoS.LSE, usage=0.0, request=3.0, exclusive_cpus=(0, 1)), ls("b", QoS.LSE, usage=0.0, request=1.5), ls("c", QoS.LSE))
    assert decided(snapshot(*pods, cpu_usage=1.0)).resources.exclusive_cpus == 3.5


def test_requests_above_the_node_leave_batch_nothing():
    assert decided(snapshot(ls(usage=0.0, request=20.0), cpu_usage=1.0)).resources.be_allowance == 0


def test_the_memory_of_batch_is_what_the_reservation_and_ls_requests_leave():
    settings = Settings(system_reserved=SystemReserved(memory=2 * GIB))
    pods = (ls("a", usage=0.0, memory_request=5 * GIB), ls("b", usage=0.0), be(usage=0.0, memory_request=4 * GIB))
    assert decided(snapshot(*pods, cpu_usage=1.0, memory_total=16 * GIB), settings=settings).resources.be_memory == 9 * GIB
    assert decided(snapshot(*pods, cpu_usage=1.0, memory_total=6 * GIB), settings=settings).resources.be_memory == 0
    assert decided(snapshot(*pods, cpu_usage=1.0), settings=settings).resources.be_memory is None
