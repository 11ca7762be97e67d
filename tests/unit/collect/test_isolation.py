"""How often the kernel is asked how it isolates BE."""

from __future__ import annotations

from qosmanager.collect.isolation import IsolationReader
from qosmanager.collect.states_informer import Residents
from qosmanager.config.settings import IsolationSettings, Settings, Switch
from qosmanager.model.qos import QoS
from qosmanager.model.workload import Workload

API = Workload(name="api", qos=QoS.LS, cgroup="web/api")
JOB = Workload(name="job", qos=QoS.BE, cgroup="batch/job")
SYSTEM = Workload(name="sshd", qos=QoS.SYSTEM, cgroup="system.slice/sshd")
HERE = Residents(workloads=(API, JOB, SYSTEM), be_parent="batch")


class Kernel:
    def __init__(self, holds=True):
        self.holds = holds
        self.asked = []

    def shielded(self, batch, services):
        self.asked.append((list(batch), list(services)))
        return self.holds, "because"

    def memory(self, group):
        return len(group)


def test_the_weights_are_looked_at_after_2_s_then_every_10_s():
    kernel = Kernel()
    reader = IsolationReader(kernel, Settings())
    missing = {}
    answers = [reader.shielded(float(now), HERE, missing) for now in range(23)]
    assert answers == [True] * 23
    assert kernel.asked == [(["batch"], ["web/api"])] * 4  # at 0, 2, 12 and 22 s
    assert missing == {}


def test_other_settings_have_them_looked_at_again():
    kernel = Kernel()
    reader = IsolationReader(kernel, Settings())
    for now in range(10):
        if now == 5:
            reader.configure(Settings(isolation=IsolationSettings(memory=Switch.AUTO)))
        reader.shielded(float(now), HERE, {})
    assert len(kernel.asked) == 4  # at 0 and 2 s; at 5 s and, when what changed is done, at 7 s


def test_pods_of_batch_without_a_group_of_their_own_are_named_one_by_one():
    kernel = Kernel()
    IsolationReader(kernel, Settings()).shielded(0.0, Residents(workloads=(API, JOB)), {})
    assert kernel.asked == [(["batch/job"], ["web/api"])]


def test_not_known_is_no_and_has_a_reason():
    missing = {}
    assert IsolationReader(Kernel(None), Settings()).shielded(0.0, HERE, missing) is False
    assert missing == {"be_shielded": "because"}
    assert IsolationReader(Kernel(False), Settings()).shielded(0.0, HERE, missing := {}) is False
    assert missing == {}


def test_memory_is_read_only_while_it_is_asked_for():
    reader = IsolationReader(Kernel(), Settings())
    assert reader.memory(HERE) is None
    reader.configure(Settings(isolation=IsolationSettings(memory=Switch.AUTO)))
    assert reader.memory(HERE) == 5
    assert reader.memory(Residents(workloads=(JOB,))) is None
