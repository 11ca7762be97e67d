import pytest

from builders import GIB, be, judged, ls, snapshot
from qosmanager.config.settings import Settings
from qosmanager.model.qos import Level, QoS


def cpu(*pods, settings=None, **node):
    return judged(snapshot(*pods, **node), settings=settings).cpu


def memory(**node):
    return judged(snapshot(cpu_usage=0.0, memory_total=100 * GIB, **node)).memory


def io(**node):
    return judged(snapshot(cpu_usage=0.0, **node)).io


def points(pressure):
    return {factor.name: factor.points for factor in pressure.factors}


def shown(pressure):
    """Return of each factor its name, points, cap, readings and note."""
    return [(one.name, one.points and round(one.points, 9), round(one.cap, 9), one.inputs, one.note) for one in pressure.factors]


def test_cpu_factors_show_the_readings_they_are_made_of():
    assert shown(cpu(ls(usage=4.0, request=8.0), cpu_usage=8.0, cpu_trend=0.25, load1=8.0)) == [
        ("usage", 20, 40, {"cpu_percent": 50.0}, ""),
        ("ls_ratio", 15, 60, {"ls_usage": 4.0, "ls_request": 8.0}, ""),
        ("trend", 5, 20, {"cpu_trend": 0.25}, ""),
        ("load", 5, 20, {"load1": 8.0, "cpus": 16.0}, ""),
    ]


def test_cpu_factors_that_are_not_measured_say_so():
    assert shown(cpu(cpu_usage=None)) == [
        ("usage", 0, 40, {"cpu_percent": None}, "not measured"),
        ("ls_ratio", 0, 60, {"ls_usage": 0, "ls_request": 4.0}, "not measured"),
        ("trend", 0, 20, {"cpu_trend": None}, "not measured"),
        ("load", 0, 20, {"load1": None, "cpus": 16.0}, "not measured"),
    ]


def test_memory_factors_show_the_readings_they_are_made_of():
    readings = {"memory_available": 20 * GIB, "ls_memory_growth": 4.0, "pgscan_direct": 500.0, "pgscan_kswapd": 100.0}
    assert shown(memory(**readings, swap_total=10 * GIB, swap_used=5 * GIB)) == [
        ("usage", 28, 35, {"memory_percent": 80.0}, ""),
        ("ls_growth", 5, 25, {"ls_memory_growth": 4.0}, ""),
        ("reclaim", 10, 20, {"pgscan_direct": 500.0, "pgscan_kswapd": 100.0}, ""),
        ("swap", 10, 20, {"swap_percent": 50.0}, ""),
    ]
    # Without swap points and caps are a quarter higher.
    assert shown(memory(**readings, swap_total=0)) == [
        ("usage", 35, 43.75, {"memory_percent": 80.0}, ""),
        ("ls_growth", 6.25, 31.25, {"ls_memory_growth": 4.0}, ""),
        ("reclaim", 12.5, 25, {"pgscan_direct": 500.0, "pgscan_kswapd": 100.0}, ""),
        ("swap", None, 20, {"swap_total": 0}, "no swap device"),
    ]


def test_memory_factors_that_are_not_measured_say_so():
    assert [(one.name, one.note) for one in memory(swap_total=GIB).factors] == [
        (name, "not measured") for name in ("usage", "ls_growth", "reclaim", "swap")
    ]
    assert [(one.name, one.note) for one in memory().factors][:3] == [(name, "not measured") for name in ("usage", "ls_growth", "reclaim")]


def test_io_factors_show_the_readings_they_are_made_of():
    assert shown(io(io_psi_some=50.0, iowait=20.0, disk_util=60.0, net_util=30.0)) == [
        ("stall", 20, 40, {"io_psi_some": 50.0}, ""),
        ("iowait", 12, 30, {"iowait": 20.0}, ""),
        ("disk", 12, 20, {"disk_util": 60.0}, ""),
        ("network", 3, 10, {"net_util": 30.0}, ""),
    ]
    assert shown(io(iowait=30.0, disk_util=50.0)) == [
        ("iowait", 36, 60, {"iowait": 30.0}, ""),
        ("disk", 20, 40, {"disk_util": 50.0}, ""),
        ("stall", None, 40, {"io_psi_some": None}, "not measured"),
        ("network", None, 10, {"net_util": None}, "not measured"),
    ]


