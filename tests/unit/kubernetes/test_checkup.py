"""What the doctor sees of an API server, and what it makes of it."""

import json
import time

import pytest
from click.testing import CliRunner

from loopback_api.server import LoopbackApi
from qosmanager.cli.main import main
from qosmanager.doctor.cluster import Asked, ClusterFacts, cluster_findings
from qosmanager.doctor.findings import Mark
from qosmanager.kubernetes.access import Access, Inline, Server
from qosmanager.kubernetes.checkup import look
from qosmanager.kubernetes.http_api import HttpApi
from qosmanager.linux.clock import LinuxClock


@pytest.fixture
def server():
    with LoopbackApi() as server:
        yield server


class Ahead(LinuxClock):
    """A node whose clock is an hour ahead."""

    def wall(self):
        return time.time() + 3600


def seen(server, clock=None, token=None):
    clock = clock or LinuxClock()
    access = Access(server=Server.parse(server.url), authorities=Inline(server.ca_pem), token=Inline((token or server.token).encode()))
    return look(HttpApi(access, clock), server.url, clock)


def texts(facts):
    return {(finding.subject, finding.mark): finding.text for finding in cluster_findings(facts)}


def test_a_server_that_grants_everything(server):
    facts = seen(server)
    assert (facts.problem, facts.server) == ("", server.url)
    assert facts.version
    assert abs(facts.skew) < 5
    assert [each for each in facts.rights if each.allowed is not True] == []
    assert set(texts(facts)) == {("API server", Mark.OK), ("permissions", Mark.OK)}
    assert "create pods/eviction" in texts(facts)["permissions", Mark.OK]


def test_a_permission_that_is_missing_is_named_with_what_it_is_for(server):
    server.forbidden.add(("create", "pods/eviction"))
    found = [finding for finding in cluster_findings(seen(server)) if finding.mark is Mark.DEGRADED]
    assert [(each.text, each.fix) for each in found] == [
        (
            "not granted: create pods/eviction",
            "a ClusterRole with it, bound to the agent's service account: evictions; without it nobody is evicted",
        )
    ]


def test_clocks_that_do_not_agree(server):
    text = texts(seen(server, Ahead()))["its clock", Mark.DEGRADED]
    assert text.endswith("s behind this node's: certificates and tokens may be refused")
    assert 3595 <= int(text.split()[0]) <= 3605


def test_a_server_that_is_not_there(server):
    facts = seen(server)
    server.kill()
    facts = seen(server)
    assert "Connection refused" in facts.problem
    assert set(texts(facts)) == {("API server", Mark.IMPOSSIBLE)}


def test_credentials_that_are_not_accepted(server):
    facts = seen(server, token="somebody-else")
    assert "does not accept this agent's credentials" in facts.problem
    assert "somebody-else" not in facts.problem


def test_something_that_is_no_api_server(server):
    server.faults.answer(200)
    assert seen(server).problem == "answered 200, but not as an API server does"


def test_a_server_that_does_not_say_what_is_allowed(server):
    server.faults.answer(200, method="POST", part="selfsubjectaccessreviews", times=100)
    facts = seen(server)
    assert {each.allowed for each in facts.rights} == {None}
    assert ("permissions", Mark.UNKNOWN) in texts(facts)


def test_a_time_that_is_not_told_is_unknown():
    facts = ClusterFacts(server="https://h:443", version="v1.33.0", rights=(Asked(right="get pods", purpose="x", allowed=True),))
    assert texts(facts)["its clock", Mark.UNKNOWN] == "the API server does not tell its time"


def test_the_command_looks_at_the_cluster_when_asked_to(server, tmp_path):
    kubeconfig = server.write_kubeconfig(tmp_path / "config")
    result = CliRunner().invoke(main, ["doctor", "--kubeconfig", str(kubeconfig), "--state-dir", str(tmp_path), "--output", "json"])
    assert result.exit_code in (0, 1), result.output
    found = {finding["subject"]: finding for finding in json.loads(result.output)["findings"]}
    assert found["API server"]["text"].startswith(f"{server.url} answers, Kubernetes v")
    refused = CliRunner().invoke(main, ["doctor", "--kubernetes"], env={"KUBERNETES_SERVICE_HOST": None})
    assert refused.exit_code == 2
    assert "this is no pod with a service account" in refused.output


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        ("GET /version at https://127.0.0.1:1: Connection refused", "GET /version at https://127.0.0.1:1: Connection refused"),
        ("answered 200, but not as an API server does", "https://127.0.0.1:1: answered 200, but not as an API server does"),
    ],
)
def test_the_address_is_named_once(problem, said):
    (finding,) = cluster_findings(ClusterFacts(server="https://127.0.0.1:1", problem=problem))
    assert finding.text == said
