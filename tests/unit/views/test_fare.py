"""How the LS pods fare and when leaks end, in words."""

import pytest

from qosmanager.model.assessment import Leak, Suffering, Wellbeing
from qosmanager.views.fare import leak_words, suffering_words, wellbeing_lines

MB = 1_000_000


def test_a_latency_is_told_with_its_objective():
    each = Suffering(pod="shop/api", measure="p99", value=0.15, bound=0.1)
    assert suffering_words(each) == "shop/api has p99 150 ms, 50% above its SLO of 100 ms"


def test_waiting_is_told_with_what_it_bears_and_why_be_is_not_the_cause():
    each = Suffering(pod="shop/api", measure="stall", value=0.5, bound=0.25, elsewhere="its CPUs are its own")
    assert suffering_words(each) == (
        "shop/api waits for CPU 50% of its running time, it bears 25%; BE is not the cause: its CPUs are its own"
    )


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "leaking 8.0 MB/min"),
        ({"seconds": 1800.0}, "leaking 8.0 MB/min, which uses up what the node has available in 30 min"),
        (
            {"seconds": 7200.0, "own_limit": True, "earliest": 3000.0, "latest": 9000.0, "confidence": 0.5},
            "leaking 8.0 MB/min, which uses up its own limit in 2.0 h (50 min to 2.5 h, confidence 50%)",
        ),
        ({"warming_up": True}, "growing 8.0 MB/min, less and less: it is warming up"),
    ],
)
def test_a_leak_is_told_with_its_end(more, words):
    assert leak_words(Leak(pod="batch/etl", growth=8 * MB, **more)) == words


def test_the_services_are_told_with_their_slack_and_whom_nothing_tells_of():
    assert list(wellbeing_lines(Wellbeing(slack=0.4, unjudged=("a/a", "a/b", "a/c", "a/d")))) == [
        "nobody suffers",
        "slack 40%: that of the pod that is nearest to what it bears",
        "neither latency nor waiting is known: a/a, a/b, a/c and 1 more",
    ]
    assert list(wellbeing_lines(None)) == []
