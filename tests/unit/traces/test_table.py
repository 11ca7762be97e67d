import os
import threading
import tracemalloc

import pytest

from qosmanager.documents.problem import DocumentError
from qosmanager.model.qos import QoS
from qosmanager.traces.table import read
from qosmanager.traces.trace import Span

HEADER = "seconds,workload,qos,cores,request,limit,memory\n"


def table(tmp_path, text):
    path = tmp_path / "usage.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_seconds_count_from_the_first_row_and_declarations_are_those_of_a_workloads_first(tmp_path):
    path = table(tmp_path, HEADER + "1000,api,LS,1.5,2,4,1024\n1000,work,BE,5,,,\n1060,api,BE,3,9,9,9\n1120,api,,1,,,\n")
    found = read(path, 8, 1 << 30, Span())
    api, work = found.workloads
    assert (api.name, api.qos, api.request, api.limit, api.memory) == ("api", QoS.LS, 2.0, 4.0, 1024)
    assert api.points == [(0.0, 1.5), (60.0, 3.0), (120.0, 1.0)]
    assert (work.qos, work.request, work.points) == (QoS.BE, None, [(0.0, 5.0)])
    assert (found.cpus, found.memory, found.duration) == (8, 1 << 30, 120.0)


def test_without_a_class_a_workload_is_a_service(tmp_path):
    assert read(table(tmp_path, "seconds,workload,cores\n0,api,1\n"), 8, 1, Span()).workloads[0].qos is QoS.LS


def test_a_span_is_cut_out(tmp_path):
    found = read(table(tmp_path, "seconds,workload,cores\n5,a,1\n65,a,2\n125,a,3\n"), 8, 1, Span(30.0, 60.0))
    assert found.workloads[0].points == [(0.0, 1.0), (30.0, 2.0)]
    assert found.duration == 60.0


def test_a_table_may_come_through_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("seconds,workload,cores\n5,a,1\n65,a,2\n",))
    writer.start()
    found = read(pipe, 8, 1, Span())
    writer.join()
    assert found.workloads[0].points == [(0.0, 1.0), (60.0, 2.0)]


def test_of_a_long_table_only_what_is_wanted_is_kept(tmp_path):
    path = tmp_path / "usage.csv"
    with path.open("w") as file:
        file.write("seconds,workload,cores\n")
        file.writelines(f"{second},a,{second % 7}\n" for second in range(4_000))
    tracemalloc.start()
    try:
        found = read(path, 8, 1, Span(3_500.0, 100.0))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.workloads[0].points[:2] == [(0.0, 0.0), (1.0, 1.0)]  # 3500 is a multiple of 7
    assert len(found.workloads[0].points) == 100
    assert most < 200_000  # bytes; all rows as numbers are 450,000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"usage\.csv:1: column seconds, workload, cores is missing; allowed are"),
        ("seconds,workload,cores,color\n", r"unknown column color; allowed are seconds, workload, cores, qos"),
        ("seconds,workload,cores\n", r"holds no row in the wanted span"),
        ("seconds,workload,cores\n0,,1\n", r'usage\.csv:2: workload: "" is not allowed; 1 to 253 printable'),
        ("seconds,workload,cores\n0,My App,1\n", r'workload: "My App" is not allowed; 1 to 253 printable characters without a space'),
        ("seconds,workload,cores\n0," + "x" * 10_000 + ",1\n", r"workload: .* is not allowed; 1 to 253"),
        ("seconds;workload;cores\n0;a;1\n", r"usage\.csv:1: columns are separated by commas, decimals by a dot"),
        ("seconds,workload,cores\n0,a,1,5\n", r"usage\.csv:2: more columns than the first line names"),
        ("seconds,workload,cores\n0,a,nan\n", r"cores: nan is not allowed"),
        (HEADER + "0,a,LS,1,4,2,\n", r"usage\.csv:2: request: 4 is not allowed; at most limit, 2"),
        ("seconds,workload,cores\n0,a,x\n", r"usage\.csv:2: cores: x is not allowed; a number, 0 or more"),
        ("seconds,workload,cores\n0,a,-1\n", r"usage\.csv:2: cores: -1 is not allowed"),
        ("seconds,workload,cores\n0,a\n", r"usage\.csv:2: cores: nothing is not allowed"),
        ("seconds,workload,cores\n5,a,1\n5,a,2\n", r"usage\.csv:3: seconds: 5 is not allowed; after the row before it of a, 5"),
        (HEADER + "0,a,GOLD,1,,,\n", r"usage\.csv:2: qos: GOLD is not allowed; one of LSE, LSR, LS, BE, SYSTEM"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path, text, said):
    with pytest.raises(DocumentError, match=said):
        read(table(tmp_path, text), 8, 1, Span())


def test_a_table_as_a_spreadsheet_writes_it(tmp_path):
    (tmp_path / "usage.csv").write_bytes(b"\xef\xbb\xbfseconds,workload,cores\r\n0,a,1.5\r\n")
    assert read(tmp_path / "usage.csv", 8, 1, Span()).workloads[0].points == [(0.0, 1.5)]


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DocumentError, match="cannot be read: No such file"):
        read(tmp_path / "none.csv", 8, 1, Span())


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/dev/zero"), os.mkfifo])
def test_what_has_no_end_or_nobody_writes_to_is_refused(tmp_path, make):
    make(tmp_path / "usage.csv")
    with pytest.raises(DocumentError, match=r"cannot be read: (a file or a pipe is needed|nothing has come out of it for 5 s)"):
        read(tmp_path / "usage.csv", 8, 1, Span())
