from __future__ import annotations

import math

import pytest

from qosmanager.execute.dialect import (
    Quota,
    UnreadableError,
    burst_file,
    check,
    parse_quota,
    parse_us,
    quota_file,
    quota_text,
    same,
    weight_file,
)
from qosmanager.model.workload import CgroupFile


@pytest.mark.parametrize(
    ("version", "cores", "period", "text"),
    [
        (1, 1.5, 100_000, "150000"),
        (1, 0.3, 100_000, "30000"),
        (1, 7.2, 50_000, "360000"),
        (1, 0.0, 100_000, "1000"),
        (1, math.inf, 100_000, "-1"),
        (2, 1.5, 20_000, "30000 20000"),
        (2, 0.001, 100_000, "1000 100000"),
        (2, 0.1, 1_000, "10000 100000"),
        (2, 1.5, 1_000, "1500 1000"),
        (2, math.inf, 50_000, "max 50000"),
        (1, 1 / 3, 100_000, "33333"),
    ],
)
def test_cores_as_the_kernel_spells_them(version, cores, period, text):
    assert quota_text(version, cores, period) == text


def test_unlimited_is_infinity():
    assert parse_us(quota_file(1, "g"), "-1") == math.inf
    assert parse_quota(quota_file(2, "g"), "max 100000") == Quota(math.inf, 100_000)
    assert parse_quota(quota_file(2, "g"), "150000 100000").cores == 1.5


def test_names():
    files = [quota_file, burst_file, weight_file]
    assert [each(1, "g").name for each in files] == ["cpu.cfs_quota_us", "cpu.cfs_burst_us", "cpu.shares"]
    assert [each(2, "g").name for each in files] == ["cpu.max", "cpu.max.burst", "cpu.weight"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cpu.cfs_quota_us", ""),
        ("cpu.cfs_quota_us", "12x"),
        ("cpu.cfs_quota_us", "-5"),
        ("cpu.max", "100000"),
        ("cpu.max", "max"),
        ("cpu.max", "max 0"),
        ("cpu.max", "a 100000"),
        ("cpuset.cpus", "0-"),
        ("cpuset.cpus", "a"),
        ("cpu.shares", "many"),
    ],
)
def test_texts_that_are_not_understood_name_the_file(name, text):
    with pytest.raises(UnreadableError, match="/g/"):
        check(CgroupFile("cpu", "g", name), text)


@pytest.mark.parametrize(
    ("name", "one", "other", "equal"),
    [
        ("cpu.cfs_quota_us", "150000", "150001", True),
        ("cpu.cfs_quota_us", "150000", "151000", False),
        ("cpu.cfs_quota_us", "-1", "150000", False),
        ("cpu.cfs_quota_us", "-1", "-1", True),
        ("cpu.max", "150000 100000", "150000 50000", False),
        ("cpu.max", "max 100000", "max 100000", True),
        ("cpuset.cpus", "0,1", "0-1", True),
        ("cpuset.cpus", "0", "", False),
        ("cpu.shares", "2", "3", False),
        ("cpu.shares", "1024", "1024", True),
        ("cpu.shares", "garbage", "1024", False),
    ],
)
def test_same_within_the_kernels_rounding(name, one, other, equal):
    assert same(CgroupFile("cpu", "g", name), one, other) is equal
