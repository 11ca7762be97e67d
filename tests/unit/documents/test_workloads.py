import pytest

from qosmanager.documents.problem import DocumentError
from qosmanager.documents.workloads import load_workloads
from qosmanager.model.qos import QoS
from qosmanager.model.workload import LatencySource, WorkloadRule


def problems(text):
    with pytest.raises(DocumentError) as caught:
        load_workloads(text, "w.yaml")
    return [str(problem) for problem in caught.value.problems]


def declared(*groups):
    return "workloads:\n" + "".join(f"- {{name: w{number}, qos: BE, cgroup: {group}}}\n" for number, group in enumerate(groups))


def test_the_documented_example_is_read_whole():
    text = """
workloads:
- {name: api, qos: LS, cgroup: "system.slice/nginx.service", priority: 9000, requests: {cpu: 2, memory: 4Gi}, limits: {cpu: 4},
   slo: {p99: 50ms}, latency: {prometheus: "http://127.0.0.1:9113/metrics", histogram: http_request_duration_seconds}}
- {name: batch, qos: BE, cgroup: "batch.slice/*", priority: 3000}     # a glob: each match is a pod
"""
    api, batch = load_workloads(text, "w.yaml")
    assert api == WorkloadRule(
        name="api",
        qos=QoS.LS,
        cgroup="system.slice/nginx.service",
        priority=9000,
        cpu_request=2,
        cpu_limit=4,
        memory_request=4 << 30,
        slo_p99=0.05,
        latency=LatencySource("http://127.0.0.1:9113/metrics", "http_request_duration_seconds"),
    )
    assert batch == WorkloadRule(name="batch", qos=QoS.BE, cgroup="batch.slice/*", priority=3000)
    assert (api.is_pattern, batch.is_pattern) == (False, True)


def test_an_empty_file_declares_nothing():
    assert load_workloads("", "w.yaml") == ()
    assert load_workloads("workloads: []", "w.yaml") == ()


@pytest.mark.parametrize(
    ("cgroup", "hint"),
    [
        ('""', "it is empty"),
        ("/system.slice/a", "without the leading slash: system.slice/a?"),
        ("/", "it is the cgroup root itself"),
        ("/sys/fs/cgroup/cpu/a", "relative to the cgroup root, and on cgroup v1 without the controller's name"),
        ("a/../b", "it leaves the cgroup root"),
        ("..", "it leaves the cgroup root"),
        ("a//b", "a component is empty or a dot"),
        ("a/", "a component is empty or a dot"),
        ("./a", "a component is empty or a dot"),
        ('"a\\0b"', "it holds a character that cannot be printed"),
        ("a/*/b", "a pattern stands only in the last component"),
        ('"*"', "it would match every group of the machine"),
        ("x" * 256, "it is too long for a path"),
    ],
)
def test_a_path_that_is_refused(cgroup, hint):
    (problem,) = problems(declared(cgroup))
    assert problem.startswith("w.yaml:2: workloads[0].cgroup: ")
    assert problem.endswith(f"a path below the cgroup root such as system.slice/nginx.service or batch.slice/* ({hint})")


def test_a_name_with_the_escapes_of_systemd_is_a_path():
    (rule,) = load_workloads(declared("'system.slice/a\\x2db@1.service'"), "w.yaml")
    assert rule.cgroup == "system.slice/a\\x2db@1.service"


@pytest.mark.parametrize(
    ("first", "second"),
    [("a.slice", "a.slice/b"), ("a.slice/b", "a.slice"), ("a.slice", "a.slice/*"), ("a.slice/*", "a.slice/b/c"), ("a-*", "a-1/b")],
)
def test_a_group_inside_another_would_count_twice(first, second):
    assert problems(declared(first, second)) == [
        "w.yaml:3: workloads[1].cgroup: one of this group and that of line 2 lies inside the other: its usage would count twice"
    ]


def test_the_same_group_twice():
    assert problems(declared("a/b", "a/b")) == ["w.yaml:3: workloads[1].cgroup: this group was already declared in line 2"]


def test_neighbours_and_a_group_that_a_pattern_matches_too_are_fine():
    assert len(load_workloads(declared("a.slice/*", "a.slice/b", "b.slice/c", "a.slicer"), "w.yaml")) == 4


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("ftp://h/m", "not ftp"),
        ("localhost:9113/metrics", "http://localhost:9113/metrics?"),
        ("http:///metrics", "the host is missing"),
        ("http://h:0/", "port 0"),
        ("http://h:99999/", "Port out of range 0-65535"),
        ("http://[::1/", "Invalid IPv6 URL"),
        ("http://h/a b", "it holds a character that no address has"),
        ("file:///etc/passwd", "not file"),
    ],
)
def test_an_address_that_is_refused(url, hint):
    (problem,) = problems(f"workloads:\n- {{name: a, qos: LS, cgroup: a, latency: {{prometheus: '{url}', histogram: h}}}}\n")
    assert problem == f'w.yaml:2: workloads[0].latency.prometheus: "{url}" is not allowed; an http or https address with a host ({hint})'


def test_a_latency_source_is_whole():
    text = "workloads:\n- name: a\n  qos: LS\n  cgroup: a\n  latency:\n    histogram: 3-x\n"
    assert problems(text) == ["w.yaml:6: workloads[0].latency.prometheus: is required: a text"]
    assert problems(text + "    prometheus: http://h/\n") == [
        'w.yaml:6: workloads[0].latency.histogram: "3-x" is not allowed; the name of a Prometheus histogram (letters, digits, _ and :)'
    ]


def test_a_namespace_holds_a_name_once():
    text = "workloads:\n- {name: a, qos: BE, cgroup: x}\n- {name: a, qos: BE, cgroup: y}\n- {name: a, namespace: n, qos: BE, cgroup: z}\n"
    assert problems(text) == ["w.yaml:3: workloads[1].name: default/a was already given in line 2"]


def test_amounts_have_bounds():
    text = "workloads:\n- {name: a, qos: BE, cgroup: a, grace: 2h, limits: {cpu: 0}, slo: {p99: 0s}, priority: 3000000000}\n"
    assert [problem.split(" is not")[0] for problem in problems(text)] == [
        "w.yaml:2: workloads[0].priority: 3000000000",
        "w.yaml:2: workloads[0].limits.cpu: 0",
        "w.yaml:2: workloads[0].slo.p99: 0s",
        "w.yaml:2: workloads[0].grace: 2h",
    ]


def test_a_limit_below_the_request_is_a_mistake():
    text = "workloads:\n- {name: a, qos: LS, cgroup: a, requests: {cpu: 4, memory: 2Gi}, limits: {cpu: 2500m, memory: 1536Mi}}\n"
    assert problems(text) == [
        "w.yaml:2: workloads[0].limits.cpu: 2.5 is not allowed; at least requests.cpu, 4",
        "w.yaml:2: workloads[0].limits.memory: 1536Mi is not allowed; at least requests.memory, 2Gi",
    ]
    (rule,) = load_workloads(text.replace("2500m", "4").replace("1536Mi", "2Gi"), "w.yaml")
    assert (rule.cpu_limit, rule.memory_limit) == (4, 2 << 30)


def test_a_memory_limit_of_nothing_is_none():
    (problem,) = problems("workloads:\n- {name: a, qos: BE, cgroup: a, limits: {memory: 0}}\n")
    assert problem == "w.yaml:2: workloads[0].limits.memory: 0 is not allowed; bytes (2Gi, 500Mi, 1G or a whole number) above 0"
