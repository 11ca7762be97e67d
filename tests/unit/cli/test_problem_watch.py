"""What cannot be followed is said once, however often its source says it in other words."""

from qosmanager.cli.daemon import ProblemWatch
from qosmanager.config.settings import Settings
from qosmanager.http.board import Board
from qosmanager.views.status import About


def test_a_problem_is_told_when_it_begins_and_when_it_is_over_and_not_for_each_new_wording(caplog):
    caplog.set_level("INFO", "qosmanager")
    told = [("shop/api: http://127.0.0.1:9/metrics: refused 1",), ("shop/api: http://127.0.0.1:9/metrics: refused 2",), (), ()]
    watch = ProblemWatch(Board(About(version="1", pid=1, started=0.0), Settings()), lambda: told.pop(0))
    for _ in range(4):
        watch.look()
    assert [message.split()[0] for message in caplog.messages] == ["Problem", "ProblemOver"]
    assert "refused 1" in caplog.messages[0]


def test_another_problem_of_the_same_pod_is_another_problem(caplog):
    told = [("shop/api: no cgroup shop/api under /sys/fs/cgroup (yet)",), ("shop/api: http://127.0.0.1:9/metrics: refused",)]
    watch = ProblemWatch(Board(About(version="1", pid=1, started=0.0), Settings()), lambda: told.pop(0))
    watch.look()
    watch.look()
    assert sum(message.startswith("Problem ") for message in caplog.messages) == 2
