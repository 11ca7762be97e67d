"""The agent's lock and journal, removed under it."""

from qosmanager.cli.daemon import StateKeeper
from qosmanager.linux.lock import LockHeldError


class Answers:
    """What `renew` comes to at each look: an answer, or an error."""

    def __init__(self, *answers) -> None:
        self._answers = list(answers)

    def __call__(self) -> bool:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_what_was_removed_is_told_and_the_rest_is_written_down_again(caplog):
    again = []
    keeper = StateKeeper(Answers(False, True, False), lambda: again.append(1))
    for _ in range(3):
        keeper.look()
    assert again == [1]
    assert [message.split()[0] for message in caplog.messages] == ["StateRenewed"]


def test_what_cannot_be_put_back_is_told_once_and_tried_again(caplog):
    again = []
    full = OSError(28, "No space left on device")
    keeper = StateKeeper(Answers(full, full, LockHeldError("another qosmanager runs"), full, True), lambda: again.append(1))
    for _ in range(5):
        keeper.look()
    assert again == [1]
    assert [message.split()[0] for message in caplog.messages] == ["StateLost", "StateLost", "StateLost", "StateRenewed"]
    assert "another qosmanager runs" in caplog.messages[1]
