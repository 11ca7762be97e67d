from qosmanager.model.qos import QoS
from qosmanager.model.snapshot import Node, Pod, Snapshot
from qosmanager.views.gaps import not_measured


def lines(missing, swap_total=None, pods=()):
    return list(not_measured(Snapshot(node=Node(cpus=1, swap_total=swap_total), pods=pods, missing=missing)))


def test_readings_are_gathered_by_their_reason():
    assert lines({"node.load1": "a", "node.iowait": "b", "node.net_util": "a"}) == ["a: node.load1, node.net_util", "b: node.iowait"]


def test_readings_in_no_formula_are_left_out():
    pods = (Pod(name="s", qos=QoS.SYSTEM),)
    assert lines({"node.steal": "a", "pods.default/s.cpu.usage": "a"}, pods=pods) == []


def test_swap_use_is_asked_for_only_where_there_is_swap():
    assert lines({"node.swap_used": "a"}) == []
    assert lines({"node.swap_used": "a"}, swap_total=1) == ["a: node.swap_used"]


def test_many_pods_are_counted_and_few_are_named():
    pods = tuple(Pod(name=f"p{number}", qos=QoS.BE) for number in range(4))
    missing = {f"pods.{pod.key}.memory.rss": "a" for pod in pods}
    assert lines(missing, pods=pods) == ["a: memory.rss (4 pods)"]
    assert lines(missing, pods=pods[:2]) == ["a: memory.rss (default/p0, default/p1)"]
