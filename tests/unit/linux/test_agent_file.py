import os

from msgspec.structs import replace

from qosmanager.linux.agent_file import RunningAgent, publish, running_agent, withdraw


def test_an_agent_that_lives_is_found_until_it_withdraws(tmp_path):
    assert running_agent(tmp_path) is None
    publish(tmp_path, RunningAgent.this_process("http://127.0.0.1:1234"))
    found = running_agent(tmp_path)
    assert (found.pid, found.url) == (os.getpid(), "http://127.0.0.1:1234")
    withdraw(tmp_path)
    withdraw(tmp_path)
    assert running_agent(tmp_path) is None


def test_a_later_process_of_the_same_pid_is_another(tmp_path):
    publish(tmp_path, replace(RunningAgent.this_process(None), started=1))
    assert running_agent(tmp_path) is None


def test_a_dead_one_is_not_there(tmp_path):
    publish(tmp_path, replace(RunningAgent.this_process(None), pid=2**22 + 1))
    assert running_agent(tmp_path) is None


def test_what_cannot_be_read_is_not_there(tmp_path):
    (tmp_path / "agent.json").write_text('{"pid": "x"')
    assert running_agent(tmp_path) is None
