import contextlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from qosmanager.linux.clock import LinuxClock
from qosmanager.linux.fetch import LARGEST
from qosmanager.linux.latency import Histories, PrometheusLatencies
from qosmanager.model.qos import QoS
from qosmanager.model.workload import LatencySource, Workload

INF = float("inf")


class Service:
    """A service with a histogram: every answer has counted `step` requests more, 90 percent below 0.1 s and all below 0.5 s."""

    def __init__(self):
        self.step = 1000
        self.count = 0
        self.answer = self.metrics
        self.asked = 0
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                service.asked += 1
                service.answer(self)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/metrics"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def metrics(self, handler):
        self.count += self.step
        self.send(
            handler, f'rq_bucket{{le="0.1"}} {self.count * 0.9}\nrq_bucket{{le="0.5"}} {self.count}\nrq_bucket{{le="+Inf"}} {self.count}\n'
        )

    @staticmethod
    def send(handler, text, code=200, **headers):
        body = text.encode()
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        with contextlib.suppress(OSError):  # the client may have had enough
            handler.wfile.write(body)

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def service():
    made = Service()
    yield made
    made.close()


@pytest.fixture
def latencies(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    made = PrometheusLatencies(LinuxClock())
    yield made
    made.close()


def workload(url, name="api", histogram="rq"):
    return Workload(name=name, qos=QoS.LS, cgroup=name, latency=LatencySource(url, histogram))


def wait_for(found, seconds=60):
    deadline = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < deadline, "nothing came"
        time.sleep(0.02)
    return value


def p99(latencies, key="default/api"):
    latest = latencies.latest(key)
    return latest.p99 if latest else None


def problem(latencies, key="default/api"):
    return next((each for each in latencies.problems() if f" {key}: " in each), None)


def test_the_p99_of_a_real_endpoint_without_the_proxy(service, latencies):
    latencies.watch((workload(service.url),))
    assert wait_for(lambda: p99(latencies)) == pytest.approx(0.1 + 0.4 * 0.9)
    assert problem(latencies) is None


def test_each_measurement_is_a_new_object(service, latencies):
    latencies.watch((workload(service.url),))
    wait_for(lambda: p99(latencies))
    first = latencies.latest("default/api")
    wait_for(lambda: latencies.latest("default/api") is not first)


def test_few_requests_are_no_p99(service, latencies):
    service.step = 2
    latencies.watch((workload(service.url),))
    wait_for(lambda: service.asked > 2)
    assert latencies.latest("default/api").p99 is None
    assert latencies.problems() == ()


def test_a_source_that_is_not_there(latencies):
    latencies.watch((workload("http://127.0.0.1:9/metrics"),))
    assert "refused" in wait_for(lambda: problem(latencies))
    assert latencies.latest("default/api") is None


def test_another_histogram(service, latencies):
    latencies.watch((workload(service.url, histogram="nope"),))
    assert "no such histogram" in wait_for(lambda: problem(latencies))


@pytest.mark.parametrize("code", [404, 500])
def test_an_error_answer(service, latencies, code):
    service.answer = lambda handler: service.send(handler, "no", code)
    latencies.watch((workload(service.url),))
    assert str(code) in wait_for(lambda: problem(latencies))


def test_redirects_are_not_followed(service, latencies):
    other = Service()
    try:
        service.answer = lambda handler: service.send(handler, "", 302, Location=other.url)
        latencies.watch((workload(service.url),))
        assert "redirects to" in wait_for(lambda: problem(latencies))
        assert other.asked == 0
    finally:
        other.close()


def test_an_answer_without_end_is_cut_off(service, latencies):
    service.answer = lambda handler: service.send(handler, "x" * (3 * LARGEST))
    latencies.watch((workload(service.url),))
    assert "longer than" in wait_for(lambda: problem(latencies))


def test_an_answer_cut_before_its_end_is_none(service, latencies):
    # What is there of it, taken as all, would be the base of the next difference.
    def cut(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b'rq_bucket{le="0.1"} 900\n' + b'rq_bucket{le="0.5"} 1000\n' + b'rq_bucket{le="+Inf"} 1000\n')

    service.answer = cut
    latencies.watch((workload(service.url),))
    assert wait_for(lambda: problem(latencies)).endswith("the answer was cut 25 bytes before its end")


def test_garbage(service, latencies):
    service.answer = lambda handler: handler.wfile.write(b"\x00\x01 no http at all\r\n\r\n")
    latencies.watch((workload(service.url),))
    assert wait_for(lambda: problem(latencies))


def test_a_silent_service_holds_up_nobody(service, latencies):
    silent = Service()
    over = threading.Event()
    silent.answer = lambda _: over.wait(30)
    try:
        latencies.watch((workload(silent.url, "slow"), workload(service.url)))
        assert wait_for(lambda: p99(latencies))
        assert "timed out" in wait_for(lambda: problem(latencies, "default/slow"))
    finally:
        over.set()
        silent.close()


def test_a_trickling_service_is_given_up(service, latencies):
    def trickle(handler):
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(100):
                handler.wfile.write(b"#\n")
                time.sleep(0.1)

    service.answer = trickle
    latencies.watch((workload(service.url),))
    assert "takes longer" in wait_for(lambda: problem(latencies))


@pytest.mark.parametrize("line", [b"HTTP/1.0 200 OK\r\n" + b"X-Slow: 1\r\n" * 60, b"HTTP/1.0 200 " + b"O" * 300])
def test_trickling_headers_are_given_up_too(service, latencies, line):
    def trickle(handler):
        with contextlib.suppress(OSError):
            for byte in line:
                handler.wfile.write(bytes([byte]))
                time.sleep(0.05)

    service.answer = trickle
    latencies.watch((workload(service.url),))
    assert "takes longer" in wait_for(lambda: problem(latencies))


def test_close_ends_the_threads(service):
    latencies = PrometheusLatencies(LinuxClock())
    latencies.watch((workload(service.url),))
    wait_for(lambda: service.asked)
    latencies.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("latency-")]


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/", "nonsense"])
def test_only_http(latencies, url):
    latencies.watch((workload(url),))
    assert "only http" in wait_for(lambda: problem(latencies))


