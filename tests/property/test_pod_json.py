"""Whatever an API server, a proxy or a person writes: a pod that is understood, or one that is refused as what it is."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from qosmanager.kubernetes.api import Answer
from qosmanager.kubernetes.pod_json import POD
from qosmanager.kubernetes.pod_list import Untrue, read_page
from qosmanager.kubernetes.pods import CONSENT_LABEL, CPUS_ANNOTATION, CRITICAL, LATENCY, QOS_LABEL, SLO, UnnamedPodError, known_pod

WORDS = st.one_of(
    st.text(max_size=20), st.sampled_from(["BE", "true", "100ms", "9113/m h", "1e999", "500m", "2Gi", "-1", '{"cpuset": "0-3"}'])
)
QUANTITIES = st.one_of(WORDS, st.integers(), st.floats(allow_nan=False, allow_infinity=False))
RESOURCES = st.dictionaries(st.sampled_from(["cpu", "memory", "kubernetes.io/batch-cpu"]), QUANTITIES, max_size=3) | st.none()
CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": WORDS, "resources": st.fixed_dictionaries({"requests": RESOURCES, "limits": RESOURCES})}), max_size=3
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=9,
)
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {
                "name": st.just("rec-0"),
                "namespace": st.just("batch"),
                "uid": st.just("u"),
                "labels": st.dictionaries(st.sampled_from([QOS_LABEL, CONSENT_LABEL]), WORDS),
                "annotations": st.dictionaries(st.sampled_from([CRITICAL, SLO, LATENCY, CPUS_ANNOTATION]), WORDS),
                "creationTimestamp": WORDS,
            }
        ),
        "spec": st.fixed_dictionaries(
            {"containers": CONTAINERS, "initContainers": CONTAINERS, "overhead": RESOURCES, "priority": st.integers(-(2**31), 2**31)}
        ),
        "status": st.fixed_dictionaries({"podIP": WORDS, "qosClass": WORDS, "containerStatuses": CONTAINERS}),
    }
)


def refusal(answer):
    try:
        read_page(answer)
    except Untrue as error:
        return error
    return None


@given(PODS)
def test_what_people_write_on_a_pod_never_costs_more_than_itself(document):
    found = known_pod(POD.decode(msgspec.json.encode(document)))
    assert found.key == "batch/rec-0"
    assert all("\n" not in problem for problem in found.problems)
    if found.claims is not None:
        assert found.claims.cpu_request >= 0
        assert found.claims.cpu_limit is None or found.claims.cpu_limit >= 0
    assert found.slo_p99 is None or 0 < found.slo_p99 <= 3600
    assert found.latency is None or found.latency.url.startswith("http://")


@given(ANY_JSON | st.fixed_dictionaries({"metadata": ANY_JSON, "spec": ANY_JSON, "status": ANY_JSON}))
def test_json_of_anything_else_is_refused_as_that(document):
    try:
        known_pod(POD.decode(msgspec.json.encode(document)))
    except (msgspec.DecodeError, UnnamedPodError):
        return


@given(
    st.binary(max_size=200) | ANY_JSON.map(msgspec.json.encode),
    st.integers(100, 599),
    st.dictionaries(st.sampled_from(["content-type", "retry-after"]), WORDS),
)
def test_an_answer_is_a_list_or_untrue(body, status, headers):
    error = refusal(Answer(status, headers, body))
    assert error is None or ("\n" not in str(error) and error.retry_after >= 0)
