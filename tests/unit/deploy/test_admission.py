"""The admission policies, evaluated by the API server's own library: what the agent's token may change, and what not."""

from __future__ import annotations

import copy
import json
import subprocess

import pytest
import yaml

from deploy_tools import DEPLOY, tool

FOUND = yaml.safe_load_all((DEPLOY / "kustomize" / "base" / "qosmanager.yaml").read_text(encoding="utf-8"))
POLICIES = {each["metadata"]["name"]: each["spec"] for each in FOUND if each["kind"] == "ValidatingAdmissionPolicy"}
CLAIM = "authentication.kubernetes.io/node-name"
USER = {"username": "system:serviceaccount:qosmanager-system:qosmanager", "extra": {CLAIM: ["n1"]}}
NODE = {
    "metadata": {"name": "n1", "labels": {"zone": "a"}, "annotations": {"kubelet": "its", "qosmanager.io/status": "{}"}},
    "spec": {"podCIDR": "10.0.0.0/24"},
    "status": {
        "capacity": {"cpu": "4", "kubernetes.io/batch-cpu": "1000"},
        "allocatable": {"cpu": "4"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
BARE = {"metadata": {"name": "n1"}}


def asked(policy, given):
    """Return the message of each validation that does not hold; errors count as that, as failurePolicy Fail says."""
    spec = POLICIES[policy]
    question = {
        "Variables": [[each["name"], each["expression"]] for each in spec.get("variables", [])],
        "Validations": [each["expression"] for each in spec["validations"]],
        "Input": given,
    }
    done = subprocess.run([tool("cel")], input=json.dumps([question]), capture_output=True, text=True, check=True)
    (answers,) = json.loads(done.stdout)
    return [
        each.get("message", each.get("messageExpression"))
        for each, said in zip(spec["validations"], answers, strict=True)
        if said != "true"
    ]


def changed(old, part, value, user=USER):
    new = copy.deepcopy(old)
    *path, last = part
    at = new
    for name in path:
        at = at.setdefault(name, {})
    if value is None:
        del at[last]
    else:
        at[last] = value
    return {"object": new, "oldObject": old, "request": {"userInfo": user, "operation": "UPDATE", "name": new["metadata"]["name"]}}


STATUS = ("metadata", "annotations", "qosmanager.io/status")


@pytest.mark.parametrize(
    ("old", "part", "value"),
    [
        (NODE, STATUS, '{"level":"LOW"}'),
        (BARE, STATUS, '{"level":"LOW"}'),
        (NODE, STATUS, None),
        (NODE, ("status", "capacity", "kubernetes.io/batch-cpu"), "2000"),
        (NODE, ("status", "allocatable", "kubernetes.io/batch-memory"), "1Gi"),
        (BARE, ("status", "capacity", "kubernetes.io/batch-cpu"), "0"),
    ],
)
def test_what_is_the_agents_it_may_change(old, part, value):
    assert asked("qosmanager-own-node", changed(old, part, value)) == []


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        (("metadata", "annotations", "kubelet"), "mine", "annotations"),
        (("metadata", "annotations", "kubelet"), None, "annotations"),
        (("metadata", "annotations", "qosmanager.io/pause"), "1h", "annotations"),
        (("metadata", "labels", "zone"), "b", "labels"),
        (("metadata", "finalizers"), ["x"], "labels"),
        (("spec", "taints"), [{"key": "a", "effect": "NoExecute"}], "taints"),
        (("spec", "unschedulable"), True, "taints"),
        (("status", "allocatable", "cpu"), "400", "resources"),
        (("status", "capacity", "cpu"), None, "resources"),
        (("status", "conditions"), [], "conditions"),
        (("status", "addresses"), [{"type": "InternalIP", "address": "10.9.9.9"}], "addresses"),
    ],
)
def test_what_is_not_the_agents_it_may_not(part, value, said):
    (message,) = asked("qosmanager-own-node", changed(NODE, part, value))
    assert said in message


@pytest.mark.parametrize("extra", [{CLAIM: ["n2"]}, {CLAIM: []}, {}, None])
def test_the_token_of_another_node_or_of_none_may_not(extra):
    user = {"username": USER["username"], **({} if extra is None else {"extra": extra})}
    assert asked("qosmanager-own-node", changed(NODE, STATUS, "{1}", user)) != []


def test_a_node_is_not_the_agents_to_create():
    given = {"object": BARE, "oldObject": None, "request": {"userInfo": USER, "operation": "CREATE", "name": "n1"}}
    assert "nodes are not the agent's to create" in asked("qosmanager-own-node", given)


def eviction(namespace="batch", options=None, user=USER):
    made = {
        "metadata": {"name": "rec-0", "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": "1"}} if options is None else options,
    }
    return {
        "object": made,
        "oldObject": None,
        "request": {"userInfo": user, "operation": "CREATE", "namespace": namespace, "name": "rec-0"},
    }


def test_an_eviction_names_the_uid_and_leaves_the_system_alone():
    assert asked("qosmanager-evictions", eviction()) == []
    assert asked("qosmanager-evictions", eviction(options={})) == ["an eviction of the agent names the pod's uid"]
    assert len(asked("qosmanager-evictions", eviction("kube-system"))) == 1
    assert len(asked("qosmanager-evictions", eviction("qosmanager-system"))) == 1
    assert len(asked("qosmanager-evictions", eviction(user={**USER, "extra": {}}))) == 1


def test_the_policies_are_about_the_agent_and_are_bound():
    everything = yaml.safe_load_all((DEPLOY / "kustomize" / "base" / "qosmanager.yaml").read_text(encoding="utf-8"))
    bindings = [each["spec"] for each in everything if each["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert {each["policyName"] for each in bindings if each["validationActions"] == ["Deny"]} == set(POLICIES)
    for spec in POLICIES.values():
        (condition,) = spec["matchConditions"]
        assert condition["expression"] == f"request.userInfo.username == '{USER['username']}'"
        assert spec["failurePolicy"] == "Fail"