def test_a_pod_that_is_gone_is_asked_no_more(service, latencies):
    latencies.watch((workload(service.url),))
    wait_for(lambda: p99(latencies))
    latencies.watch(())
    assert latencies.latest("default/api") is None
    asked = service.asked
    time.sleep(1.5)
    assert service.asked <= asked + 1


def test_a_source_that_stays_keeps_its_history(service, latencies):
    latencies.watch((workload(service.url),))
    wait_for(lambda: p99(latencies))
    latencies.watch((workload(service.url), workload(service.url, "second")))
    assert p99(latencies) is not None


def test_the_shortest_window_with_a_hundred_requests():
    histories = Histories()
    assert histories.add(0.0, {0.1: 0.0, 0.5: 0.0, INF: 0.0}) is None
    assert histories.add(1.0, {0.1: 60.0, 0.5: 60.0, INF: 60.0}) is None
    # 120 in the last 2 s: 60 fast, 60 slow; only the 60 of the last second would be too few
    assert histories.add(2.0, {0.1: 60.0, 0.5: 120.0, INF: 120.0}) == pytest.approx(0.1 + 0.4 * (118.8 - 60) / 60)
    # 100 in the last second alone: all fast
    assert histories.add(3.0, {0.1: 160.0, 0.5: 220.0, INF: 220.0}) == pytest.approx(0.099)


def test_requests_older_than_the_window_do_not_count():
    histories = Histories()
    histories.add(0.0, {0.1: 0.0, INF: 0.0})
    histories.add(1.0, {0.1: 90.0, INF: 90.0})
    assert histories.add(16.5, {0.1: 120.0, INF: 120.0}) is None


def test_a_service_that_began_anew_is_measured_from_there():
    histories = Histories()
    histories.add(0.0, {0.1: 5000.0, INF: 5000.0})
    assert histories.add(1.0, {0.1: 10.0, INF: 10.0}) is None
    assert histories.add(2.0, {0.1: 210.0, INF: 210.0}) == pytest.approx(0.099)


def test_a_measurement_that_is_old_is_unknown(service):
    class Jumping(LinuxClock):
        ahead = 0.0

        def monotonic(self):
            return time.monotonic() + self.ahead

    clock = Jumping()
    latencies = PrometheusLatencies(clock)
    try:
        latencies.watch((workload(service.url),))
        wait_for(lambda: p99(latencies))
        service.answer = lambda handler: service.send(handler, "", 503)
        wait_for(lambda: "503" in (problem(latencies) or ""))
        clock.ahead = 11.0
        assert latencies.latest("default/api") is None
    finally:
        latencies.close()
