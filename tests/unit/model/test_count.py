import pytest

from qosmanager.model.count import counted


@pytest.mark.parametrize(
    ("number", "noun", "said"),
    [
        (0, "pod", "0 pods"),
        (1, "pod", "1 pod"),
        (2, "BE pod", "2 BE pods"),
        (1, "process", "1 process"),
        (3, "process", "3 processes"),
        (1.0, "CPU", "1 CPU"),
        (0.5, "CPU", "0.5 CPUs"),
        (12_345_678, "row", "12345678 rows"),
    ],
)
def test_one_is_singular_and_all_else_plural(number: float, noun: str, said: str) -> None:
    assert counted(number, noun) == said
