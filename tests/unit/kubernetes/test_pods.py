import msgspec
import pytest

from qosmanager.kubernetes.pod_json import POD
from qosmanager.kubernetes.pods import UnnamedPodError, known_pod
from qosmanager.model.qos import QoS
from qosmanager.model.workload import LatencySource

MIRROR = {"kubernetes.io/config.mirror": "5f1d", "kubernetes.io/config.hash": "5f1d", "kubernetes.io/config.source": "file"}


def of(*, metadata=None, spec=None, status=None, **on_it):
    """`on_it`: labels, annotations."""
    document = {
        "metadata": {"name": "rec-0", "namespace": "batch", "uid": "u-1"} | on_it | (metadata or {}),
        "spec": {"containers": [{"name": "main"}]} | (spec or {}),
        "status": {"phase": "Running", "qosClass": "BestEffort"} | (status or {}),
    }
    return known_pod(POD.decode(msgspec.json.encode(document)))


@pytest.mark.parametrize("name", ["LSE", "LSR", "LS", "BE", "SYSTEM"])
def test_the_label_says_the_class(name):
    found = of(labels={"koordinator.sh/qosClass": name}, metadata={"namespace": "kube-system"}, status={"qosClass": "Guaranteed"})
    assert (found.qos, found.labelled) == (QoS(name), True)


@pytest.mark.parametrize(("given", "qos"), [("Guaranteed", QoS.LSR), ("Burstable", QoS.LS), ("BestEffort", QoS.BE), (None, None)])
def test_without_a_label_kubernetes_own_class_does(given, qos):
    found = of(status={"qosClass": given})
    assert (found.qos, found.labelled) == (qos, False)


def test_system_pods_without_a_label():
    assert of(metadata={"namespace": "kube-system"}).qos is QoS.SYSTEM
    for name in ("system-node-critical", "system-cluster-critical"):
        assert of(spec={"priorityClassName": name}).qos is QoS.SYSTEM
    assert of(spec={"priorityClassName": "critical"}).qos is QoS.BE


def test_a_label_that_is_none_is_told_and_left_aside():
    found = of(labels={"koordinator.sh/qosClass": "be"})
    assert (found.qos, found.labelled) == (QoS.BE, False)
    assert found.problems == ("batch/rec-0: koordinator.sh/qosClass 'be' is not allowed; LSE, LSR, LS, BE or SYSTEM is",)


def test_consent():
    label = "koordinator.sh/eviction-enabled"
    assert [(pod.labelled, pod.critical) for pod in (of(), of(labels={label: "true"}))] == [(False, False), (True, False)]
    withheld = of(labels={label: "false", "koordinator.sh/qosClass": "BE"})
    assert (withheld.labelled, withheld.critical) == (True, True)


def test_critical_pods():
    assert of(annotations={"qosmanager.io/critical": "true"}).critical
    assert not of(annotations={"qosmanager.io/critical": "false"}).critical
    unclear = of(annotations={"qosmanager.io/critical": "yes"})
    assert unclear.critical
    assert "it counts as true" in unclear.problems[0]


def test_priority_is_the_number_or_the_lowest_of_the_named_band():
    assert of(spec={"priority": 9500, "priorityClassName": "koord-prod"}).priority == 9500
    bands = {"koord-prod": 9000, "koord-mid": 7000, "koord-batch": 5000, "koord-free": 3000, "mine": 0}
    for name, lowest in bands.items():
        assert of(spec={"priorityClassName": name}).priority == lowest
    assert of(spec={"priority": 0, "priorityClassName": "koord-prod"}).priority == 0


def test_the_objective():
    assert of(annotations={"qosmanager.io/slo-p99": "150ms"}).slo_p99 == pytest.approx(0.15)
    for text in ("150", "0s", "2h", "soon"):
        found = of(annotations={"qosmanager.io/slo-p99": text})
        assert found.slo_p99 is None
        assert f"qosmanager.io/slo-p99 {text!r} is not allowed" in found.problems[0]


@pytest.mark.parametrize(
    ("text", "address", "url"),
    [
        ("9113/metrics http_seconds", "10.1.2.3", "http://10.1.2.3:9113/metrics"),
        ("9113 http_seconds", "10.1.2.3", "http://10.1.2.3:9113/metrics"),
        ("80/a?b=c http_seconds", "fd00::1", "http://[fd00::1]:80/a?b=c"),
    ],
)
def test_the_latency_is_asked_for_at_the_pods_own_address(text, address, url):
    found = of(annotations={"qosmanager.io/latency": text}, status={"podIP": address})
    assert found.latency == LatencySource(url, "http_seconds")
    assert of(annotations={"qosmanager.io/latency": text}, status={"podIP": None}).latency is None