def test_cpu_usage_counts_two_fifths_of_its_percent():
    assert points(cpu(cpu_usage=8.0))["usage"] == pytest.approx(20)
    assert points(cpu(cpu_usage=16.0))["usage"] == pytest.approx(40)


@pytest.mark.parametrize(
    ("usage", "request_", "expected"),
    [(8.0, 16.0, 15), (16.0, 16.0, 30), (32.0, 16.0, 60), (60.0, 16.0, 60), (8.0, 4.0, 15)],
)
def test_ls_ratio_counts_to_twice_the_request(usage, request_, expected):
    assert points(cpu(ls(usage=usage, request=request_), cpus=64.0, cpu_usage=0.0))["ls_ratio"] == pytest.approx(expected)


def test_a_small_ls_request_counts_as_a_quarter_of_the_node():
    # 1.9 of 16 CPUs: 1.9 / 4 x 30.
    assert points(cpu(ls(usage=1.9, request=1.0), cpu_usage=2.0))["ls_ratio"] == pytest.approx(14.25)


def test_without_the_floor_the_ratio_is_literal():
    ratio = points(cpu(ls(usage=1.9, request=1.0), cpu_usage=2.0, settings=Settings(ls_request_floor=0.0)))["ls_ratio"]
    assert ratio == pytest.approx(57)


def test_ls_ratio_sums_over_the_pods_that_declare_a_request():
    pods = (ls("a", usage=4.0, request=4.0), ls("b", QoS.LSR, usage=2.0, request=4.0), ls("c", usage=5.0), ls("d", usage=5.0, request=0.0))
    assert points(cpu(*pods, cpu_usage=16.0))["ls_ratio"] == pytest.approx(22.5)


def test_an_idle_ls_pod_counts_with_its_request():
    pods = (ls("a", usage=4.0, request=4.0), ls("b", usage=0.0, request=4.0))
    assert points(cpu(*pods, cpu_usage=4.0))["ls_ratio"] == pytest.approx(15)


def test_an_ls_pod_that_is_not_measured_is_not_counted_as_idle():
    pods = (ls("a", usage=4.0, request=4.0), ls("b", request=4.0))
    assert points(cpu(*pods, cpu_usage=4.0))["ls_ratio"] == pytest.approx(30)


@pytest.mark.parametrize("pods", [(), (be(usage=4.0, request=4.0),), (ls(request=4.0),)])
def test_no_measured_ls_pod_gives_no_ls_ratio_points(pods):
    assert points(cpu(*pods, cpu_usage=4.0))["ls_ratio"] == 0


@pytest.mark.parametrize(("trend", "expected"), [(0.5, 10), (1.0, 20), (2.0, 20), (-3.0, 0), (None, 0)])
def test_trend_counts_twenty_points_for_a_point_a_minute(trend, expected):
    assert points(cpu(cpu_usage=4.0, cpu_trend=trend))["trend"] == pytest.approx(expected)


@pytest.mark.parametrize(("load", "expected"), [(8.0, 5), (16.0, 10), (32.0, 20), (90.0, 20), (None, 0)])
def test_load_counts_to_twice_the_cpus(load, expected):
    assert points(cpu(cpu_usage=4.0, load1=load))["load"] == pytest.approx(expected)


def test_a_score_ends_at_100_and_its_factors_stay_as_counted():
    pressure = cpu(ls(usage=16.0, request=4.0), cpu_usage=16.0, cpu_trend=5.0, load1=32.0)
    assert pressure.score == 100
    assert points(pressure) == {"usage": 40, "ls_ratio": 60, "trend": 20, "load": 20}


