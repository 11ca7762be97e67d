"""What the service manager hears, on a real datagram socket."""

from __future__ import annotations

import os
import socket

import pytest

from qosmanager.linux.service_manager import ServiceManager


@pytest.fixture
def heard(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as listener:
        listener.bind(str(tmp_path / "notify"))
        yield listener


def manager(tmp_path, **more: str) -> ServiceManager:
    return ServiceManager.of({"NOTIFY_SOCKET": str(tmp_path / "notify"), **more})


def texts(listener: socket.socket) -> list[str]:
    found = []
    while True:
        try:
            found.append(listener.recv(4096).decode())
        except BlockingIOError:
            return found


def test_it_hears_ready_alive_and_stopping(tmp_path, heard):
    told = manager(tmp_path, WATCHDOG_USEC="30000000")
    told.ready("cycle 1")
    told.alive("cycle 2")
    told.stopping("signal 15")
    assert texts(heard) == ["READY=1\nSTATUS=cycle 1", "WATCHDOG=1\nSTATUS=cycle 2", "STOPPING=1\nSTATUS=signal 15"]
    told.close()


def test_reloading_carries_the_monotonic_time(tmp_path, heard):
    told = manager(tmp_path)
    told.reloading()
    first, second = texts(heard)[0].split("\n")
    assert first == "RELOADING=1"
    assert second.startswith("MONOTONIC_USEC=")
    assert int(second.partition("=")[2]) > 0
    told.close()


def test_one_that_does_not_watch_hears_no_watchdog(tmp_path, heard):
    told = manager(tmp_path)
    told.alive("cycle 2")
    told.allow(300.0)
    assert (told.watchdog, texts(heard)) == (None, ["STATUS=cycle 2"])
    told.close()


def test_more_patience_is_asked_for_once(tmp_path, heard):
    told = manager(tmp_path, WATCHDOG_USEC="30000000")
    assert told.watchdog == 30.0
    told.allow(30.0)
    told.allow(300.0)
    told.allow(300.0)
    assert texts(heard) == ["WATCHDOG_USEC=300000000"]
    told.close()


def test_a_watch_over_another_process_is_none_of_ours(tmp_path, heard):
    told = manager(tmp_path, WATCHDOG_USEC="30000000", WATCHDOG_PID=str(os.getpid() + 1))
    told.alive("x")
    assert (told.watchdog, texts(heard)) == (None, ["STATUS=x"])
    told.close()


def test_a_status_stays_one_line(tmp_path, heard):
    told = manager(tmp_path)
    told.alive("one\nREADY=1")
    assert texts(heard) == ["STATUS=one READY=1"]
    told.close()


def test_the_channel_is_taken_out_of_the_environment():
    environment = {"NOTIFY_SOCKET": "/nowhere/notify", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1", "PATH": "/bin"}
    told = ServiceManager.of(environment)
    assert environment == {"PATH": "/bin"}
    told.ready("nobody listens there, and that is no error")
    told.close()


def test_without_a_manager_nothing_is_sent_or_opened():
    told = ServiceManager.of({})
    told.ready("x")
    told.alive("x")
    assert told.watchdog is None


def test_an_abstract_address_works():
    name = f"qosm-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as listener:
        listener.bind(f"\0{name}")
        told = ServiceManager.of({"NOTIFY_SOCKET": f"@{name}"})
        told.alive("x")
        assert texts(listener) == ["STATUS=x"]
        told.close()
