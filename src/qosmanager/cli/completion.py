"""`qosmanager completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_NAME = "qosmanager"
_VARIABLE = "_QOSMANAGER_COMPLETE"


@click.command(
    epilog="""\b
Examples:
  source <(qosmanager completion bash)
  qosmanager completion bash > /etc/bash_completion.d/qosmanager
  qosmanager completion zsh > ~/.zfunc/_qosmanager
  qosmanager completion fish > ~/.config/fish/completions/qosmanager.fish"""
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script for a shell's completion.

    SHELL is bash (4.4 or newer), zsh or fish. The script completes commands and options; it asks `qosmanager` itself each time, so that it
    stays right after an upgrade.
    """
    kind = get_completion_class(shell)
    assert kind is not None  # click knows all three
    source = kind(context.find_root().command, {}, _NAME, _VARIABLE)
    click.echo(source.source_template % source.source_vars())
