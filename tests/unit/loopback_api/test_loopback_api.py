"""The loopback API server of these tests, judged from outside: by the official Python client, and by kubectl where there is one."""

from __future__ import annotations

import json
import threading

import kubernetes
import pytest
from kubernetes.client.exceptions import ApiException

from kubectl import kubectl
from loopback_api.objects import NODE, budget, config_map, node, pod
from loopback_api.server import LoopbackApi


@pytest.fixture
def api():
    with LoopbackApi() as server:
        yield server


@pytest.fixture
def official(api, tmp_path):
    config = kubernetes.client.Configuration()
    kubernetes.config.load_kube_config(str(api.write_kubeconfig(tmp_path / "kubeconfig")), client_configuration=config)
    config.retries = False
    with kubernetes.client.ApiClient(config) as client:
        yield client


@pytest.fixture
def core(official):
    return kubernetes.client.CoreV1Api(official)


def _eviction(name, **options):
    meta = kubernetes.client.V1ObjectMeta(name=name, namespace="batch")
    return kubernetes.client.V1Eviction(metadata=meta, delete_options=kubernetes.client.V1DeleteOptions(**options))


def test_it_lists_the_pods_of_one_node(api, core):
    api.store.create("pods", pod("rec-0"))
    api.store.create("pods", pod("rec-1", node="worker-2"))
    found = core.list_pod_for_all_namespaces(field_selector=f"spec.nodeName={NODE}")
    assert [(each.metadata.name, each.spec.containers[0].name) for each in found.items] == [("rec-0", "main")]


def test_it_lists_in_pages(api, core):
    for number in range(5):
        api.store.create("pods", pod(f"rec-{number}"))
    first = core.list_namespaced_pod("batch", limit=3)
    second = core.list_namespaced_pod("batch", limit=3, _continue=first.metadata._continue)
    assert [each.metadata.name for each in first.items + second.items] == [f"rec-{number}" for number in range(5)]
    assert second.metadata._continue is None


def test_a_page_after_compaction_is_expired(api, core):
    for number in range(3):
        api.store.create("pods", pod(f"rec-{number}"))
    first = core.list_namespaced_pod("batch", limit=2)
    api.store.compact()
    with pytest.raises(ApiException) as refused:
        core.list_namespaced_pod("batch", limit=2, _continue=first.metadata._continue)
    assert refused.value.status == 410


def test_a_watch_tells_what_happens_and_where_it_is(api, core):
    api.store.create("pods", pod("rec-0"))
    version = core.list_namespaced_pod("batch").metadata.resource_version
    api.store.create("pods", pod("rec-1"))
    api.store.delete("pods", "batch", "rec-0")
    seen = kubernetes.watch.Watch().stream(
        core.list_pod_for_all_namespaces, resource_version=version, timeout_seconds=1, allow_watch_bookmarks=True, deserialize=False
    )
    told = [(event["type"], event["object"]["metadata"].get("name")) for event in seen]
    assert told[:3] == [("ADDED", "rec-1"), ("DELETED", "rec-0"), ("BOOKMARK", None)]


def test_a_watch_from_a_version_that_is_too_old_is_gone(api, core):
    api.store.create("pods", pod("rec-0"))
    api.store.compact()
    with pytest.raises(ApiException) as refused:
        list(kubernetes.watch.Watch().stream(core.list_namespaced_pod, "batch", resource_version="1", timeout_seconds=1))
    assert refused.value.status == 410


def test_the_stream_itself_may_say_that_it_is_too_old(api, core):
    api.expired_as_status = False
    api.store.compact()
    with pytest.raises(ApiException) as refused:
        list(kubernetes.watch.Watch().stream(core.list_namespaced_pod, "batch", resource_version="1", timeout_seconds=1))
    assert (refused.value.status, "Expired" in str(refused.value.reason)) == (410, True)


