import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from qosmanager.demo.load import Report
from qosmanager.demo.processes import Load, end, start


@pytest.fixture
def service():
    process = start("service", "--seconds", "60", pipes=True)
    yield int(process.stdout.readline().decode().removeprefix("port="))
    end(process)


def get(port, path):
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_the_service_counts_its_requests_in_a_histogram_of_seconds(service):
    for _ in range(3):
        assert get(service, "/") == (200, "done\n")
    families = {family.name: family for family in text_string_to_metric_families(get(service, "/metrics")[1])}
    samples = families["http_request_duration_seconds"].samples
    assert next(sample.value for sample in samples if sample.name.endswith("_count")) == 3.0
    assert 0.001 < next(sample.value for sample in samples if sample.name.endswith("_sum")) < 30.0
    assert get(service, "/other")[0] == 404


def wait_for(what, within=60.0):
    deadline = time.monotonic() + within
    while not what():
        assert time.monotonic() < deadline, "did not come about"
        time.sleep(0.05)


def test_latencies_belong_to_the_stage_in_which_the_request_was_due(service):
    load = Load(service, 60)
    try:
        load.stage("first", 100)
        wait_for(lambda: len(load.latencies("first")) >= 20)
        load.stage("second", 50)
        wait_for(lambda: len(load.latencies("second")) >= 10)
        load.drain()
        assert load.unanswered("first") == load.unanswered("second") == 0
        assert min(load.latencies("first")) >= 1.0  # two milliseconds of work, not nothing
    finally:
        load.stop()


class Stalling:
    """A server that answers nothing for a while, then everything."""

    def __init__(self, stall):
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.socket.getsockname()[1]
        self.open_at = time.monotonic() + stall
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        with connection, suppress(ConnectionError):  # whoever asked may end before it has read all
            while connection.recv(65536):
                time.sleep(max(0.0, self.open_at - time.monotonic()))
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


def test_requests_due_during_a_stall_count_the_whole_wait():
    server = Stalling(stall=3.0)
    load = Load(server.port, 60)
    try:
        load.stage("stalled", 100)
        wait_for(lambda: len(load.latencies("stalled")) >= 150)
        waited = sorted(load.latencies("stalled"))
        # A closed loop of 64 connections would have sent 64 requests by then and no more; here over a hundred waited, each its own time.
        assert sum(value > 500.0 for value in waited) > 100
    finally:
        load.stop()
        server.socket.close()


def test_what_is_never_answered_is_told():
    server = Stalling(stall=3600.0)
    load = Load(server.port, 60)
    try:
        load.stage("lost", 50)
        wait_for(lambda: load.unanswered("lost") >= 10)
        load.drain()
        assert load.latencies("lost") == []
        assert load.unanswered("lost") >= 10
    finally:
        load.stop()
        server.socket.close()


def test_a_report_reads_back():
    report = Report(stage="x", latencies=[1.5], waiting=2)
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


def test_growing_work_holds_more_and_more():
    process = start("batch", "grow", "--seconds", "30", "--rate", "50")
    try:
        wait_for(lambda: resident(process.pid) > 100 * 2**20)
    finally:
        assert end(process) == -signal.SIGKILL


def resident(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_work_ends_when_its_time_is_over():
    process = start("batch", "crunch", "--seconds", "0.5")
    assert process.wait(60) == -signal.SIGALRM


def test_work_ends_with_its_parent():
    script = "from qosmanager.demo.processes import *; print(start('batch', 'crunch', '--seconds', '60').pid, flush=True); time.sleep(60)"
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    child = int(parent.stdout.readline())
    wait_for(lambda: cpu_ticks(child) > 20)  # it is past its start, where it binds itself
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_for(lambda: not alive(child))


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[11])


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
