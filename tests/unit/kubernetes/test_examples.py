"""The example manifests: valid, and understood by the agent as their comments say."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import kubernetes_validate
import msgspec
import pytest
import yaml

from qosmanager.kubernetes.pod_json import PodJson
from qosmanager.kubernetes.pods import PRIORITY_BANDS, known_pod
from qosmanager.model.qos import QoS

DIRECTORY = Path(__file__).parents[3] / "examples" / "kubernetes"
OBJECTS = {
    (each["kind"], each["metadata"]["name"]): each for path in DIRECTORY.glob("*.yaml") for each in yaml.safe_load_all(path.read_text())
}


def pod_of(kind, name):
    """The first pod of a controller, as the agent would know it."""
    template = OBJECTS[kind, name]["spec"]["template"]
    where = {"name": f"{name}-0", "namespace": "colocation-demo", "uid": "0b1c2d3e"}
    pod = template | {"metadata": template["metadata"] | where, "status": {"podIP": "10.0.0.7", "qosClass": "BestEffort"}}
    return known_pod(msgspec.convert(pod, PodJson))


@pytest.mark.parametrize("key", OBJECTS, ids="-".join)
def test_an_object_is_what_the_api_server_takes(key):
    kubernetes_validate.validate(OBJECTS[key], "1.32", strict=True)


def test_the_service_is_latency_sensitive_with_an_objective_and_a_source():
    pod = pod_of("Deployment", "checkout")
    assert (pod.problems, pod.qos, pod.labelled, pod.critical, pod.slo_p99) == ((), QoS.LS, True, False, 0.05)
    assert (pod.latency.url, pod.latency.histogram) == ("http://10.0.0.7:9113/metrics", "http_request_duration_seconds")
    assert (pod.claims.cpu_request, pod.claims.cpu_limit) == (1.0, 2.0)


@pytest.mark.parametrize(("kind", "name", "is_critical"), [("Deployment", "recommend", False), ("Job", "settle-accounts", True)])
def test_batch_is_best_effort_without_claims(kind, name, is_critical):
    pod = pod_of(kind, name)
    assert (pod.problems, pod.qos, pod.labelled, pod.critical) == ((), QoS.BE, True, is_critical)
    assert (pod.claims.cpu_request, pod.claims.cpu_limit) == (0.0, None)


def test_priorities_are_those_of_the_bands():
    values = {name: each["value"] for (kind, name), each in OBJECTS.items() if kind == "PriorityClass"}
    assert values == {name: PRIORITY_BANDS[name] for name in ("koord-prod", "koord-batch")}


def test_the_budget_is_about_the_batch_pods():
    labels = OBJECTS["Deployment", "recommend"]["spec"]["template"]["metadata"]["labels"]
    assert OBJECTS["PodDisruptionBudget", "recommend"]["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_the_service_serves_the_histogram_that_its_annotation_names(tmp_path, unused_port):
    script = tmp_path / "service.py"
    script.write_text(OBJECTS["ConfigMap", "checkout"]["data"]["service.py"].replace('("", 9113)', f'("127.0.0.1", {unused_port})'))
    service = subprocess.Popen([sys.executable, str(script)])
    try:
        text = fetched(f"http://127.0.0.1:{unused_port}/metrics")
    finally:
        service.kill()
        service.wait()
    counted = [int(count) for count in re.findall(r"^http_request_duration_seconds_bucket\{le=\"[^\"]+\"\} (\d+)$", text, re.MULTILINE)]
    assert len(counted) == 10
    assert counted == sorted(counted)
    assert counted[-1] > 0


def fetched(url):
    """What the service says once it has answered a request."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                text = answer.read().decode()
        except urllib.error.URLError:
            text = ""
        if re.search(r"_count [1-9]", text):
            return text
        assert time.monotonic() < deadline, text
        time.sleep(0.05)


@pytest.fixture
def unused_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