def test_an_eviction_ends_a_pod_after_its_grace(api, core):
    api.store.create("pods", pod("rec-0", grace=40))
    core.create_namespaced_pod_eviction("rec-0", "batch", _eviction("rec-0", grace_period_seconds=7))
    meta = core.read_namespaced_pod("rec-0", "batch").metadata
    assert (meta.deletion_timestamp is not None, meta.deletion_grace_period_seconds) == (True, 7)
    core.create_namespaced_pod_eviction("rec-0", "batch", _eviction("rec-0", grace_period_seconds=0))
    with pytest.raises(ApiException) as gone:
        core.read_namespaced_pod("rec-0", "batch")
    assert gone.value.status == 404


def test_a_pod_goes_by_itself_when_its_grace_is_over(api, core):
    api.store.create("pods", pod("rec-0", grace=1))
    gone = threading.Event()

    def look():
        for event in kubernetes.watch.Watch().stream(core.list_namespaced_pod, "batch", timeout_seconds=20, _request_timeout=30):
            if event["type"] == "DELETED":
                gone.set()
                return

    watching = threading.Thread(target=look)
    watching.start()
    kubernetes.client.CoreV1Api(core.api_client).create_namespaced_pod_eviction("rec-0", "batch", _eviction("rec-0"))
    watching.join(20)
    assert gone.is_set()


def test_a_disruption_budget_refuses_and_says_which(api, core):
    api.store.create("pods", pod("rec-0", labels={"app": "rec"}))
    api.store.create("poddisruptionbudgets", budget("keep", {"app": "rec"}, allowed=0))
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod_eviction("rec-0", "batch", _eviction("rec-0"))
    told = json.loads(refused.value.body)
    assert (refused.value.status, told["details"]["causes"][0]["reason"]) == (429, "DisruptionBudget")
    assert "Retry-After" not in refused.value.headers


def test_a_budget_that_is_not_settled_says_when_to_come_again(api, core):
    api.store.create("pods", pod("rec-0", labels={"app": "rec"}))
    api.store.create("poddisruptionbudgets", budget("keep", {"app": "rec"}, allowed=1, settled=False))
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod_eviction("rec-0", "batch", _eviction("rec-0"))
    assert (refused.value.status, refused.value.headers["Retry-After"]) == (429, "10")


def test_a_budget_is_used_up(api, core):
    for name in ("rec-0", "rec-1"):
        api.store.create("pods", pod(name, labels={"app": "rec"}))
    api.store.create("poddisruptionbudgets", budget("keep", {"app": "rec"}, allowed=1))
    core.create_namespaced_pod_eviction("rec-0", "batch", _eviction("rec-0"))
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod_eviction("rec-1", "batch", _eviction("rec-1"))
    assert refused.value.status == 429


def test_a_pod_under_two_budgets_cannot_be_evicted(api, core):
    api.store.create("pods", pod("rec-0", labels={"app": "rec", "tier": "low"}))
    api.store.create("poddisruptionbudgets", budget("one", {"app": "rec"}, allowed=1))
    api.store.create("poddisruptionbudgets", budget("two", {"tier": "low"}, allowed=1))
    answer = core.create_namespaced_pod_eviction("rec-0", "batch", _eviction("rec-0"), _preload_content=False)
    assert (answer.status, json.loads(answer.data)["status"]) == (201, "Failure")
    assert "deletionTimestamp" not in api.store.get("pods", "batch", "rec-0")["metadata"]


def test_an_eviction_of_another_pod_of_that_name_is_a_conflict(api, core):
    api.store.create("pods", pod("rec-0", uid="new"))
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod_eviction("rec-0", "batch", _eviction("rec-0", preconditions={"uid": "old"}))
    assert (refused.value.status, "UID in precondition: old, UID in object meta: new" in refused.value.body) == (409, True)


def test_a_nodes_annotations_and_status_are_patched_each_on_its_own(api, core):
    api.store.create("nodes", node())
    core.patch_node(NODE, {"metadata": {"annotations": {"a": "1"}}, "status": {"capacity": {"cpu": "9"}}})
    core.patch_node_status(NODE, {"status": {"allocatable": {"kubernetes.io/batch-cpu": "1500"}}, "spec": {"unschedulable": True}})
    found = core.read_node(NODE)
    assert (found.metadata.annotations, found.spec.unschedulable) == ({"a": "1"}, None)
    assert (found.status.capacity["cpu"], found.status.allocatable["kubernetes.io/batch-cpu"]) == ("4", "1500")
    core.patch_node(NODE, {"metadata": {"annotations": {"a": None}}})
    assert not core.read_node(NODE).metadata.annotations


