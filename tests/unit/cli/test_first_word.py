import logging

from qosmanager.cli.first_word import await_first


def test_what_is_not_there_at_once_is_named_with_the_reason(caplog):
    caplog.set_level(logging.INFO, "qosmanager")
    assert not await_first("node worker-1", 0.8, lambda: False, lambda: ["not reached: connection refused"])
    assert caplog.messages == ['Waiting what="node worker-1" at_most=0.8s problem="not reached: connection refused"']


def test_what_is_there_is_not_waited_for_and_no_line_is_written(caplog):
    caplog.set_level(logging.INFO, "qosmanager")
    assert await_first("node worker-1", 60, lambda: True, list)
    assert caplog.messages == []