@pytest.mark.parametrize(
    ("percent", "level"),
    [
        (39.999999999, Level.LOW),
        (40, Level.MEDIUM),
        (59.9, Level.MEDIUM),
        (60, Level.HIGH),
        (75, Level.CRITICAL),
        (90, Level.EMERGENCY),
        (89.9999999999, Level.EMERGENCY),
    ],
)
def test_levels_begin_at_their_bound_and_compare_at_nine_digits(percent, level):
    assert Settings().cpu_pressure.level(percent) is level


def test_memory_usage_without_swap_is_scaled_by_a_fifth_more():
    pressure = memory(memory_available=20 * GIB)
    assert points(pressure) == {"usage": pytest.approx(35), "ls_growth": 0, "reclaim": 0, "swap": None}
    assert pressure.score == pytest.approx(35)  # 80 x 0.35 / 0.8


def test_memory_usage_beside_swap_is_as_it_is():
    pressure = memory(memory_available=20 * GIB, swap_total=10 * GIB, swap_used=5 * GIB)
    assert points(pressure) == {"usage": pytest.approx(28), "ls_growth": 0, "reclaim": 0, "swap": pytest.approx(10)}


def test_a_swap_device_whose_use_is_not_measured_counts_nothing_and_scales_nothing():
    assert points(memory(memory_available=20 * GIB, swap_total=10 * GIB)) == {
        "usage": pytest.approx(28),
        "ls_growth": 0,
        "reclaim": 0,
        "swap": 0,
    }


@pytest.mark.parametrize(("growth", "expected"), [(4.0, 5), (20.0, 25), (40.0, 25), (-5.0, 0), (None, 0)])
def test_ls_growth_counts_to_twenty_percent_a_minute(growth, expected):
    pressure = memory(memory_available=50 * GIB, ls_memory_growth=growth, swap_total=GIB, swap_used=0)
    assert points(pressure)["ls_growth"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("direct", "kswapd", "expected"),
    [
        (99.9, 0.0, 0),  # under the floor
        (100.0, 0.0, 20),  # kswapd scans nothing
        (100.0, 1000.0, 0.2),  # a tenth, x 10, x 0.2
        (500.0, 100.0, 10),
        (5000.0, 100.0, 20),
        (None, 100.0, 0),
        (500.0, None, 0),
    ],
)
def test_reclaim_counts_direct_scans_against_kswapd(direct, kswapd, expected):
    pressure = memory(memory_available=50 * GIB, pgscan_direct=direct, pgscan_kswapd=kswapd, swap_total=GIB, swap_used=0)
    assert points(pressure)["reclaim"] == pytest.approx(expected)


def test_io_factors_add_up():
    pressure = io(io_psi_some=50.0, iowait=20.0, disk_util=60.0, net_util=30.0)
    assert points(pressure) == {
        "stall": pytest.approx(20),
        "iowait": pytest.approx(12),
        "disk": pytest.approx(12),
        "network": pytest.approx(3),
    }
    assert pressure.score == pytest.approx(47)
    assert pressure.level is Level.MEDIUM


def test_iowait_counts_twice_up_to_fifty_percent():
    assert points(io(io_psi_some=0.0, iowait=80.0, disk_util=0.0, net_util=0.0))["iowait"] == pytest.approx(30)


def test_io_without_stall_and_network_is_scaled_to_what_is_left():
    # iowait 30 -> 18, disk 50 -> 10; the weights left are 0.3 + 0.2.
    pressure = io(iowait=30.0, disk_util=50.0)
    assert points(pressure) == {"iowait": pytest.approx(36), "disk": pytest.approx(20), "stall": None, "network": None}


def test_io_of_which_nothing_is_measured_is_zero():
    pressure = io()
    assert pressure.score == 0
    assert set(points(pressure).values()) == {None}
