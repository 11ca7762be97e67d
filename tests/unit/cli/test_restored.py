from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from loopback_api.server import LoopbackApi
from qosmanager.cli.main import main

PART = "/apis/apps/v1/namespaces/tools/daemonsets/restore"


@pytest.fixture
def server():
    with LoopbackApi() as api:
        yield api


def daemonset(wanted, ready, observed=1):
    status = {"observedGeneration": observed, "desiredNumberScheduled": wanted, "numberReady": ready}
    return json.dumps({"kind": "DaemonSet", "metadata": {"name": "restore", "generation": 1}, "status": status}).encode()


@pytest.fixture
def restored(server, tmp_path):
    config = server.write_kubeconfig(tmp_path / "kubeconfig")
    return lambda *options: CliRunner().invoke(main, ["restored", "tools/restore", "--kubeconfig", str(config), *options])


def test_it_waits_until_every_node_is_ready(server, restored):
    server.faults.answer(200, daemonset(0, 0, observed=0), part=PART)
    server.faults.answer(200, daemonset(3, 1), part=PART)
    server.faults.answer(200, daemonset(3, 3), part=PART)
    done = restored()
    assert (done.exit_code, done.output.splitlines()) == (
        0,
        ["the nodes are not counted yet", "1 of 3 nodes restored", "3 of 3 nodes restored"],
    )


def test_an_answer_that_tells_nothing_is_asked_for_again(server, restored):
    server.faults.answer(502, part=PART)
    server.faults.answer(200, part=PART)
    server.faults.answer(200, daemonset(1, 1), part=PART)
    done = restored()
    assert (done.exit_code, done.output.splitlines()) == (
        0,
        ["the server answered 502", "the server answered with something else than a DaemonSet", "1 of 1 node restored"],
    )


def test_a_node_that_is_never_ready_is_a_failure(server, restored):
    server.faults.answer(200, daemonset(3, 2), part=PART, times=9)
    done = restored("--within", "1s")
    assert done.exit_code == 1
    assert "not done within 1s: 2 of 3 nodes restored; kubectl -n tools get pods -o wide shows which are not ready" in done.output


def test_a_daemonset_that_is_not_there_ends_it_at_once(server, restored):
    server.faults.answer(404, part=PART)
    done = restored()
    assert (done.exit_code, len(server.requests)) == (1, 1)
    assert "DaemonSet tools/restore: the server answered 404" in done.output


def test_a_permission_that_is_missing_is_named_and_may_still_come(server, restored):
    server.faults.answer(403, part=PART)
    server.faults.answer(200, daemonset(3, 3), part=PART)
    done = restored()
    needed = "the server answered 403: get on daemonsets restore in tools is needed"
    assert (done.exit_code, done.output.splitlines()) == (0, [needed, "3 of 3 nodes restored"])


def test_a_permission_that_never_comes_is_a_failure_that_names_it(server, restored):
    server.faults.answer(403, part=PART, times=9)
    done = restored("--within", "1s")
    assert done.exit_code == 1
    assert "not done within 1s: the server answered 403: get on daemonsets restore in tools is needed" in done.output


@pytest.mark.parametrize("name", ["restore", "a/b/c", "a/..", "/x", "A/b"])
def test_what_is_no_name_is_refused(name):
    done = CliRunner().invoke(main, ["restored", name])
    assert done.exit_code == 2
    assert "is not allowed; NAMESPACE/DAEMONSET is" in done.output


def test_outside_of_a_pod_a_kubeconfig_is_needed(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    done = CliRunner().invoke(main, ["restored", "tools/restore"])
    assert done.exit_code == 2
    assert "--kubeconfig FILE names another way to the API server" in done.output
