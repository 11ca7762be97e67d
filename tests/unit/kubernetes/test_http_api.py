import contextlib
import http.client
import os
import socket
import threading
import time
from pathlib import Path

import pytest

from loopback_api.faults import HTML
from loopback_api.objects import pod
from loopback_api.server import LoopbackApi
from qosmanager.kubernetes.access import Access, Inline, Server, from_kubeconfig
from qosmanager.kubernetes.api import ApiUnreachable, WatchRefused
from qosmanager.kubernetes.connection import Connection, Question
from qosmanager.kubernetes.credentials import Trust
from qosmanager.kubernetes.http_api import HttpApi
from qosmanager.linux.clock import LinuxClock
from qosmanager.network.answering import LARGEST_HEAD

PODS = "/api/v1/pods"
WATCH = {"watch": "true", "resourceVersion": "0", "allowWatchBookmarks": "true"}


@pytest.fixture
def server():
    with LoopbackApi() as api:
        yield api


@pytest.fixture
def files(server, tmp_path):
    """Token and authority as a pod has them: files that somebody rotates."""
    (tmp_path / "ca.crt").write_bytes(server.ca_pem)
    (tmp_path / "token").write_text(server.token + "\n")
    return tmp_path


class SetClock:
    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def wall(self):
        return self.now


def access(server, files, **given):
    return Access(server=Server.parse(server.url), authorities=files / "ca.crt", token=files / "token", **given)


@pytest.fixture
def api(server, files):
    with contextlib.closing(HttpApi(access(server, files), LinuxClock())) as api:
        yield api


def test_any_status_is_an_answer(api, server):
    assert api.request("GET", PODS).status == 200
    assert api.request("GET", "/nowhere").status == 404
    server.faults.answer(502)
    answer = api.request("GET", PODS)
    assert (answer.status, answer.headers["content-type"], answer.body) == (502, "text/html", HTML)


def test_a_watch_tells_line_by_line_however_long_a_line_is(api, server):
    server.store.create("pods", pod("big", annotations={"pad": "x" * 2_000_000}))
    with api.watch(PODS, WATCH | {"timeoutSeconds": "0.3"}, 5.0) as lines:
        told = list(lines)
    assert len(told[0]) > 2_000_000
    assert b"BOOKMARK" in told[-1]


def test_a_watch_that_ends_well_leaves_its_connection_to_the_next(api):
    ports = []
    for _ in range(3):
        with api.watch(PODS, WATCH | {"timeoutSeconds": "0.05"}, 5.0) as lines:
            ports.append(api._open.copy())
            list(lines)
    assert ports[0] == ports[1] == ports[2]


def test_a_kept_connection_that_the_server_has_closed_is_no_fault(api, server):
    for _ in range(2):
        with api.watch(PODS, WATCH | {"timeoutSeconds": "0.05"}, 5.0) as lines:
            list(lines)
        server.kill()
        server.revive()


def test_a_watch_that_is_cut_in_the_middle_of_a_line_says_so(api, server):
    server.faults.cut_next_event = True
    server.store.create("pods", pod("one"))
    with pytest.raises(ApiUnreachable, match="cut"), api.watch(PODS, WATCH, 5.0) as lines:
        list(lines)


def test_a_silent_watch_is_given_up(api, server):
    with api.watch(PODS, WATCH, 0.3) as lines:
        server.faults.silence()
        with pytest.raises(ApiUnreachable, match="no word"):
            list(lines)


def test_a_watch_that_is_refused_says_what_was_answered(api, server):
    server.faults.answer(410, b'{"kind": "Status", "code": 410}', content_type="application/json")
    with pytest.raises(WatchRefused) as refused, api.watch(PODS, WATCH, 5.0):
        pass
    assert (refused.value.answer.status, refused.value.answer.body) == (410, b'{"kind": "Status", "code": 410}')


def test_nobody_there_is_told_without_secrets(api, server):
    server.kill()
    with pytest.raises(ApiUnreachable, match="refused") as error:
        api.request("GET", PODS)
    assert server.token not in str(error.value)
    assert server.url in str(error.value)


def test_a_certificate_of_somebody_else_is_not_trusted(server, files):
    with LoopbackApi() as other:
        (files / "ca.crt").write_bytes(other.ca_pem)
    with pytest.raises(ApiUnreachable, match="not trusted"):
        HttpApi(access(server, files), LinuxClock()).request("GET", PODS)


