"""What the command line says of itself."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from qosmanager.cli.config import config
from qosmanager.cli.main import main


@pytest.mark.parametrize("group", [main, config])
def test_no_command_is_listed_with_half_a_sentence(group: click.Group):
    said = CliRunner().invoke(group, ["--help"], prog_name="qosmanager").output
    listed = said.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert len(listed) == len(group.commands)  # one line each: nothing is folded
    assert [line for line in listed if not line.endswith(".") or line.endswith("...")] == []


@pytest.mark.parametrize("arguments", [("-h",), ("run", "-h"), ("config", "check", "-h")])
def test_the_short_option_for_help_is_known(arguments):
    done = CliRunner().invoke(main, arguments)
    assert (done.exit_code, done.output.split(maxsplit=1)[0]) == (0, "Usage:")