@pytest.mark.parametrize("text", ["http://169.254.169.254/x h", "9113", "99999/ h", "0/ h", "80@evil/ h", "80/ h 2h", "80.evil.test/ h"])
def test_no_other_address_can_be_named(text):
    found = of(annotations={"qosmanager.io/latency": text}, status={"podIP": "10.1.2.3"})
    assert found.latency is None
    assert "PORT/PATH HISTOGRAM is" in found.problems[0]


def test_who_owns_it():
    references = [{"kind": "Node", "uid": "n"}, {"kind": "DaemonSet", "uid": "d-1", "controller": True}]
    found = of(metadata={"ownerReferences": references})
    assert found.owner == "DaemonSet"
    assert of().owner is None


def test_mirror_and_static_pods_are_kubelets_own_and_named_by_their_hash():
    mirror = of(annotations=MIRROR)
    assert (mirror.owner, mirror.uid, mirror.cgroup_uid) == ("Node", "u-1", "5f1d")
    assert of(annotations={"kubernetes.io/config.source": "http"}).owner == "Node"
    liar = of(annotations={"kubernetes.io/config.hash": "5f1d"})
    assert liar.cgroup_uid == "u-1", "the groups of others are nobody's to claim"
    other = of(annotations={"kubernetes.io/config.source": "api"})
    assert (other.owner, other.cgroup_uid) == (None, "u-1")


def test_how_it_ends():
    assert [of(status={"phase": phase}).terminating for phase in ("Pending", "Running", "Succeeded", "Failed", None)] == [
        False,
        False,
        True,
        True,
        False,
    ]
    ending = of(metadata={"deletionTimestamp": "2026-11-30T00:00:30Z"}, spec={"terminationGracePeriodSeconds": 7})
    assert (ending.terminating, ending.grace) == (True, 7.0)
    assert of().grace == 30.0


def test_when_it_was_created():
    assert of(metadata={"creationTimestamp": "1970-01-01T00:01:00Z"}).created == 60.0
    assert of(metadata={"creationTimestamp": "yesterday"}).created is None


def test_containers_by_their_runtimes_ids():
    statuses = [{"name": "main", "containerID": "containerd://0123"}, {"name": "next", "containerID": None}]
    found = of(status={"containerStatuses": statuses, "initContainerStatuses": [{"name": "side", "containerID": "docker://4567"}]})
    assert found.containers == {"0123": "main", "4567": "side"}


def test_the_cpus_that_koordinators_scheduler_gave_away():
    annotations = {"scheduling.koordinator.sh/resource-status": '{"cpuset": "0-1,4"}'}
    for name, cpus in (("LSE", (0, 1, 4)), ("LSR", (0, 1, 4)), ("LS", ()), ("BE", ())):
        assert of(annotations=annotations, labels={"koordinator.sh/qosClass": name}).exclusive_cpus == cpus
    broken = of(annotations={"scheduling.koordinator.sh/resource-status": "0-1"}, labels={"koordinator.sh/qosClass": "LSE"})
    assert broken.exclusive_cpus == ()
    assert len(broken.problems) == 1


def test_claims_that_are_none_are_told_and_not_taken_for_nothing():
    found = of(spec={"containers": [{"name": "main", "resources": {"limits": {"cpu": "much"}}}]})
    assert found.claims is None
    assert found.problems == ("batch/rec-0: cpu: 'much' is no quantity; its requests and limits are not known",)


def test_null_anywhere_is_as_left_out():
    fields = ("labels", "annotations", "ownerReferences", "creationTimestamp", "deletionTimestamp")
    spec = dict.fromkeys(("containers", "initContainers", "overhead", "priority", "priorityClassName", "terminationGracePeriodSeconds"))
    status = dict.fromkeys(("phase", "qosClass", "podIP", "containerStatuses", "initContainerStatuses"))
    found = of(metadata=dict.fromkeys(fields), spec=spec, status=status)
    assert (found.key, found.qos, found.priority, found.problems) == ("batch/rec-0", None, 0, ())


@pytest.mark.parametrize("missing", ["name", "namespace", "uid"])
def test_what_has_no_name_is_no_pod(missing):
    with pytest.raises(UnnamedPodError):
        of(metadata={missing: None})