def test_a_name_that_the_certificate_does_not_say_is_not_trusted(server, files):
    wrong = Access(server=Server.parse(server.url, "else.where"), authorities=files / "ca.crt", token=files / "token")
    with pytest.raises(ApiUnreachable, match="not trusted"):
        HttpApi(wrong, LinuxClock()).request("GET", PODS)


def test_only_the_access_itself_can_leave_the_certificate_unlooked_at(server, files):
    unverified = Access(server=Server.parse(server.url), token=files / "token", verified=False)
    assert HttpApi(unverified, LinuxClock()).request("GET", PODS).status == 200


def test_another_authority_is_trusted_once_its_file_is_there(api, server, files):
    server.rotate_certificate()
    with pytest.raises(ApiUnreachable, match="not trusted"):
        api.request("GET", PODS)
    (files / "new").write_bytes(server.ca_pem)
    os.replace(files / "new", files / "ca.crt")
    assert api.request("GET", PODS).status == 200


def test_an_authority_that_is_gone_or_half_written_goes_on_being_trusted(api, files):
    api.request("GET", PODS)
    (files / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\nMIIB")
    assert api.request("GET", PODS).status == 200
    (files / "ca.crt").unlink()
    assert api.request("GET", PODS).status == 200


def test_a_token_that_is_refused_is_read_again_at_once(api, server, files):
    api.request("GET", PODS)
    server.tokens = {"second"}
    (files / "token").write_text("second")
    assert api.request("GET", PODS).status == 200
    server.tokens = {"third"}
    (files / "token").write_text("third")
    with api.watch(PODS, WATCH | {"timeoutSeconds": "0.05"}, 5.0) as lines:
        list(lines)


def test_a_token_is_read_again_after_a_minute_though_the_old_one_is_still_taken(server, files):
    clock = SetClock()
    api = HttpApi(access(server, files), clock)
    api.request("GET", PODS)
    (files / "token").write_text("second")
    server.tokens |= {"second"}
    clock.now = 59.0
    api.request("GET", PODS)
    server.tokens = {"second"}
    clock.now = 60.0
    before = len(server.requests)
    assert api.request("GET", PODS).status == 200
    assert len(server.requests) == before + 1  # not refused first


def test_a_revoked_token_is_an_answer_too(api, server):
    server.tokens = set()
    assert api.request("GET", PODS).status == 401
    with pytest.raises(WatchRefused, match="401"), api.watch(PODS, WATCH, 5.0):
        pass


@pytest.mark.parametrize("text", ["", "two words", "line\nline", "x" * 70_000])
def test_what_is_no_token_is_not_shown(server, files, text):
    (files / "token").write_text(text)
    with pytest.raises(ApiUnreachable, match="holds no token") as error:
        HttpApi(access(server, files), LinuxClock()).request("GET", PODS)
    assert text == "" or text not in str(error.value)


@pytest.mark.parametrize("inline", [True, False])
def test_a_client_certificate_says_who_one_is(server, files, inline):
    certificate, key = server.client_certificate()
    paths = (files / "client.crt", files / "client.key")
    for path, pem in zip(paths, (certificate, key), strict=True):
        path.write_bytes(pem)
    given = (Inline(certificate), Inline(key)) if inline else paths
    known = Access(server=Server.parse(server.url), authorities=Inline(server.ca_pem), certificate=given[0], key=given[1])
    assert HttpApi(known, LinuxClock()).request("GET", PODS).status == 200
    kept = [os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{number}")]
    assert not [path for path in kept if "memfd" in path]


def test_proxies_of_the_environment_are_not_asked(api, monkeypatch):
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert api.request("GET", PODS).status == 200


def test_a_redirect_is_an_answer_and_not_followed(api, server):
    server.faults.answer(302, b"", headers={"Location": "https://127.0.0.1:1/"})
    assert api.request("GET", PODS).status == 302


def test_closing_wakes_whoever_waits(api):
    told = []

    def listen():
        try:
            with api.watch(PODS, WATCH, 60.0) as lines:
                told.append("open")
                list(lines)
        except ApiUnreachable as error:
            told.append(str(error))

    thread = threading.Thread(target=listen)
    thread.start()
    deadline = time.monotonic() + 60
    while not told and time.monotonic() < deadline:
        time.sleep(0.01)
    api.close()
    thread.join(60)
    assert not thread.is_alive()
    assert len(told) == 2
    with pytest.raises(ApiUnreachable):
        api.request("GET", PODS)


def test_a_kubeconfig_leads_to_the_server(server, tmp_path):
    found = from_kubeconfig(Path(server.write_kubeconfig(tmp_path / "config")))
    assert HttpApi(found, LinuxClock()).request("GET", PODS).status == 200
    assert server.token not in repr(found)


def test_dropped_watches_leave_no_descriptor_behind(api, server):
    server.store.create("pods", pod("one"))
    before = None
    for number in range(60):
        server.faults.cut_next_event = True
        with contextlib.suppress(ApiUnreachable), api.watch(PODS, WATCH, 5.0) as lines:
            list(lines)
        if number == 10:
            before = len(os.listdir("/proc/self/fd"))
    server.drop_connections()
    assert len(os.listdir("/proc/self/fd")) <= before + 2  # the server's own ends are here too


def test_a_connection_is_never_opened_anew_without_tls(server, files):
    context = Trust(access(server, files)).context()
    connection = Connection(("127.0.0.1", server.port), "127.0.0.1", context, 5.0, LinuxClock())
    connection.close()
    with pytest.raises(http.client.NotConnected):
        connection.send(Question("GET", PODS, {}, None, 60.0), {"Authorization": "Bearer secret"})


class Dripping:
    """A TLS server that says the same over and over, to one client after the other."""

    def __init__(self, context, first, again):
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._context, self._first, self._again = context, first, again
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ending.set()
        self._thread.join()
        self._listening.close()

    def _serve(self):
        self._listening.settimeout(0.05)
        while not self._ending.is_set():
            with contextlib.suppress(OSError):
                plain, _ = self._listening.accept()
                plain.settimeout(5)
                with self._context.wrap_socket(plain, server_side=True) as client:
                    client.recv(4096)
                    client.sendall(self._first)
                    while not self._ending.wait(0.002):
                        client.sendall(self._again)


class HurriedClock(SetClock):
    """Each look at it is a second later."""

    def monotonic(self):
        self.now += 1
        return self.now


@contextlib.contextmanager
def asking(dripping, files, clock):
    told = Access(server=Server.parse(f"https://127.0.0.1:{dripping.port}"), authorities=files / "ca.crt", token=files / "token")
    with contextlib.closing(HttpApi(told, clock)) as api:
        yield api


CONTINUE, OK, CHUNKED = b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("first", "again"),
    [
        pytest.param(b"", CONTINUE, id="interim answers"),
        pytest.param(OK + b"X: ", b"x", id="a header"),
        pytest.param(OK + CHUNKED, b"0", id="the length of a chunk"),
        pytest.param(OK + CHUNKED + b"0\r\n", b"X: y\r\n", id="trailers"),
    ],
)
def test_an_answer_that_drips_without_end_is_given_up(server, files, first, again):
    with Dripping(server.server_context(), first, again) as dripping, asking(dripping, files, HurriedClock()) as api:
        with pytest.raises(ApiUnreachable, match="the answer takes longer than 60 s"):
            api.request("GET", PODS, timeout=5.0)
        with pytest.raises(ApiUnreachable, match="the answer takes longer than 14 s"), api.watch(PODS, WATCH, 7.0) as lines:
            list(lines)


def test_the_last_wait_for_an_answer_ends_with_the_time_for_the_whole(server, files):
    context = Trust(access(server, files)).context()
    with Dripping(server.server_context(), OK, b"") as dripping:
        connection = Connection(("127.0.0.1", dripping.port), "127.0.0.1", context, 5.0, LinuxClock())
        with contextlib.closing(connection), pytest.raises(OSError, match="the answer takes longer than 0 s"):
            connection.send(Question("GET", PODS, {}, None, 0.1), {})


def test_interim_answers_without_end_are_given_up(server, files):
    endless = f"the answer's head is longer than {LARGEST_HEAD} bytes"
    with (
        Dripping(server.server_context(), b"", CONTINUE * 4000) as dripping,
        asking(dripping, files, LinuxClock()) as api,
        pytest.raises(ApiUnreachable, match=endless),
    ):
        api.request("GET", PODS)
