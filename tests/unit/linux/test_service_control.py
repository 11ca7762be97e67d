"""systemctl as the commands use it: a script of the test's own that writes down what it was asked."""

from __future__ import annotations

import pytest

from qosmanager.linux.service_control import ControlError, ServiceControl

SCRIPT = """#!/bin/sh
echo "$@" >> {log}
case "$1" in
is-active) exit {active} ;;
disable) echo "Unit is on fire." >&2; exit {disable} ;;
esac
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    def answering(active: int = 0, disable: int = 0) -> ServiceControl:
        command = tmp_path / "systemctl"
        command.write_text(SCRIPT.format(log=tmp_path / "log", active=active, disable=disable))
        command.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        return ServiceControl(tmp_path)

    return answering


def asked(tmp_path) -> list[str]:
    return (tmp_path / "log").read_text().splitlines()


def test_units_are_stopped_and_taken_out_of_the_boot(machine, tmp_path):
    control = machine()
    control.disable_now("a.timer", "b.service")
    control.reload()
    assert asked(tmp_path) == ["disable --now a.timer b.service", "daemon-reload"]


def test_whether_a_unit_runs(machine):
    assert machine(active=0).is_active("b.service")
    assert not machine(active=3).is_active("b.service")


def test_what_systemctl_refuses_is_told(machine):
    with pytest.raises(ControlError, match=r"^systemctl disable --now b\.service: Unit is on fire\.$"):
        machine(disable=1).disable_now("b.service")


def test_where_systemd_does_not_run_nothing_is_asked(tmp_path):
    control = ServiceControl(tmp_path / "nothing")
    control.reload()
    control.disable_now("b.service")
    assert (control.runs, control.is_active("b.service")) == (False, False)
