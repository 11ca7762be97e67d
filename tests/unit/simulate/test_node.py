"""The model of the node: CPU, throttling, queues, load, pods that end and come back."""

import pytest

from simulated import node

SERVICE = "service: {time: 1ms}"


def used(made, key, seconds=5):
    pod = made.pods[f"default/{key}"]
    before = pod.usage
    made.advance(seconds * 10)
    return (pod.usage - before) / seconds


def test_equal_slices_share_a_full_node_whatever_number_of_pods_each_holds():
    made = node("name: ls, qos: LS, cpu: {constant: 4}", "name: be, qos: BE, count: 4, cpu: {constant: 4}")
    assert used(made, "ls") == pytest.approx(2)
    assert used(made, "be-0") == pytest.approx(0.5)


def test_under_kubelets_weights_batch_gets_what_is_left():
    made = node(
        "name: ls, qos: LS, requests: {cpu: 1}, cpu: {constant: 3}",
        "name: be, qos: BE, cpu: {constant: 4}",
        node="{cpus: 4, system_cpu: 0, layout: kubernetes}",
    )
    assert used(made, "ls") == pytest.approx(3)
    assert used(made, "be") == pytest.approx(1)


def test_the_smallest_weight_lets_a_service_have_what_it_wants():
    made = node("name: ls, qos: LS, cpu: {constant: 4}", "name: be, qos: BE, cpu: {constant: 4}")
    made.weigh_batch(smallest=True)
    assert used(made, "ls") == pytest.approx(4 * 1024 / 1026)


def test_a_quota_holds_all_batch_together_and_its_pods_share_it():
    made = node("name: be, qos: BE, count: 3, cpu: {constant: 1}")
    made.hold_batch(1.2, None)
    assert [used(made, f"be-{number}") for number in range(3)] == pytest.approx([0.4] * 3)
    assert made.load == pytest.approx(3 * 0.4 * (1 - 2.718281828 ** (-15 / 60)), rel=0.2)


def test_cpus_hold_batch_as_a_quota_does():
    made = node("name: be, qos: BE, cpu: {constant: 4}")
    made.hold_batch(float("inf"), "0-1")
    assert used(made, "be") == pytest.approx(2)


def test_a_pod_above_its_own_limit_is_throttled_in_every_period():
    made = node("name: ls, qos: LS, limits: {cpu: 1}, cpu: {constant: 2}")
    made.advance(50)
    pod = made.pods["default/ls"]
    assert (pod.periods, pod.throttled) == (50, 50)
    assert pod.usage == pytest.approx(5)


def test_a_queue_that_gets_half_of_its_work_done_waits_longer_each_second():
    made = node(f"name: ls, qos: LS, limits: {{cpu: 1}}, cpu: {{constant: 2}}, {SERVICE}")
    service = made.pods["default/ls"]
    made.advance(20)
    # After 2 s, 2 core-seconds wait for 1 core: who comes now waits 2 s, who came in the middle of the last second 1.5 s.
    assert service.work == pytest.approx(2, abs=0.1)
    assert service.p50 == pytest.approx(1.5, abs=0.1)
    assert service.p99 == pytest.approx(2, abs=0.1)
    assert service.stalled == pytest.approx(2, abs=0.15)


def test_requests_that_would_wait_longer_than_the_timeout_are_given_up():
    made = node("name: ls, qos: LS, limits: {cpu: 1}, cpu: {constant: 2}, service: {time: 1ms, timeout: 1s}")
    made.advance(50)
    service = made.pods["default/ls"]
    assert service.p99 == pytest.approx(1, abs=0.01)
    assert service.given_up == pytest.approx(1000, rel=0.05)  # one core's worth in the last second


def test_a_calm_queue_has_the_latency_of_its_service_time_alone():
    made = node(f"name: ls, qos: LS, cpu: {{constant: 1}}, {SERVICE}")
    made.advance(10)
    service = made.pods["default/ls"]
    assert service.p99 == pytest.approx(0.0046, abs=0.0001)
    assert service.requests == pytest.approx(1000, rel=0.1)
    assert service.stalled == 0


