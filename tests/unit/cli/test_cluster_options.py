"""The options about a cluster: what goes together, and what is refused in one line."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from qosmanager.cli.cluster_options import ClusterOptions, taken_from
from qosmanager.cli.main import main

NOTHING = dict.fromkeys(ClusterOptions.__struct_fields__) | {
    "kubernetes": False,
    "kubelet_insecure_tls": False,
    "publish_batch_resources": False,
}


def refused(*arguments, environment=None):
    result = CliRunner().invoke(main, ["run", *arguments], env={"NODE_NAME": None, "KUBERNETES_SERVICE_HOST": None} | (environment or {}))
    assert result.exit_code == 2
    assert len(result.output.splitlines()) == 1
    return result.output


def test_without_any_no_cluster_is_wanted():
    given = {"dry_run": True} | NOTHING
    assert taken_from(given) is None
    assert given == {"dry_run": True}


def test_what_is_given_is_taken():
    given = NOTHING | {"kubernetes": True, "node_name": "worker-1", "pods_from": "kubelet", "kubelet_insecure_tls": True}
    assert taken_from(given) == ClusterOptions(node_name="worker-1", pods_from="kubelet", kubelet_insecure_tls=True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--node-name", "n"),
        ("--kubeconfig", "c"),
        ("--pods-from", "api"),
        ("--kubelet-url", "https://h"),
        ("--kubelet-ca", "c"),
        ("--kubelet-insecure-tls",),
        ("--config-map", "a/b"),
        ("--publish-batch-resources",),
    ],
)
def test_each_needs_a_cluster(arguments):
    assert f"{arguments[0]} needs --kubernetes" in refused(*arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--pods-from", "api", "--kubelet-url", "https://h"), "--kubelet-url and --pods-from api do not go together"),
        (("--kubelet-ca", "c", "--kubelet-insecure-tls"), "--kubelet-ca and --kubelet-insecure-tls do not go together"),
        ((), "--node-name: not given; the node's name in the cluster is needed (or NODE_NAME in the environment)"),
        (("--node-name", "a,metadata.name=b"), "'a,metadata.name=b' is not allowed"),
        (("--node-name", "n"), "this is no pod with a service account"),
        (("--node-name", "n", "--kubeconfig", "/nowhere"), "--kubeconfig /nowhere: cannot be read"),
    ],
)
def test_what_cannot_be_is_refused(arguments, said, tmp_path):
    assert said in refused("--kubernetes", "--listen", "off", "--state-dir", str(tmp_path), "--dry-run", *arguments)


@pytest.mark.parametrize("url", ["http://127.0.0.1:10255", "127.0.0.1:10250"])
def test_kubelet_is_asked_over_https_only(url, tmp_path):
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "current-context: c\nclusters: [{name: c, cluster: {server: https://127.0.0.1:1}}]\ncontexts: [{name: c, context: {cluster: c}}]\n"
    )
    given = ("--kubernetes", "--node-name", "n", "--kubeconfig", str(kubeconfig), "--kubelet-url", url, "--dry-run", "--listen", "off")
    assert f"--kubelet-url {url!r} is not allowed; https://HOST[:PORT] is" in refused(*given)


def test_who_asks_for_no_cluster_has_nothing_of_it_in_memory(tmp_path):

    code = (
        "import sys; from qosmanager.cli.main import main\n"
        f"try: main(['run', '--once', '--dry-run', '--state-dir', {str(tmp_path)!r}])\n"
        "except SystemExit as end: assert end.code == 0, end.code\n"
        "found = sorted(name for name in sys.modules if name.startswith('qosmanager.kubernetes') or name == 'qosmanager.cli.kubernetes')\n"
        "assert not found, found"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
