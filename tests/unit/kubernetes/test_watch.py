"""What the watch does in time that passes only when the test says so: silence, back-off, doubt."""

import json
from contextlib import contextmanager

import pytest

from loopback_api.faults import HTML
from qosmanager.kubernetes.api import Answer, ApiUnreachable, WatchRefused
from qosmanager.kubernetes.watch import PodWatch

JSON = {"content-type": "application/json"}


class Script:
    """An API server and the clock: each answer takes some seconds. `lists` and `watches` are what is answered, the last one for ever."""

    def __init__(self, lists=(), watches=()):
        self.now = 0.0
        self.lists, self.watches = list(lists), list(watches)
        self.asked = []

    def monotonic(self):
        return self.now

    def wall(self):
        return 1.7e9 + self.now

    def _next(self, planned):
        seconds, told = planned.pop(0) if len(planned) > 1 else planned[0]
        self.now += seconds
        if isinstance(told, Exception):
            raise told
        return told

    def request(self, *_, query=None, **__):
        self.asked.append(dict(query or {}))
        return self._next(self.lists)

    @contextmanager
    def watch(self, _, query, read_timeout):
        self.asked.append(dict(query))
        told = self._next(self.watches)
        yield self._lines(told, read_timeout)

    def _lines(self, told, read_timeout):
        for seconds, line in told:
            self.now += min(seconds, read_timeout)
            if seconds > read_timeout:
                raise ApiUnreachable("no word from it")
            if isinstance(line, Exception):
                raise line
            if line:
                yield line


def pod(name, **labels):
    return {
        "metadata": {"name": name, "namespace": "batch", "uid": name, "resourceVersion": "7", "labels": labels},
        "status": {"qosClass": "BestEffort"},
    }


def listed(*pods, version="5", following="", status=200):
    page = {"kind": "PodList", "metadata": {"resourceVersion": version, "continue": following}, "items": list(pods)}
    return Answer(status, JSON, json.dumps(page).encode())


def event(kind, what):
    return json.dumps({"type": kind, "object": what}).encode()


EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
BOOKMARK = event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "9", "creationTimestamp": None}, "spec": {"containers": None}})
QUIET = [(20.0, None)]


def watching(lists, watches):
    script = Script(lists, watches)
    return script, PodWatch(script, "worker-1", script, lambda: 1.0)


def names(watch):
    return set(watch.known.by_group())


def test_a_quiet_watch_is_begun_anew_where_it_ended_and_nothing_is_older_than_it():
    script, watch = watching([(0.1, listed(pod("a")))], [(0.1, QUIET)])
    for _ in range(10):
        assert watch.once() == 0.0
        assert watch.known.age() == 0.0
    watches = [query for query in script.asked if "watch" in query]
    assert len(script.asked) == len(watches) + 1
    assert {query["resourceVersion"] for query in watches} == {"5"}
    assert watches[0]["fieldSelector"] == "spec.nodeName=worker-1"
    assert watches[0]["allowWatchBookmarks"] == "true"


def test_ten_minutes_of_silence_wipe_nothing_and_show():
    silent = ApiUnreachable("no word from it")
    script, watch = watching([(0.0, listed(pod("a"))), (10.0, silent)], [(0.0, [(3600.0, None)]), (5.0, silent)])
    wait = watch.once()
    assert script.now == 25.0  # given up
    assert watch.problem == "no word from it"
    while script.now < 600:
        script.now += wait
        wait = watch.once()
    assert names(watch) == {"a"}
    assert watch.known.age() == script.now
    assert len(script.asked) < 50
    script.watches = [(0.0, [(1.0, event("ADDED", pod("b")))])]
    watch.once()
    assert names(watch) == {"a", "b"}
    assert watch.known.age() == 0.0
    assert watch.problem == ""


def test_the_knowledge_of_a_silent_server_is_30_s_old_when_it_is_found_out_that_it_does_not_come_back():
    silent = ApiUnreachable("no word from it")
    script, watch = watching([(0.0, listed(pod("a")))], [(0.0, [(3600.0, None)]), (5.0, silent)])
    wait = watch.once()
    script.now += wait
    assert watch.known.age() == 25.5
    watch.once()
    assert watch.known.age() == 30.5


def test_a_watch_that_closes_at_once_is_tried_less_and_less_often():
    script, watch = watching([(0.0, listed(pod("a")))], [(0.0, [])])
    assert [watch.once() for _ in range(7)] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 16.0]
    script.watches = [(0.0, QUIET)]
    assert watch.once() == 0.0
    script.watches = [(0.0, [])]
    assert watch.once() == 0.5


def test_an_end_at_once_is_no_sign_that_nothing_was_missed():
    script, watch = watching([(0.0, listed(pod("a")))], [(0.0, [])])
    watch.once()
    script.now += 10
    watch.once()
    assert watch.known.age() == 10.0


def test_waits_are_spread():
    script = Script([(0.0, listed())], [(0.0, [])])
    watch = PodWatch(script, "worker-1", script, lambda: 0.0)
    assert [watch.once() for _ in range(3)] == [0.25, 0.5, 1.0]


