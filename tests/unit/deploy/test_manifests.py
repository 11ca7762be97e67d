"""The plain manifests, which are made from the chart: what Kubernetes makes of them, and what the agent may do with them."""

from __future__ import annotations

import importlib.util
import subprocess

import click
import kubernetes_validate
import pytest
import yaml

from deploy_tools import DEPLOY, tool
from qosmanager.cli.main import main
from qosmanager.config.parse import load_settings
from qosmanager.model.qos import Mode, Plugin

KUSTOMIZE = DEPLOY / "kustomize"
VERSION = "1.32"


def things(path):
    return [each for each in yaml.safe_load_all((KUSTOMIZE / path).read_text(encoding="utf-8")) if each]


BASE = things("base/qosmanager.yaml")
EVERYTHING = [*BASE, *things("base/namespace.yaml"), *things("restore/restore.yaml")]


def one(kind, among=BASE):
    (found,) = [each for each in among if each["kind"] == kind]
    return found


POD = one("DaemonSet")["spec"]["template"]["spec"]
AGENT, KEEPER = POD["containers"]
RESTORE = one("DaemonSet", things("restore/restore.yaml"))["spec"]["template"]["spec"]


def program():
    specification = importlib.util.spec_from_file_location("deploy_render", DEPLOY / "render.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_generated_files_are_of_this_chart():
    """Else: make manifests."""
    digest = program().digest()
    generated = [path for path in KUSTOMIZE.rglob("*.yaml") if "deploy/render.py" in path.read_text(encoding="utf-8")]
    assert len(generated) == 3
    assert [path for path in generated if f"Chart: {digest}\n" not in path.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("thing", EVERYTHING, ids=lambda thing: f"{thing['kind']}-{thing['metadata']['name']}")
def test_kubernetes_knows_every_field(thing):
    kubernetes_validate.validate(thing, VERSION, strict=True)


def test_a_field_that_kubernetes_does_not_know_is_found():
    wrong = {**one("ServiceAccount"), "automountToken": False}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSION, strict=True)


@pytest.mark.parametrize("container", [AGENT, KEEPER, *RESTORE["initContainers"], *RESTORE["containers"]], ids=lambda each: each["name"])
def test_every_argument_is_an_option_of_its_command(container):
    command, *arguments = container["args"]
    known = {name for parameter in main.commands[command].params for name in parameter.opts}
    assert [each for each in arguments if each.partition("=")[0] not in known] == []
    for argument in arguments:
        option = next(each for each in main.commands[command].params if argument.partition("=")[0] in each.opts)
        assert ("=" in argument) is not option.is_flag


def test_the_job_waits_for_the_daemonset_of_the_uninstall():
    name = one("DaemonSet", things("restore/restore.yaml"))["metadata"]["name"]
    template = (DEPLOY / "chart/qosmanager/templates/uninstall.yaml").read_text(encoding="utf-8")
    assert name == "qosmanager-restore"
    assert '$name := printf "%s-restore"' in template
    assert "args: [restored, " in template
    with click.Context(main.commands["restored"]) as context:
        assert main.commands["restored"].parse_args(context, ["qosmanager-system/qosmanager-restore", "--within=4m"]) == []


def test_the_keeper_looks_only_for_a_lease_that_is_over_and_has_no_token():
    assert {"restore", "--if-expired", "--every=30s"} <= set(KEEPER["args"])
    assert not POD["automountServiceAccountToken"]
    assert "token" not in {mount["name"] for mount in KEEPER["volumeMounts"]}
    assert "token" in {mount["name"] for mount in AGENT["volumeMounts"]}


def test_agent_keeper_and_restore_speak_of_the_same_places():
    places = [{each for each in container["args"] if each.startswith(("--state-dir", "--cgroup-root"))} for container in (AGENT, KEEPER)]
    places += [
        {each for each in container["args"] if each.startswith(("--state-dir", "--cgroup-root"))} for container in RESTORE["initContainers"]
    ]
    assert places == [{"--state-dir=/run/qosmanager", "--cgroup-root=/host/cgroup"}] * 3
    hosts = [{each["name"]: each["hostPath"]["path"] for each in pod["volumes"] if "hostPath" in each} for pod in (POD, RESTORE)]
    assert hosts == [{"cgroup": "/sys/fs/cgroup", "state": "/run/qosmanager"}] * 2


@pytest.mark.parametrize("pod", [POD, RESTORE], ids=["agent", "restore"])
def test_containers_are_root_without_its_powers(pod):
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"]
        assert not security["allowPrivilegeEscalation"]
        assert security["capabilities"]["drop"] == ["ALL"]
        assert set(security["capabilities"]["add"]) <= {"DAC_OVERRIDE", "IPC_LOCK"}
        assert "memory" in container["resources"]["limits"]
        assert "cpu" not in container["resources"]["limits"]


def test_probes_ask_where_the_agent_listens():
    (listen,) = [each.partition("=")[2] for each in AGENT["args"] if each.startswith("--listen")]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = AGENT[probe]["httpGet"]
        assert f"{asked['host']}:{AGENT['ports'][0]['containerPort']}" == listen
        assert asked["path"] in ("/healthz", "/readyz")
    assert POD["hostNetwork"]  # else kubelet's 127.0.0.1 were not the agent's


def test_no_permission_changes_a_workload_or_reads_a_secret():
    rules = one("ClusterRole")["rules"]
    granted = {
        (group, resource, verb) for rule in rules for group in rule["apiGroups"] for resource in rule["resources"] for verb in rule["verbs"]
    }
    assert granted == {
        *(("", "pods", verb) for verb in ("get", "list", "watch")),
        *(("", "nodes", verb) for verb in ("get", "watch", "patch")),
        ("", "nodes/pods", "get"),
        *(("events.k8s.io", "events", verb) for verb in ("create", "patch")),
        ("", "pods/eviction", "create"),
    }


def test_the_configuration_as_shipped_is_understood_and_only_observes():
    settings = load_settings(one("ConfigMap")["data"]["koordlet-config.yaml"], "config")
    enforced = {plugin for plugin in Plugin if settings.mode(plugin) is Mode.ENFORCE}
    assert enforced == {Plugin.SYSTEM_QOS_RESOURCE}  # it takes no action: its number is what the others reckon with


@pytest.mark.parametrize(("overlay", "kinds"), [("base", 10), ("restore", 2), ("example", 12)])
def test_kustomize_builds_it(overlay, kinds):
    made = subprocess.run([tool("kubectl"), "kustomize", str(KUSTOMIZE / overlay)], capture_output=True, text=True, check=True)
    assert len(list(yaml.safe_load_all(made.stdout))) == kinds


def test_with_monitoring_the_agent_listens_where_prometheus_reaches_it():
    made = subprocess.run([tool("kubectl"), "kustomize", str(KUSTOMIZE / "example")], capture_output=True, text=True, check=True)
    built = list(yaml.safe_load_all(made.stdout))
    agent = one("DaemonSet", built)["spec"]["template"]["spec"]["containers"][0]
    assert "--listen=$(HOST_IP):9316" in agent["args"]
    assert all("host" not in agent[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe"))
    assert one("PodMonitor", built)["spec"]["podMetricsEndpoints"][0]["port"] == agent["ports"][0]["name"]
    assert load_settings(one("ConfigMap", built)["data"]["koordlet-config.yaml"], "config")
