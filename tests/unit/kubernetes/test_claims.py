import msgspec
import pytest

from qosmanager.kubernetes.claims import Claims, claims
from qosmanager.kubernetes.pod_json import POD

GI = 1 << 30


def container(name, cpu=None, memory=None, *, limit=(None, None), sidecar=False):
    """`cpu` and `memory` requested, `limit` of both."""
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    limits = {key: value for key, value in zip(("cpu", "memory"), limit, strict=True) if value is not None}
    made = {"name": name, "resources": {"requests": requests or None, "limits": limits or None}}
    return made | ({"restartPolicy": "Always"} if sidecar else {})


def of(main=(), inits=(), statuses=(), **spec):
    document = {"spec": {"containers": list(main), "initContainers": list(inits)} | spec, "status": {"containerStatuses": list(statuses)}}
    return claims(POD.decode(msgspec.json.encode(document)))


def test_containers_are_summed():
    found = of([container("a", "500m", "1Gi", limit=("1", "2Gi")), container("b", "250m", "512Mi", limit=("500m", "1Gi"))])
    assert found == Claims(cpu_request=0.75, memory_request=3 * GI // 2, cpu_limit=1.5, memory_limit=3 * GI)


def test_a_container_without_a_limit_makes_the_pod_unlimited_in_that_alone():
    found = of([container("a", "1", "1Gi", limit=("2", "2Gi")), container("b", "1", limit=(None, "1Gi"))])
    assert (found.cpu_limit, found.memory_limit) == (None, 3 * GI)
    assert of([container("a", limit=("0", "0"))]).cpu_limit is None


def test_of_plain_init_containers_the_largest_counts_and_only_if_it_is_larger():
    assert of([container("a", "1")], [container("i", "3"), container("j", "2")]).cpu_request == 3
    assert of([container("a", "4")], [container("i", "3"), container("j", "2")]).cpu_request == 4


def test_sidecars_are_summed_and_run_beside_the_init_containers_after_them():
    # 1 + 0.5 + 0.25 while it runs; while i runs: 0.5 + 1; while j runs: 0.5 + 0.25 + 2.
    inits = [container("s", "500m", sidecar=True), container("i", "1"), container("t", "250m", sidecar=True), container("j", "2")]
    assert of([container("a", "1")], inits).cpu_request == 2.75
    assert of([container("a", "3")], inits).cpu_request == 3.75


def test_an_init_container_without_a_limit_makes_the_pod_unlimited():
    assert of([container("a", limit=("1", "1Gi"))], [container("i")]).cpu_limit is None


def test_overhead_is_added():
    found = of([container("a", "1", "1Gi", limit=("2", "1Gi"))], overhead={"cpu": "250m", "memory": "1Gi"})
    assert found == Claims(cpu_request=1.25, memory_request=2 * GI, cpu_limit=2.25, memory_limit=2 * GI)
    assert of([container("a", "1")], overhead={"cpu": "250m"}).cpu_limit is None


def test_what_was_resized_in_place_is_in_the_status():
    resized = {"name": "a", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}}
    found = of([container("a", "1", "1Gi", limit=("1", "2Gi")), container("b", "1", limit=("1", "1Gi"))], statuses=[resized])
    assert found == Claims(cpu_request=3.0, memory_request=GI, cpu_limit=4.0, memory_limit=3 * GI)


def test_what_the_pod_declares_as_a_whole_takes_the_place_of_the_sums():
    found = of([container("a", "1", "1Gi"), container("b")], resources={"requests": {"cpu": "3"}, "limits": {"cpu": "4", "memory": "8Gi"}})
    assert found == Claims(cpu_request=3.0, memory_request=GI, cpu_limit=4.0, memory_limit=8 * GI)


def test_batch_resources_are_millicores_and_bytes():
    extended = {"kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "2Gi"}
    both = {
        "name": "a",
        "resources": {"requests": extended, "limits": {"kubernetes.io/batch-cpu": "2k", "kubernetes.io/batch-memory": "4294967296"}},
    }
    assert of([both]) == Claims(cpu_request=1.5, memory_request=2 * GI, cpu_limit=2.0, memory_limit=4 * GI)


def test_a_pod_that_claims_nothing():
    assert of([container("a")]) == Claims(cpu_request=0.0, memory_request=0, cpu_limit=None, memory_limit=None)
    assert claims(POD.decode(b"{}")).cpu_request == 0.0


@pytest.mark.parametrize("quantity", ["a lot", "-1", "1e999", ""])
def test_what_is_no_quantity_is_named(quantity):
    with pytest.raises(ValueError, match="is no quantity"):
        of([container("a", quantity)])
