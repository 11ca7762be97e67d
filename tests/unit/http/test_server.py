import http.client
import json
import socket
from contextlib import ExitStack, closing

import msgspec
import pytest
from msgspec.structs import replace

from qosmanager.config.settings import Settings
from qosmanager.http.board import Board
from qosmanager.http.server import MOST_CONNECTIONS, Listen, ListenError, Server
from qosmanager.model.actions import Result
from qosmanager.model.snapshot import Node, Snapshot
from qosmanager.views.status import About
from records import EVICT_CPU, LIMIT, receipt, record

LOOPBACK = Listen("127.0.0.1", 0)


@pytest.fixture
def board():
    return Board(About(version="1.2.3", pid=42, started=0.0), Settings())


@pytest.fixture
def ask(board):
    with Server(board, LOOPBACK) as server:

        def asking(path, method="GET", **headers):
            with closing(http.client.HTTPConnection(server.listen.host, server.listen.port, timeout=60)) as connection:
                connection.request(method, path, headers=headers)
                answer = connection.getresponse()
                return answer.status, answer.headers, answer.read().decode()

        yield asking


def test_status_answers_the_last_cycle(board, ask):
    assert ask("/status")[0] == 503
    board.publish(record(number=3), Settings())
    code, headers, body = ask("/status")
    assert (code, headers["content-type"], json.loads(body)["cycle"]) == (200, "application/json", 3)


def test_metrics_answer_prometheus_text_with_the_agents_own_process(board, ask):
    board.publish(record(actions=(LIMIT,), receipts=(receipt(0, Result.APPLIED),)), Settings())
    code, headers, body = ask("/metrics")
    assert code == 200
    assert headers["content-type"].startswith("text/plain; version=")
    assert "koordlet_qos_cpu_suppress_total 1.0" in body
    assert "process_resident_memory_bytes" in body


@pytest.mark.parametrize("accept", ["application/openmetrics-text; version=x", "text/plain;version=1=2", "text/plain; version=\xb2", "*/*"])
def test_a_format_that_nobody_knows_is_answered_with_the_plain_one(ask, accept):
    code, headers, _ = ask("/metrics", Accept=accept)
    assert (code, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")


def test_decisions_can_be_cut_and_filtered(board, ask):
    board.publish(record(actions=(LIMIT, EVICT_CPU)), Settings())
    assert [entry["kind"] for entry in json.loads(ask("/decisions")[2])["decisions"]] == ["level", "set_be_cpu_limit", "evict"]
    assert [entry["kind"] for entry in json.loads(ask("/decisions?last=1")[2])["decisions"]] == ["evict"]
    assert [entry["kind"] for entry in json.loads(ask("/decisions?pod=batch/crunch")[2])["decisions"]] == ["evict"]


def test_a_group_whose_name_is_no_text_hides_no_decision(board, ask):
    odd = replace(receipt(0, Result.APPLIED), target="cpu:/batch/\udcff/cpu.max")
    board.publish(record(actions=(LIMIT,), receipts=(odd,)), Settings())
    board.event("problem", "declarations", "\udcff cannot be followed")
    code, _, body = ask("/decisions")
    assert code == 200
    assert json.loads(body)["decisions"][-2]["receipts"][0]["target"] == r"cpu:/batch/\xff/cpu.max"
    assert json.loads(body)["decisions"][-1]["reason"] == r"\xff cannot be followed"
    msgspec.json.decode(body)  # which takes no half of a surrogate pair: the client of the other commands reads with it


@pytest.mark.parametrize(
    "query",
    [
        "last=0",
        "last=501",
        "last=x",
        "last=-1",
        "last=1e3",
        "pod=api",
        "pod=/",
        "pod=a/b/c",
        "lats=3",
        "terms=yes",
        "last=1&last=1",
        "last=%C2%B2",
        "last=%D9%A1",
    ],
)
def test_a_bad_query_is_refused_with_what_is_allowed(ask, query):
    code, _, body = ask(f"/decisions?{query}")
    assert code == 400
    assert set(json.loads(body)) == {"error", "allowed"}


def test_unknown_paths_and_other_methods(ask):
    code, _, body = ask("/nothing")
    assert code == 404
    assert "/status" in json.loads(body)["allowed"]
    code, headers, body = ask("/status", "POST")
    assert (code, json.loads(body)["allowed"]) == (405, "GET")
    assert "GET" in headers["allow"]


def test_the_index_names_the_endpoints(ask):
    code, _, body = ask("/")
    assert code == 200
    assert all(path in body for path in ("/metrics", "/healthz", "/readyz", "/status", "/snapshot", "/openapi.json"))
    assert "?last=1..500 &pod=NAMESPACE/NAME &terms=true" in body


def test_a_loop_that_stands_is_not_healthy(board, ask):
    assert ask("/healthz")[0] == 200  # just started
    board.publish(record(), Settings())
    assert ask("/healthz")[0] == 200
    board.publish(record(), replace(Settings(), sync_period=0.0))
    code, _, body = ask("/healthz")
    assert code == 503
    assert json.loads(body)["reason"].startswith("cycle 1 finished ")
    assert ask("/readyz")[0] == 503


def test_ready_needs_fresh_data(board, ask):
    assert ask("/readyz")[0] == 503
    board.publish(record(), Settings())
    assert ask("/readyz")[0] == 200
    board.publish(record(snapshot=replace(record().snapshot, node_age=3.1)), Settings())
    assert ask("/readyz")[0] == 503
    board.publish(record(snapshot=Snapshot(node=Node(cpus=2.0), missing={"node.cpu_usage": "first sample"})), Settings())
    assert json.loads(ask("/readyz")[2])["reason"] == "first sample"


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("localhost:1", 200),
        ("127.0.0.1", 200),
        ("[::1]:9316", 200),
        ("[::1]", 200),
        ("evil.example:9316", 421),
        ("[::1].evil.example", 421),
        ("[::1]:1.evil.example", 421),
    ],
)
def test_only_loopback_names_reach_a_loopback_server(ask, host, code):
    assert ask("/", Host=host)[0] == code


