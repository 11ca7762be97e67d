from msgspec.structs import replace

from qosmanager.config.settings import Settings
from qosmanager.http.board import Board
from qosmanager.model.pause import Pause
from qosmanager.model.state import State
from qosmanager.views.decisions import Decisions
from qosmanager.views.log_lines import Severity, log_lines
from qosmanager.views.status import About, status
from records import WALL, record

PAUSE = Pause(boot_id="b", ends=1900.0, since=WALL, until=WALL + 1800, by="alice as root", reason="ticket 4711")
ABOUT = About(version="1.2.3", pid=42, started=0.0)


def paused(number):
    base = record(number)
    return replace(
        base, pause=PAUSE, snapshot=replace(base.snapshot, paused=True), plan=replace(base.plan, degraded=("paused",), refusals=())
    )


def starving(number, seconds, **changes):
    return record(number, state=State(time=5000.0, be_limit=0.1, floor_since=5000.0 - seconds, **changes))


def further(record_, previous):
    """The log's lines beside the cycle's own."""
    return log_lines(record_, previous)[1:]


def events(*records):
    decisions = Decisions()
    for each in records:
        decisions.observe(each)
    return [(entry.kind, entry.reason) for entry in decisions.last(10) if entry.kind != "level"]


def test_a_pause_is_logged_when_it_begins_and_when_it_ends():
    assert further(paused(2), record(1)) == [
        (Severity.WARNING, 'Paused until=2027-01-15T08:30:00.000Z by="alice as root" reason="ticket 4711"')
    ]
    assert further(paused(3), paused(2)) == []
    assert further(record(4), paused(3)) == [(Severity.INFO, "Resumed")]


def test_a_pause_is_two_events():
    assert events(record(1), paused(2), paused(3), record(4)) == [
        ("paused", "until 2027-01-15T08:30:00Z by alice as root: ticket 4711; bursts end, BE limits stay, nothing changes"),
        ("resumed", "the pause is over"),
    ]


def test_status_tells_the_pause_and_how_long_it_lasts():
    view = status(paused(60), Settings(), ABOUT)
    assert view.paused
    assert (view.pause.until, view.pause.left, view.pause.by) == ("2027-01-15T08:30:00.000Z", 1740.0, "alice as root")
    assert status(record(1), Settings(), ABOUT).pause is None


def test_how_long_it_is_up_does_not_change_when_somebody_sets_the_clock_back():
    about = replace(ABOUT, begun=90.0)
    assert status(replace(record(5), wall=WALL - 3600), Settings(), about).uptime == 15.0


def test_what_is_left_of_a_pause_does_not_change_when_somebody_sets_the_clock_back():
    assert status(replace(paused(60), wall=WALL - 3540), Settings(), ABOUT).pause.left == 1740.0


def test_a_paused_agent_is_ready_and_says_so():
    board = Board(ABOUT, Settings())
    board.publish(paused(1), Settings())
    ready = board.readiness()
    assert ready.ok
    assert ready.reason.startswith("paused until 2027-01-15T08:30:00Z by alice as root: ticket 4711;")


def test_starving_is_logged_once_in_ten_minutes_and_when_it_is_over():
    assert further(starving(1, 599.0), None) == []
    assert further(starving(2, 600.0), starving(1, 599.0)) == [
        (Severity.WARNING, 'BEStarving detail="BE has been held at its floor of 0.10 cores for 10 minutes; it uses 0.50"')
    ]
    assert further(starving(3, 601.0), starving(2, 600.0)) == []
    assert len(further(starving(4, 1200.0), starving(3, 1199.0))) == 1
    assert further(record(5), starving(4, 1200.0)) == [(Severity.INFO, "BEStarvingOver")]


def test_a_restarted_agent_says_at_once_that_be_starves():
    assert len(further(starving(1, 900.0), None)) == 1


def test_starving_is_an_event_each_ten_minutes():
    kinds = [kind for kind, _ in events(*(starving(n, s) for n, s in enumerate((599.0, 600.0, 601.0, 1200.0))), record(9))]
    assert kinds == ["be_starving", "be_starving", "be_starving_over"]


def test_be_does_not_starve_at_a_floor_that_is_only_observed():
    assert further(starving(1, 900.0, be_observed=True), None) == []
    assert not status(starving(1, 900.0, be_observed=True), Settings(), ABOUT).be.starving
