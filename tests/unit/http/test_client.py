import socket
import threading
from contextlib import closing, contextmanager, suppress

import pytest

from agents import agent
from qosmanager.http.client import AgentClient, BadUrlError, NoAnswerError
from qosmanager.linux.clock import LinuxClock
from qosmanager.model.actions import Result
from records import EVICT_CPU, LIMIT, receipt, record


def test_status_and_decisions_are_the_agents_own():
    with agent(record(7, actions=(LIMIT,), receipts=(receipt(0, Result.APPLIED),))) as server:
        client = AgentClient(server.url, LinuxClock())
        status = client.status()
        assert (status.cycle, status.pods[0].key, status.settings.sync_period) == (7, "shop/api", 1.0)
        assert [entry.kind for entry in client.decisions(10)] == ["level", "set_be_cpu_limit"]
        assert client.decisions(10)[1].terms is None
        assert client.decisions(1, with_terms=True)[0].terms.cpu.terms["usage"].inputs == {"cpu_percent": 75.0}


def test_readings_are_the_last_cycles_own():
    with agent(record(6), record(7)) as server:
        reading = AgentClient(server.url, LinuxClock()).reading()
    assert (reading.cycle, reading.wall, reading.snapshot) == (7, record(7).wall, record(7).snapshot)


def test_decisions_of_one_pod():
    with agent(record(actions=(LIMIT, EVICT_CPU))) as server:
        assert [entry.kind for entry in AgentClient(server.url + "/", LinuxClock()).decisions(10, "batch/crunch")] == ["evict"]


def test_an_agent_without_a_cycle_has_just_started():
    with agent() as server, pytest.raises(NoAnswerError, match="has just started: no cycle has finished yet"):
        AgentClient(server.url, LinuxClock()).status()


def test_nobody_there_is_one_line():
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    with pytest.raises(NoAnswerError, match=rf"^no agent answers at http://127.0.0.1:{port}: connection refused$"):
        AgentClient(f"http://127.0.0.1:{port}", LinuxClock()).status()


def test_somebody_else_there_is_said():
    with agent(record()) as server, pytest.raises(NoAnswerError, match=r"answers 404: Not Found; is that a qosmanager\?"):
        AgentClient(f"{server.url}/below", LinuxClock()).status()


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:9316", "ftp://node", "http://", "http://node:port", "http://[::1", "http://a b", "http://n?x"]
)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(BadUrlError, match="http://HOST:PORT"):
        AgentClient(url, LinuxClock())


@contextmanager
def somebody_else(first, again=b""):
    """Who answers one client so, and goes on with `again` until that one leaves."""

    def serve():
        client, _ = listening.accept()
        with client, suppress(OSError):
            client.recv(4096)
            client.sendall(first)
            while again:
                client.sendall(again)

    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"


@pytest.mark.parametrize(
    ("first", "again", "said"),
    [
        pytest.param(OK, b" " * (1 << 20), "the answer does not end", id="without an end"),
        pytest.param(OK[:-2] + b"Content-Length: 9\r\n\r\n{}", b"", "the answer was cut 7 bytes before its end", id="cut"),
        pytest.param(OK + b'{"a": ' + b"[" * 100_000, b"", "answers something else than this version expects", id="nested"),
        pytest.param(b"HTTP/1.1 404 No\r\n\r\n" + b"[" * 100_000, b"", "answers 404: no reason given", id="nested error"),
        pytest.param(b"HTTP/1.1 404 No\r\n\r\n" + b'{"error": "\\u001b[2J"}', b"", r"answers 404: \\x1b\[2J;", id="orders to a terminal"),
    ],
)
def test_an_answer_that_is_none_of_an_agent_is_one_line(first, again, said):
    with somebody_else(first, again) as url, pytest.raises(NoAnswerError, match=said):
        AgentClient(url, LinuxClock()).status()


class Leaping:
    """A clock on which seven seconds pass between two looks."""

    now = 0.0

    def monotonic(self):
        self.now += 7.0
        return self.now

    def wall(self):
        return self.now


@pytest.mark.parametrize(
    ("clock", "said"), [(LinuxClock(), "the answer's head is longer than 1048576 bytes"), (Leaping(), "the answer takes longer than 20 s")]
)
def test_a_head_that_goes_on_and_on_ends_by_size_or_time(clock, said):
    with somebody_else(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 400) as url, pytest.raises(NoAnswerError, match=said):
        AgentClient(url, clock).status()
