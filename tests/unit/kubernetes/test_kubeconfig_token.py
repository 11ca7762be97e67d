"""The token of a kubeconfig, when somebody renews it."""

from __future__ import annotations

import json

import pytest

from loopback_api.server import LoopbackApi
from measuring import HandClock
from qosmanager.kubernetes.access import AccessError, Inline, from_kubeconfig
from qosmanager.kubernetes.credentials import Token
from qosmanager.kubernetes.http_api import HttpApi


@pytest.fixture
def server():
    with LoopbackApi() as api:
        yield api


@pytest.fixture
def config(server, tmp_path):
    return server.write_kubeconfig(tmp_path / "config")


def renew(config, **user):
    document = json.loads(config.read_text())
    document["users"][0]["user"] = user
    config.write_text(json.dumps(document))


def test_a_token_that_is_refused_is_read_again_in_the_kubeconfig(server, config):
    api = HttpApi(from_kubeconfig(config), HandClock())
    assert api.request("GET", "/version").status == 200
    server.tokens = {"second"}
    renew(config, token="second")
    assert api.request("GET", "/version").status == 200
    (config.parent / "third").write_text("third")
    server.tokens = {"third"}
    renew(config, tokenFile="third")
    assert api.request("GET", "/version").status == 200
    api.close()


def test_another_context_is_another_server_and_its_token_is_not_shown_to_this_one(config):
    access = from_kubeconfig(config)
    document = json.loads(config.read_text())
    document["users"].append({"name": "else", "user": {"token": "of-another-server"}})
    document["contexts"].append({"name": "else", "context": {"cluster": "loopback", "user": "else"}})
    config.write_text(json.dumps(document | {"current-context": "else"}))
    assert access.token.current() == Inline(b"loopback-token-1")


@pytest.mark.parametrize("text", ["", "users: []", "users: [{name: agent, user: {}}]", "{"])
def test_a_kubeconfig_that_holds_no_token_any_more_leaves_the_old_one(config, text):
    access = from_kubeconfig(config)
    token = Token(access.token, HandClock())
    assert token.current() == "loopback-token-1"
    config.write_text(text)
    assert not token.again()
    assert token.current() == "loopback-token-1"
    with pytest.raises(AccessError):
        access.token.current()
