import json
import threading
import time

import pytest

from cluster_parts import asking
from loopback_api.objects import NODE, config_map, node
from loopback_api.server import LoopbackApi
from qosmanager.kubernetes.answers import Right
from qosmanager.kubernetes.config_map import ConfigMapName, KeptConfigMap
from qosmanager.kubernetes.object_watch import ObjectWatch
from qosmanager.linux.clock import LinuxClock

MAPS = Right("get", "configmaps", "kube-system")


class Following:
    """A watch on a thread, and what it told."""

    def __init__(self, api, right=MAPS, name="koordlet"):
        self.told = []
        self.watch = ObjectWatch(api, right, name, self.told.append, (LinuxClock(), lambda: 0.0))
        self._api = api
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._stopping.is_set():
            self._stopping.wait(min(self.watch.once(), 0.02))  # how long it wants to wait is tried elsewhere

    def stop(self):
        self._stopping.set()
        self._api.close()
        self._thread.join()

    def wait_for(self, text):
        """Wait until an object with this text in it was told last."""
        until = time.monotonic() + 60
        while not (self.told and self.told[-1] and text in self.told[-1].decode()):
            assert time.monotonic() < until, (self.told[-1:], self.watch.problem)
            time.sleep(0.01)


@pytest.fixture
def server():
    with LoopbackApi() as api:
        yield api


@pytest.fixture
def following(server):
    server.store.create("configmaps", config_map("koordlet", "first"))
    with asking(server) as api:
        found = Following(api)
        yield found
        found.stop()


def say(server, text):
    changed = server.store.get("configmaps", "kube-system", "koordlet")
    server.store.replace("configmaps", changed | {"data": {"koordlet-config.yaml": text}})


def test_it_tells_the_object_and_each_change(server, following):
    following.wait_for("first")
    say(server, "second")
    following.wait_for("second")
    server.store.create("configmaps", config_map("another", "not ours"))
    say(server, "third")
    following.wait_for("third")
    assert len(following.told) == 3


def test_after_a_server_that_was_away_it_goes_on(server, following):
    following.wait_for("first")
    server.kill()
    say(server, "meanwhile")
    server.revive()
    following.wait_for("meanwhile")


@pytest.mark.parametrize("as_status", [True, False])
def test_a_version_that_is_too_old_is_read_anew(server, following, as_status):
    server.expired_as_status = as_status
    following.wait_for("first")
    say(server, "second")
    server.store.compact()
    server.drop_connections()
    following.wait_for("second")
    say(server, "third")
    following.wait_for("third")


def test_a_line_that_is_cut_is_told_all_the_same(server, following):
    following.wait_for("first")
    server.faults.cut_next_event = True
    say(server, "second")
    following.wait_for("second")
    assert not server.faults.cut_next_event  # it was cut


def test_html_and_refusals_change_nothing_and_are_said(server, following):
    following.wait_for("first")
    server.faults.answer(200, part="configmaps", times=2)
    server.faults.answer(403, json.dumps({"kind": "Status", "message": "no"}).encode(), part="configmaps", content_type="application/json")
    server.drop_connections()
    say(server, "second")
    following.wait_for("second")
    assert None not in following.told


@pytest.mark.parametrize("verb", ["get", "watch"])
def test_the_permission_that_is_missing_is_the_one_that_is_named(server, verb):
    server.store.create("configmaps", config_map("koordlet", "first"))
    server.forbidden.add((verb, "configmaps"))
    with asking(server) as api:
        watch = ObjectWatch(api, MAPS, "koordlet", lambda _: None, (LinuxClock(), lambda: 0.0))
        watch.once()
        assert f"not permitted: {verb} configmaps in namespace kube-system" in watch.problem


def test_a_bookmark_with_nulls_is_no_state(server):
    server.store.create("nodes", node())
    with asking(server) as api:
        found = Following(api, Right("get", "nodes"), NODE)
        try:
            found.wait_for(NODE)
            server.store.bookmark()
            changed = server.store.get("nodes", "", NODE)
            changed["metadata"]["labels"]["pool"] = "batch"
            server.store.replace("nodes", changed)
            found.wait_for("batch")
            assert len(found.told) == 2
        finally:
            found.stop()


def taken(*states):
    kept = []
    kept_map = KeptConfigMap(ConfigMapName.parse("kube-system/koordlet"), kept.append)
    for state in states:
        kept_map.take(None if state is None else json.dumps(state).encode())
    return kept, kept_map


def test_the_text_of_a_config_map_is_kept_once_for_each_change():
    kept, found = taken(config_map("koordlet", "a"), config_map("koordlet", "a") | {"x": 1}, config_map("koordlet", "b"))
    assert (kept, found.known, found.problem) == (["a", "b"], True, "")


def test_a_config_map_that_is_deleted_changes_nothing_and_is_a_problem():
    kept, found = taken(config_map("koordlet", "a"), None)
    assert kept == ["a"]
    assert found.problem == "ConfigMap kube-system/koordlet does not exist; what it last said stays in force"


def test_a_config_map_without_the_key_changes_nothing_and_is_a_problem():
    kept, found = taken(
        config_map("koordlet", "a"), config_map("koordlet", "b", key="other.yaml"), config_map("koordlet", "x") | {"data": None}
    )
    assert kept == ["a"]
    assert "holds nothing under koordlet-config.yaml" in found.problem


@pytest.mark.parametrize("text", ["", "koordlet", "/koordlet", "kube-system/", "a/b/c"])
def test_a_config_map_has_a_namespace_and_a_name(text):
    with pytest.raises(ValueError, match="NAMESPACE/NAME is"):
        ConfigMapName.parse(text)
