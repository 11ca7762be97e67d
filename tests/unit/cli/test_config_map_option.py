"""What is told of --config-map before anything is begun."""

import pytest
from click.testing import CliRunner

from loopback_api.objects import NODE
from loopback_api.server import LoopbackApi
from qosmanager.cli.main import main


@pytest.mark.parametrize("text", ["koordlet", "/koordlet", "kube-system/", "a/b/c", ""])
def test_a_config_map_has_a_namespace_and_a_name(text, tmp_path):
    with LoopbackApi() as server:
        kubeconfig = str(server.write_kubeconfig(tmp_path / "kubeconfig"))
    options = ["--kubernetes", "--node-name", NODE, "--kubeconfig", kubeconfig, "--dry-run", "--listen", "off"]
    told = CliRunner().invoke(main, ["run", *options, "--config-map", text])
    assert told.exit_code == 2
    assert f"--config-map: {text!r} is not allowed; NAMESPACE/NAME is" in told.output


def test_there_is_one_configuration(tmp_path):
    (tmp_path / "qos.yaml").write_text("qosManager: {}")
    options = ["--kubernetes", "--node-name", NODE, "--dry-run", "--config", str(tmp_path / "qos.yaml"), "--config-map", "a/b"]
    told = CliRunner().invoke(main, ["run", *options])
    assert told.exit_code == 2
    assert "--config and --config-map do not go together" in told.output


def test_without_a_cluster_there_is_no_config_map():
    told = CliRunner().invoke(main, ["run", "--config-map", "a/b", "--dry-run"])
    assert told.exit_code == 2
    assert "--config-map needs --kubernetes" in told.output
