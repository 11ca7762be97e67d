from qosmanager.model.attribution import Attribution, Suspect
from qosmanager.views.suspects import accusations, attribution_text

KNOWN = Attribution("shop/api", (Suspect("batch/etl", "cpu", 0.62), Suspect("batch/log", "io", 0.3)))


def test_suspects_are_named_with_their_confidence():
    expected = "it suffers; its stall changes with the CPU use of batch/etl (confidence 0.62), the I/O of batch/log (confidence 0.30)"
    assert attribution_text(KNOWN) == expected


def test_why_nobody_is_suspected_is_said():
    nobody = Attribution("shop/api", why_none="no BE pod runs here")
    assert attribution_text(nobody) == "it suffers; nobody is suspected: no BE pod runs here"


def test_a_batch_pod_is_told_who_suspects_it():
    expected = ["shop/api suffers, and its stall changes with this pod's I/O (confidence 0.30)"]
    assert list(accusations([KNOWN], "batch/log")) == expected
    assert list(accusations([KNOWN], "batch/other")) == []