def test_no_page_of_another_origin_is_invited(board, ask):
    board.publish(record(), Settings())
    assert "access-control-allow-origin" not in ask("/status", Origin="https://evil.example")[1]


def test_a_port_in_use_is_one_clear_message(board):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=rf"cannot listen on 127.0.0.1:{port}: Address already in use"):
            Server(board, Listen("127.0.0.1", port))


def test_an_address_of_another_machine_is_one_clear_message(board):
    with pytest.raises(ListenError, match=r"cannot listen on 192.0.2.1:9316: Cannot assign requested address"):
        Server(board, Listen("192.0.2.1", 9316))


def test_the_port_is_free_again_after_stop(board):
    with Server(board, LOOPBACK) as server:
        port = server.listen.port
    with Server(board, Listen("127.0.0.1", port)) as server:
        assert server.url == f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("text", "expected"), [("off", None), ("127.0.0.1:9316", Listen("127.0.0.1", 9316)), ("[::1]:0", Listen("::1", 0))]
)
def test_listen_is_read(text, expected):
    assert Listen.parse(text) == expected


@pytest.mark.parametrize("text", ["", "9316", ":9316", "localhost:", "localhost:http", "localhost:65536", "::1:9316", "[::1]", "[a]:-1"])
def test_a_listen_that_means_nothing_is_refused(text):
    with pytest.raises(ListenError, match="--listen"):
        Listen.parse(text)


@pytest.mark.parametrize("text", ["[::1", "[::1:80", "a]:80", "[[::1]]:80"])
def test_brackets_that_do_not_match_are_told_at_once_and_looked_up_nowhere(text):
    with pytest.raises(ListenError, match=r"expected HOST:PORT, \[IPV6\]:PORT or off"):
        Listen.parse(text)


def test_clients_that_say_nothing_keep_nobody_out(board):
    with Server(board, LOOPBACK) as server, ExitStack() as silent:
        address = server.listen.host, server.listen.port
        crowd = [silent.enter_context(closing(socket.create_connection(address, timeout=60))) for _ in range(MOST_CONNECTIONS)]
        crowd[1].sendall(b"GET /status HTTP/1.1\r\nHost: loc")  # one says half of it
        with closing(http.client.HTTPConnection(*address, timeout=60)) as probe:
            probe.request("GET", "/healthz")
            assert probe.getresponse().status == 200
        assert crowd[0].recv(1) == b""  # the oldest has made room