@pytest.mark.parametrize("stream", [True, False])
def test_a_version_that_is_too_old_is_listed_anew_and_from_the_newest(stream):
    refused = WatchRefused(Answer(410, JSON, json.dumps(EXPIRED).encode()))
    gone = (0.0, [(0.1, event("ERROR", EXPIRED))]) if stream else (0.0, refused)
    script, watch = watching([(0.0, listed(pod("a"))), (0.0, listed(pod("b"), version="8"))], [gone, (0.0, QUIET)])
    watch.once()
    assert "410" in watch.problem
    watch.once()
    first, _, second, after = script.asked
    assert first["resourceVersion"] == "0"
    assert "resourceVersion" not in second
    assert after["resourceVersion"] == "8"
    assert {uid: each.terminating for uid, each in watch.known.by_group().items()} == {"a": True, "b": False}


def test_a_list_comes_in_pages():
    pages = [(0.0, listed(pod("a"), following="x")), (0.0, listed(pod("b"), following="y")), (0.0, listed(pod("c"), version="6"))]
    script, watch = watching(pages, [(0.0, QUIET)])
    watch.once()
    assert names(watch) == {"a", "b", "c"}
    assert [query.get("continue") for query in script.asked[:3]] == [None, "x", "y"]
    assert script.asked[3]["resourceVersion"] == "6"


def test_a_list_whose_pages_expire_on_the_way_changes_nothing_and_begins_anew():
    expired = Answer(410, JSON, json.dumps(EXPIRED).encode())
    script, watch = watching([(0.0, listed(pod("a"), following="x")), (0.0, expired), (0.0, listed(pod("b")))], [(0.0, QUIET)])
    watch.once()
    assert names(watch) == set()
    watch.once()
    assert names(watch) == {"b"}
    assert "continue" not in script.asked[2]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(200, {"content-type": "text/html"}, HTML), "text/html instead of a list of pods"),
        (Answer(502, {"content-type": "text/html; charset=utf-8"}, HTML), "answered 502 with text/html"),
        (Answer(200, JSON, b'{"kind": "Status"}'), "a Status instead of a list of pods"),
        (Answer(200, JSON, b""), "something instead of a list of pods"),
        (Answer(200, JSON, b'{"kind": "PodList", "items": []}'), "a list without a version"),
        (Answer(401, JSON, b'{"message": "Unauthorized"}'), "answered 401 (Unauthorized); the token or client certificate is not accepted"),
        (Answer(403, JSON, b'{"message": "no"}'), "answered 403 (no); the permission to list and watch pods is needed"),
        (listed(), "no pods at all, where there were some"),
    ],
)
def test_an_answer_that_tells_nothing_wipes_nothing(answer, said):
    script, watch = watching([(0.0, listed(pod("a"))), (0.0, answer)], [(0.0, [(0.1, event("ERROR", EXPIRED))])])
    watch.once()
    script.now += 10.0
    assert watch.once() > 0
    assert said in watch.problem
    assert names(watch) == {"a"}
    assert watch.known.age() == pytest.approx(10.1)


def test_what_the_server_asks_for_is_waited_for_up_to_a_minute():
    for asked, waited in (("7", 7.0), ("3600", 60.0), ("soon", 0.5)):
        busy = Answer(429, JSON | {"retry-after": asked}, b"{}")
        assert watching([(0.0, busy)], [(0.0, QUIET)])[1].once() == waited


def test_a_watch_that_tells_html_is_no_sign_of_anything_and_is_listed_anew():
    script, watch = watching([(0.0, listed(pod("a")))], [(0.0, [(6.0, HTML)]), (0.0, QUIET)])
    watch.once()
    assert watch.problem == "a watch that tells something else than events"
    assert watch.known.age() == 6.0
    watch.once()
    assert [("watch" in query) for query in script.asked] == [False, True, False, True]


def test_a_bookmark_with_nulls_moves_on():
    script, watch = watching([(0.0, listed(pod("a")))], [(0.0, [(1.0, BOOKMARK), (1.0, ApiUnreachable("the connection was cut"))])])
    watch.once()
    watch.once()
    assert script.asked[-1]["resourceVersion"] == "9"
    assert watch.known.age() == 1.0


def test_a_pod_that_is_not_understood_is_told_and_the_others_go_on():
    strange = pod("a") | {"spec": {"containers": "many"}}
    lists = [(0.0, listed(pod("b"), pod("c") | {"status": []}))]
    script, watch = watching(lists, [(0.0, [(1.0, event("ADDED", strange)), (1.0, event("ADDED", pod("d")))]), (0.0, QUIET)])
    watch.once()
    assert names(watch) == {"b", "d"}
    assert len(watch.problems) == 2
    script.watches = [(0.0, [(1.0, event("MODIFIED", pod("a")))])]
    watch.once()
    assert names(watch) == {"a", "b", "d"}
    assert len(watch.problems) == 1


def test_a_pod_that_was_never_understood_goes_like_any_other():
    strange = {"spec": {"containers": "many"}}
    gone = [(1.0, event("DELETED", pod(name) | strange)) for name in ("a", "b")]
    _, watch = watching([(0.0, listed(pod("b")))], [(0.0, [(1.0, event("ADDED", pod("a") | strange)), *gone])])
    watch.once()
    assert watch.problems == ()
    assert watch.known.by_group()["b"].terminating
    assert names(watch) == {"b"}


def test_a_clock_that_jumps_changes_no_age():
    script, watch = watching([(0.0, listed(pod("a")))], [(0.0, QUIET)])
    script.wall = lambda: 0.0
    watch.once()
    script.wall = lambda: 4e9
    assert watch.known.age() == 0.0