def test_an_event_is_made_and_becomes_a_series(official, core):
    events = kubernetes.client.EventsV1Api(official)
    moment = "2026-11-30T10:00:00.000000Z"
    about = {"apiVersion": "v1", "kind": "Pod", "name": "rec-0", "namespace": "batch"}
    who = {"reportingController": "qosmanager.io/agent", "reportingInstance": NODE, "type": "Warning", "action": "Evict"}
    body = {"metadata": {"name": "rec-0.1"}, "regarding": about, "eventTime": moment, "reason": "Evicted", "note": "why", **who}
    events.create_namespaced_event("batch", body)
    events.patch_namespaced_event("rec-0.1", "batch", {"series": {"count": 2, "lastObservedTime": moment}})
    (seen,) = core.list_namespaced_event("batch").items
    assert (seen.reason, seen.message, seen.involved_object.name, seen.series.count) == ("Evicted", "why", "rec-0", 2)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"action": ""}, "action"),
        ({"reportingInstance": ""}, "reportingInstance"),
        ({"note": "x" * 1025}, "1024"),
        ({"type": "Loud"}, "type"),
        ({"regarding": {"kind": "Node", "name": NODE}}, "namespace"),
        ({"series": {"count": 1, "lastObservedTime": "2026-11-30T10:00:00.000000Z"}}, "series.count"),
    ],
)
def test_an_event_that_a_real_server_refuses_is_refused(official, change, named):
    about = {"apiVersion": "v1", "kind": "Pod", "name": "rec-0", "namespace": "batch"}
    who = {"reportingController": "qosmanager.io/agent", "reportingInstance": NODE, "type": "Warning", "action": "Evict"}
    body = {"metadata": {"name": "e"}, "regarding": about, "eventTime": "2026-11-30T10:00:00.000000Z", "reason": "Evicted", **who, **change}
    with pytest.raises(ApiException) as refused:
        kubernetes.client.EventsV1Api(official).create_namespaced_event("batch", body)
    assert (refused.value.status, named in refused.value.body) == (422, True)


def test_who_has_no_token_or_no_right_is_turned_away(api, core):
    api.forbidden.add(("create", "pods/eviction"))
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod_eviction("rec-0", "batch", _eviction("rec-0"))
    told = json.loads(refused.value.body)["message"]
    assert (refused.value.status, 'cannot create resource "pods/eviction"' in told) == (403, True)
    api.tokens.clear()
    with pytest.raises(ApiException) as unknown:
        core.list_namespaced_pod("batch")
    assert unknown.value.status == 401


def test_another_authority_is_not_trusted(api, core):
    api.rotate_certificate()
    api.drop_connections()
    with pytest.raises(Exception, match="certificate verify failed"):
        core.list_namespaced_pod("batch")


def test_it_comes_back_with_what_it_had(api, core):
    api.store.create("configmaps", config_map("koordlet", "qosManager: {}"))
    api.kill()
    with pytest.raises(Exception, match=r"refused|closed|aborted|reset"):
        core.read_namespaced_config_map("koordlet", "kube-system")
    api.revive()
    assert core.read_namespaced_config_map("koordlet", "kube-system").data == {"koordlet-config.yaml": "qosManager: {}"}


def test_kubectl_reads_pods_and_annotates_the_node(api, tmp_path):
    api.store.create("pods", pod("rec-0"))
    api.store.create("nodes", node())
    assert kubectl(api, tmp_path, "get", "pods", "-A", "-o", "name") == "pod/rec-0\n"
    kubectl(api, tmp_path, "annotate", "node", NODE, "qosmanager.io/pause=10m")
    assert api.store.get("nodes", "", NODE)["metadata"]["annotations"] == {"qosmanager.io/pause": "10m"}
