"""The running agent, found by --url or by its state directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qosmanager.cli.errors import CannotRunError
from qosmanager.http.client import DEFAULT_URL, AgentClient, BadUrlError, NoAnswerError
from qosmanager.linux.agent_file import running_agent
from qosmanager.linux.clock import LinuxClock

NOT_RUNNING = 1  # exit code: nothing is wrong with the command, but no agent answers


def agent_at(url: str | None, state_dir: Path) -> AgentClient:
    """Return the agent to ask; that it answers is seen when it is asked. Raises CannotRunError."""
    if url is None:
        agent = running_agent(state_dir)
        if agent is not None and agent.url is None:
            raise CannotRunError(f"the agent (process {agent.pid}) does not listen: it runs with --listen off", code=NOT_RUNNING)
        url = DEFAULT_URL if agent is None or agent.url is None else agent.url
    try:
        return AgentClient(url, LinuxClock())
    except BadUrlError as error:
        raise CannotRunError(f"--url {error}") from None


@contextmanager
def answering() -> Iterator[None]:
    """Turn an agent that does not answer into a command's failure."""
    try:
        yield
    except NoAnswerError as error:
        raise CannotRunError(f"{error}; `qosmanager run` starts one, --url and --state-dir say where it is", code=NOT_RUNNING) from None