def test_batch_of_equal_weight_keeps_requests_waiting_for_time_slices_and_the_smallest_weight_does_not():
    made = node("name: ls, qos: LS, cpu: {constant: 1}, service: {time: 2ms}", "name: be, qos: BE, cpu: {constant: 4}")
    service = made.pods["default/ls"]
    made.advance(10)
    assert service.p99 > 0.020
    made.weigh_batch(smallest=True)
    made.advance(20)
    assert service.p99 < 0.010


def test_few_requests_tell_a_p99_only_when_a_hundred_have_come():
    made = node("name: ls, qos: LS, cpu: {constant: 0.02}, service: {time: 1ms}")  # 20 a second
    service = made.pods["default/ls"]
    made.advance(20)
    assert service.told is None
    made.advance(60)
    assert service.told == pytest.approx(0.0046, abs=0.0001)


def test_a_pod_takes_its_time_to_end_at_most_its_grace_and_comes_back_as_another():
    made = node("name: be, qos: BE, cpu: {constant: 1}, ending: 20s, comes_back: 5s")
    pod = made.pods["default/be"]
    first = pod.workload.uid
    made.end(pod, 3.0, marked=False)
    made.advance(29)
    assert pod.workload is not None
    made.advance(1)
    assert pod.workload is None
    assert made.happenings == [("ended", "default/be")]
    made.advance(50)
    assert pod.workload.uid != first
    assert pod.usage == 0


def test_a_pod_that_was_marked_does_not_come_back():
    made = node("name: be, qos: BE, cpu: {constant: 1}, ending: 0s, comes_back: 1s")
    made.end(made.pods["default/be"], 3.0, marked=True)
    made.advance(100)
    assert made.here == []


def test_events_stop_a_workload_and_start_it_again():
    events = "events:\n- {at: 2s, do: stop, workload: be}\n- {at: 6s, do: start, workload: be}\n"
    made = node("name: be, qos: BE, cpu: {constant: 1}, ending: 1s", more=events)
    made.advance(25)
    assert len(made.here) == 1
    made.advance(10)
    assert made.here == []
    made.advance(30)
    assert len(made.here) == 1


def test_slowness_from_elsewhere_is_seen_in_the_latency_alone():
    events = "events:\n- {at: 2s, do: slow, workload: ls, by: 300ms, during: 3s}\n"
    made = node(f"name: ls, qos: LS, cpu: {{constant: 1}}, {SERVICE}", more=events)
    service = made.pods["default/ls"]
    seen = []
    for _ in range(7):
        made.advance(10)
        seen.append(service.p99 > 0.3)
    assert seen == [False, False, True, True, True, False, False]
    assert service.stalled == 0


def test_all_that_runs_is_never_more_than_the_node_has():
    made = node(
        "name: ls, qos: LS, cpu: {constant: 9}", "name: be, qos: BE, cpu: {constant: 9}", "name: d, qos: SYSTEM, cpu: {constant: 9}"
    )
    made.advance(100)
    assert made.busy == pytest.approx(40)
    assert sum(pod.usage for pod in made.pods.values()) == pytest.approx(40)
    assert made.ls_used == pytest.approx(made.pods["default/ls"].usage)


def test_seconds_in_which_nothing_can_happen_are_taken_at_once_and_come_to_the_same():
    pods = (f"name: ls, qos: LS, cpu: {{constant: 1}}, {SERVICE}", "name: be, qos: BE, count: 2, cpu: {constant: 1}")
    calm, busy = node(*pods), node(*pods, node="{cpus: 4, system_cpu: 0.6}")
    for made in (calm, busy):
        made.weigh_batch(smallest=True)
        made.advance(600)
    assert calm._is_calm()
    assert not busy._is_calm()
    for key in ("default/ls", "default/be-0"):
        assert calm.pods[key].usage == pytest.approx(busy.pods[key].usage, rel=0.02)
    assert calm.pods["default/ls"].p99 == pytest.approx(busy.pods["default/ls"].p99, rel=0.05)
