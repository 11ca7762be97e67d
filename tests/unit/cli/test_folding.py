import pytest
from rich.text import Text

from qosmanager.cli.folding import folded

FACTORS = "cpu     30.0 HIGH  stalled 12 %  usage 35.5  trend 20.0  load 13.3"


@pytest.mark.parametrize(
    ("columns", "lines"),
    [
        (66, [FACTORS]),
        (65, ["cpu     30.0 HIGH  stalled 12 %  usage 35.5  trend 20.0", "        load 13.3"]),
        (52, ["cpu     30.0 HIGH  stalled 12 %  usage 35.5", "        trend 20.0  load 13.3"]),
        (30, ["cpu     30.0 HIGH", "        stalled 12 %", "        usage 35.5  trend 20.0", "        load 13.3"]),
    ],
)
def test_a_number_stays_with_its_word_and_what_follows_hangs(columns, lines):
    assert folded(Text(FACTORS), columns, 8).plain.split("\n") == lines


def test_a_long_word_stays_whole_and_colours_stay_where_they_are():
    line = Text.assemble("pod ", ("x" * 40, "red"), " is late")
    told = folded(line, 20, 2)
    assert told.plain == "pod\n  " + "x" * 40 + " is late"
    (span,) = told.spans
    assert told.plain[span.start : span.end] == "x" * 40
