import tomllib
from pathlib import Path

from qosmanager.cli.extras import PACKAGES

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


def test_the_extras_that_messages_name_are_those_of_the_package():
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    assert {name: tuple(packages) for name, packages in extras.items()} == PACKAGES
