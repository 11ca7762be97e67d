from builders import be, ls
from qosmanager.collect.suspicion import Suspicion
from qosmanager.model.snapshot import PodObserved


def minutes(tracker, pods_at, seconds=310):
    """Look once a second; return what is said at last."""
    found = ()
    for second in range(seconds):
        found = tracker.look(1000.0 + second, pods_at(second))
    return found


def on(second):
    return second // 30 % 2 == 1


def contended(second):
    busy = on(second)
    return [
        ls("api", usage=1.0, wait=0.5 if busy else 0.05),
        ls("calm", usage=1.0, wait=0.0),
        be("burner", usage=2.0 if busy else 0.1),
        be("steady", usage=1.0),
    ]


def test_who_burns_while_a_service_waits_is_suspected():
    # Seconds 270 to 299 are of the busy half; the last whole moment is 290 to 299.
    found = minutes(Suspicion(), contended, seconds=301)
    assert [each.pod for each in found] == ["shop/api"], "the one that suffers"
    assert [(suspect.pod, suspect.by) for suspect in found[0].suspects] == [("batch/burner", "cpu")]
    assert found[0].suspects[0].confidence > 0.6


def test_nobody_is_suspected_while_no_service_suffers():
    assert minutes(Suspicion(), contended, seconds=331) == ()


def test_a_service_above_its_objective_suffers_though_it_does_not_stall():
    found = minutes(Suspicion(), lambda _: [ls("api", usage=1.0, wait=0.0, p99=0.3, slo=0.1), be("etl", usage=1.0)], seconds=101)
    assert [each.pod for each in found] == ["shop/api"]
    assert found[0].suspects == ()
    assert found[0].why_none.startswith("not enough history")


def test_io_is_told_from_cpu():
    def pods(second):
        busy = on(second)
        api = ls("api", usage=1.0, wait=0.0, observed=PodObserved(io_psi_some=60.0 if busy else 1.0, memory_psi_full=0.0))
        writer = be("writer", usage=1.0, observed=PodObserved(io_read=0.0, io_write=5e8 if busy else 1e6))
        return [api, writer, be("burner", usage=1.5, observed=PodObserved(io_read=0.0, io_write=0.0))]

    found = minutes(Suspicion(), pods, seconds=291)
    assert [(suspect.pod, suspect.by) for suspect in found[0].suspects] == [("batch/writer", "io")]


def test_it_is_judged_each_ten_seconds_from_what_lies_between():
    tracker = Suspicion()
    minutes(tracker, contended, seconds=301)
    said = tracker.attributions
    assert tracker.look(1301.0, [ls("api", usage=1.0, wait=0.0)]) is said


def test_a_successor_is_not_suspected_for_what_one_of_its_name_used():
    def pods(second):
        return [ls("api", usage=1.0, wait=0.5 if on(second) else 0.05), be("batch-0", usage=2.0 if on(second) else 0.1, uid="u1")]

    tracker = Suspicion()
    assert minutes(tracker, pods, seconds=301)[0].suspects
    later = [*pods(290)[:1], be("batch-0", usage=2.0, uid="u2")]
    found = [tracker.look(1301.0 + second, later) for second in range(10)][-1]
    assert (found[0].suspects, found[0].why_none[:18]) == ((), "not enough history")


def test_a_pod_that_is_gone_is_forgotten():
    tracker = Suspicion()
    minutes(tracker, contended, seconds=301)
    later = [tracker.look(1301.0 + second, [ls("api", usage=1.0, wait=0.9)]) for second in range(21)][-1]
    assert later[0].why_none == "no BE pod runs here"
