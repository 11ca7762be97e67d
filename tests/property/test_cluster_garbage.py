"""Whatever an API server, a proxy on the way or a person with an annotation says: nothing raises, nothing is believed by accident."""

import json
import math

from hypothesis import given
from hypothesis import strategies as st

from cluster_parts import Paper
from measuring import HandClock
from qosmanager.kubernetes.answers import Right, body_of, is_success, refusal, retry_after
from qosmanager.kubernetes.api import Answer
from qosmanager.kubernetes.memory import AgentMemory
from qosmanager.kubernetes.node_pause import NodePause
from qosmanager.kubernetes.node_status import shown_leaks

KEYS = st.sampled_from(["kind", "status", "message", "details", "retryAfterSeconds", "metadata", "uid", "leaking", "owner", "at", "spent"])
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.sampled_from(["Status", "Failure", "Pod"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
BODIES = st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode())
HEADERS = st.dictionaries(
    st.just("retry-after"), st.text(max_size=12) | st.integers().map(str) | st.sampled_from(["inf", "nan", "-1", "1e999"])
)


@given(st.integers(100, 599), HEADERS, BODIES)
def test_any_answer_can_be_judged(status, headers, body):
    answer = Answer(status, headers, body)
    wait = retry_after(answer)
    assert wait is None or (math.isfinite(wait) and 0 < wait <= 3600)
    told = refusal(answer, Right("create", "pods/eviction", "batch"))
    assert told.isprintable()
    assert len(told) < 500
    found = body_of(answer)
    if is_success(answer):
        assert 200 <= status < 300
        assert isinstance(found, dict)
        assert isinstance(found["kind"], str)
        assert found.get("status") != "Failure"


@given(
    st.text(max_size=40)
    | st.from_regex(r"[0-9]{1,6}(ms|s|m|h)", fullmatch=True)
    | st.from_regex(r"20[0-9]{2}-0?[1-9]-[0-9]{2}T1[0-9]:00:00Z", fullmatch=True)
)
def test_any_annotation_pauses_for_at_most_a_week_or_says_why_not(text):
    clock = HandClock()
    pause = NodePause(AgentMemory(Paper(), clock), "boot-1", clock)
    pause.take(text)
    found = pause.current()
    assert found is None or clock.now < found.ends <= clock.now + 7 * 86400
    assert pause.problem.isprintable()
    assert found is None or not pause.problem


@given(st.text(max_size=40) | JSON.map(json.dumps))
def test_any_status_annotation_shows_leaks_or_is_not_understood(text):
    found = shown_leaks(text)
    assert found is None or all(owner == leak.owner for owner, leak in found.items())


@given(BODIES)
def test_any_kept_memory_leaves_an_agent_that_works(text):
    memory = AgentMemory(Paper(text), HandClock())
    memory.spend("uid-1", "owner-1")
    assert memory.exhausted(1) != ""
    assert memory.rests("uid-2", "owner-1") != ""
