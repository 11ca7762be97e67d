"""The chart, as helm itself renders it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess

import kubernetes_validate
import pytest
import yaml

from deploy_tools import DEPLOY, tool

CHART = DEPLOY / "chart" / "qosmanager"


def template(*options):
    command = [tool("helm"), "template", "qosmanager", str(CHART), "--namespace", "tools", "--kube-version", "1.32.0"]
    for option in options:
        command += ["--set", option]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def made(*options):
    done = template(*options)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def agent(things):
    (pod,) = [
        each["spec"]["template"]["spec"] for each in things if each["kind"] == "DaemonSet" and each["metadata"]["name"] == "qosmanager"
    ]
    return pod, pod["containers"][0]


def granted(things):
    return {
        resource for each in things if each["kind"] in ("ClusterRole", "Role") for rule in each["rules"] for resource in rule["resources"]
    }


def test_the_plain_manifests_are_what_helm_renders():
    """Else: make manifests."""
    specification = importlib.util.spec_from_file_location("deploy_render", DEPLOY / "render.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    os.environ.setdefault("HELM", tool("helm"))
    assert [path for path, text in module.files().items() if path.read_text(encoding="utf-8") != text] == []


def test_helm_finds_nothing_to_complain_of():
    done = subprocess.run(
        [tool("helm"), "lint", "--strict", "--kube-version", "1.32.0", str(CHART)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


ALL_SET = (
    "configFrom=watch,publishBatchResources=true,evictions.namespaces={batch,jobs},priorityQuota=true,seLinuxType=spc_t,image.digest=sha256:"
    + "0" * 64,
    "kubelet.staticCPUPolicy=true,kubelet.caConfigMap=ca,kubelet.url=https://127.0.0.1:10251,listen.address=node-ipv6,podMonitor.enabled=true",
    "prometheusRule.enabled=true,imagePullSecrets[0].name=pull,podLabels.team=x,extraArgs={--record=/tmp/r},env[0].name=A,env[0].value=b",
)


@pytest.mark.parametrize("options", [(), ALL_SET], ids=["default", "all-set"])
def test_kubernetes_knows_every_field(options):
    things = made(*options)
    for thing in things:
        if not thing["apiVersion"].startswith("monitoring."):
            kubernetes_validate.validate(thing, "1.32", strict=True)
    assert len(things) >= 14


def test_every_value_is_in_the_schema_and_has_a_default():
    def keys(thing, schema, path=""):
        for name, value in thing.items():
            inner = schema["properties"][name]
            if isinstance(value, dict) and "properties" in inner:
                yield from keys(value, inner, f"{path}{name}.")
            else:
                yield f"{path}{name}"
        missing = set(schema["properties"]) - set(thing) - {"global"}
        assert missing == set(), path

    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    found = list(keys(values, json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))))
    assert {"image.repository", "leaseKeeper.every", "podMonitor.enabled"} <= set(found)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("listen.port=70000", "listen/port"),
        ("pods.from=somewhere", "'api', 'kubelet', 'both'"),
        ("unknown=1", "additional properties 'unknown' not allowed"),
        ("kubelet.url=http://127.0.0.1", "kubelet/url"),
        ("leaseKeeper.every=30", "leaseKeeper/every"),
        ("podMonitor.enabled=true", "podMonitor.enabled needs listen.address: node"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(option, said):
    done = template(option)
    assert done.returncode != 0
    assert said in done.stderr


def test_what_is_not_asked_for_is_not_permitted():
    assert "nodes/status" not in granted(made())
    assert "nodes/status" in granted(made("publishBatchResources=true"))
    assert "pods/eviction" not in granted(made("evictions.allowed=false"))
    assert "configmaps" not in granted(made())
    assert "configmaps" in granted(made("configFrom=watch"))
    assert {"nodes/pods", "nodes/proxy"} & granted(made("pods.from=api")) == set()
    assert "nodes/proxy" in granted(made("kubelet.nodesProxy=true"))


def test_evictions_can_be_permitted_by_namespace():
    things = made("evictions.namespaces={batch,jobs}")
    everywhere = next(each for each in things if each["kind"] == "ClusterRole" and each["metadata"]["name"] == "qosmanager")
    assert "pods/eviction" not in {resource for rule in everywhere["rules"] for resource in rule["resources"]}
    bound = {
        each["metadata"]["namespace"] for each in things if each["kind"] == "RoleBinding" and each["roleRef"]["name"] == "qosmanager-evict"
    }
    assert bound == {"batch", "jobs"}


def test_kubelets_directory_is_mounted_only_where_it_is_needed_and_read_only():
    assert "kubelet" not in {volume["name"] for volume in agent(made())[0]["volumes"]}
    _, container = agent(made("kubelet.staticCPUPolicy=true"))
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "kubelet"]
    assert mount == {"name": "kubelet", "mountPath": "/var/lib/kubelet", "readOnly": True}


@pytest.mark.parametrize(
    ("address", "listen", "host"),
    [("loopback", "127.0.0.1:9316", "127.0.0.1"), ("node", "$(HOST_IP):9316", None), ("node-ipv6", "[$(HOST_IP)]:9316", None)],
)
def test_probes_ask_where_the_agent_listens(address, listen, host):
    _, container = agent(made(f"listen.address={address}"))
    assert f"--listen={listen}" in container["args"]
    assert {container[probe]["httpGet"].get("host") for probe in ("startupProbe", "livenessProbe", "readinessProbe")} == {host}


def test_an_uninstall_first_gives_the_pods_their_account_then_starts_them_then_waits():
    hooks = [each for each in made() if "helm.sh/hook" in each["metadata"].get("annotations", {})]
    assert {each["metadata"]["annotations"]["helm.sh/hook"] for each in hooks} == {"post-delete"}
    order = {each["kind"]: int(each["metadata"]["annotations"]["helm.sh/hook-weight"]) for each in hooks}
    assert max(order["ServiceAccount"], order["Role"], order["RoleBinding"]) < order["DaemonSet"] < order["Job"]
    assert [each for each in made("uninstall.restore=false") if "helm.sh/hook" in each["metadata"].get("annotations", {})] == []
