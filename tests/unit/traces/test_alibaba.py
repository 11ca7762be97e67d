import gzip
import random

import pytest

from qosmanager.documents.problem import DocumentError
from qosmanager.model.qos import QoS
from qosmanager.traces.alibaba import Wanted, read
from qosmanager.traces.trace import Span

GIB = 1 << 30


@pytest.fixture
def trace(tmp_path):
    """One machine of 10 CPUs: a service of 4 cores at 50, then 25 percent, two batch instances, 60 percent of the machine in use."""
    (tmp_path / "container_meta.csv").write_text("c_1,m_1,0,app_1,started,400,800,10\n", encoding="utf-8")
    (tmp_path / "container_usage.csv").write_text(
        "c_1,m_1,60,25,40,,,,0,0,1\nc_1,m_1,0,50,60,,,,0,0,1\nc_1,m_1,90,101,40,,,,0,0,1\nc_9,m_2,0,50,60,,,,0,0,1\n", encoding="utf-8"
    )
    (tmp_path / "batch_instance.csv").write_text(
        "i,t,j,1,Terminated,0,120,m_1,1,1,200,300,1,1\n"
        "i,t,j,1,Terminated,60,120,m_1,1,1,100,300,1,1\n"
        "i,t,j,1,Running,60,0,m_1,1,1,100,300,1,1\n"
        "i,t,j,1,Terminated,60,90,m_1,1,1,,300,1,1\n",
        encoding="utf-8",
    )
    (tmp_path / "machine_usage.csv").write_text("m_1,0,60,50,,,1,1,5\nm_1,60,-1,50,,,1,1,5\nbroken\n", encoding="utf-8")
    return tmp_path


def wanted(**changes):
    return Wanted(**({"machine": "m_1", "cpus": 10, "memory": 100 * GIB, "batch_pods": 2} | changes))


def test_containers_are_ls_and_batch_instances_are_be(trace):
    found = read(trace, wanted())
    service, batch = found.workloads
    assert (service.name, service.qos, service.request, service.limit) == ("c-1", QoS.LS, 4.0, 8.0)
    assert service.points == [(0.0, 2.0), (60.0, 1.0)]
    # A tenth of the memory is its own, of which it holds half on average: 60 and 40 percent.
    assert (service.memory_request, service.memory) == (10 * GIB, 5 * GIB)
    # 2 cores for two minutes, 1 more in the second of them, over two pods.
    assert (batch.name, batch.qos, batch.count) == ("batch", QoS.BE, 2)
    assert batch.points == [(0.0, 1.0), (60.0, 1.5), (120.0, 0.0)]
    assert (found.cpus, found.memory, found.duration) == (10, 100 * GIB, 120.0)


def test_what_the_machine_used_beside_its_workloads_is_the_systems(trace):
    # 6 of 10 cores; the service 1.5 on average, batch 2.5.
    assert read(trace, wanted()).system_cpu == pytest.approx(2.0)


def test_what_is_invalid_is_left_out_and_counted(trace):
    assert read(trace, wanted()).left_out == {
        "batch_instance: no number": 1,
        "batch_instance: no start or end": 1,
        "container_usage: marked invalid (-1 or 101)": 1,
        "machine_usage: marked invalid (-1 or 101)": 1,
        "machine_usage: too few columns": 1,
    }


def test_a_span_begins_with_what_holds_then(trace):
    found = read(trace, wanted(span=Span(30.0, 60.0)))
    assert found.workloads[0].points == [(0.0, 2.0), (30.0, 1.0)]
    assert found.workloads[1].points == [(0.0, 1.0), (30.0, 1.5)]
    assert found.duration == 60.0


def test_gzipped_files_are_read(trace):
    for path in trace.glob("*.csv"):
        (trace / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert [usage.name for usage in read(trace, wanted()).workloads] == ["c-1", "batch"]


def test_a_machine_that_is_not_there_is_refused_with_some_that_are(trace):
    with pytest.raises(DocumentError, match=r"nothing of machine m_9 .*\(machines in it are m_1, m_2"):
        read(trace, wanted(machine="m_9"))


def test_a_folder_without_a_table_is_refused(tmp_path):
    with pytest.raises(DocumentError, match=r"holds no container_usage\.csv and no batch_instance\.csv"):
        read(tmp_path, wanted())


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"c_1,m_1\0,0,0\n" * 3])
def test_files_that_are_no_text_end_in_one_line_or_nothing_found(trace, content):
    (trace / "container_usage.csv").write_bytes(content)
    (trace / "batch_instance.csv").unlink()
    with pytest.raises(DocumentError):
        read(trace, wanted())


def test_a_broken_gzip_is_refused(trace):
    (trace / "batch_instance.csv").unlink()
    (trace / "batch_instance.csv.gz").write_bytes(gzip.compress(b"i,t,j,1,T,0,9,m_1,1,1,1,1,1,1\n" * 1000)[:40])
    with pytest.raises(DocumentError, match=r"batch_instance\.csv\.gz: cannot be read"):
        read(trace, wanted())


def test_a_gzip_with_a_flipped_bit_is_refused(trace):
    data = bytearray(gzip.compress(random.Random(1).randbytes(4000).hex().encode()))
    data[len(data) // 2 : len(data) // 2 + 40] = bytes(40)
    (trace / "batch_instance.csv").unlink()
    (trace / "batch_instance.csv.gz").write_bytes(data)
    with pytest.raises(DocumentError, match=r"batch_instance\.csv\.gz: cannot be read"):
        read(trace, wanted())


def test_a_name_that_no_folder_can_have_is_said(tmp_path):
    with pytest.raises(DocumentError, match=r"container_meta"):
        read(tmp_path / ("x" * 300), wanted())
