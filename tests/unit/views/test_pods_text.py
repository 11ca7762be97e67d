from msgspec.structs import replace

from qosmanager.model.qos import QoS
from qosmanager.model.snapshot import Pod, PodCpu, PodLatency, PodMemory
from qosmanager.views.pods_text import pods_text

API = Pod(
    name="api",
    namespace="shop",
    qos=QoS.LS,
    cpu=PodCpu(request=1.0, limit=2.0, usage=0.2617),
    memory=PodMemory(request=128 * 2**20, rss=3 * 2**20),
    latency=PodLatency(slo=0.05),
)
JOB = Pod(name="job", qos=QoS.BE)


def test_each_pod_stands_with_its_class_and_what_it_asks_for_services_first():
    assert pods_text([JOB, API], []) == (
        "Pods\n"
        "  LS     shop/api: CPU 0.2617 of 1 requested, limit 2; memory 3Mi of 128Mi requested; SLO 50 ms\n"
        "  BE     default/job: CPU -, no request; memory -, no request\n"
    )


def test_what_cannot_be_followed_stands_below():
    assert pods_text([], ["default/api: no cgroup x"]) == "Pods\n  none\n\nProblems\n  - default/api: no cgroup x\n"


def test_every_class_has_its_place():
    shown = pods_text([replace(JOB, qos=qos) for qos in reversed(QoS)], []).splitlines()[1:]
    assert [line.split()[0] for line in shown] == ["LSE", "LSR", "LS", "BE", "SYSTEM"]
