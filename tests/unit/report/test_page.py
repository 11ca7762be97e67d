import re

import pytest

pytest.importorskip("plotly", reason="the extra `report` is not installed: plotly is missing")

from qosmanager.report.page import Page, Verdict, render
from qosmanager.report.track import Mark, Moment, Track


def tracks():
    managed, alone = Track("with <agent>"), Track("without")
    for second in range(5):
        managed.add(
            Moment(time=float(second), ls=1.0, be=2.0, limit=2.5, cpu_score=40.0, level=1.0, p99={"shop/api": 0.05}),
            [Mark(float(second), "set_be_cpu_limit", "because <b>4</b> of 8")] if second == 3 else [],
        )
        alone.add(Moment(time=float(second), ls=1.0, be=7.0, p99={"shop/api": 0.5}))
    return managed, alone


def page(**changes):
    given = {
        "title": "a & b",
        "about": "",
        "facts": "8 CPUs",
        "cpus": 8.0,
        "memory": 1 << 30,
        "tracks": tracks(),
        "rows": (("worst p99, ms", "50", "500"),),
        "slos": {"shop/api": 0.1},
        "verdicts": (Verdict(met=False, text="p99 < 100"), Verdict(met=None, text="BE 3")),
    }
    return Page(**(given | changes))


def test_everything_is_in_the_file_and_nothing_is_fetched():
    text = render(page())
    assert "Plotly.newPlot" in text
    # No script, sheet or picture from elsewhere; addresses inside the library's own text are not fetched.
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", text)


def test_what_people_wrote_is_text_and_no_markup():
    text = render(page())
    assert "<h1>a &amp; b</h1>" in text
    assert "<th>with &lt;agent&gt;</th>" in text
    assert "<b>4</b>" not in text
    assert "NOT MET</b> p99 &lt; 100" in text


def test_reasons_numbers_and_the_missing_agent_are_told():
    text = render(page())
    assert "<td>50</td><td>500</td>" in text
    assert "of 8" in text
    assert "no agent, so no scores" in text
    assert "SLO 100 ms" in text


@pytest.mark.parametrize("empty", [(), (Track("nothing"),)])
def test_a_run_without_cycles_is_a_page_too(empty):
    assert "<h1>a &amp; b</h1>" in render(page(tracks=empty, rows=(), verdicts=()))


def test_a_condensed_run_says_so():
    track = Track("long")
    for second in range(4000):
        track.add(Moment(time=float(second), ls=1.0))
    assert "A point stands for 4 cycles" in render(page(tracks=(track,)))
