"""The command line's surface is a reference file: a change of it is seen, and is meant."""

import re

import click
import pytest

from appliance.cli.main import COMMANDS, cli
from appliance.core.paths import PACKAGE
from tests.golden import SURFACE, surface


def test_the_surface_is_as_checked_in() -> None:
    """Meant? `make golden`."""
    assert (PACKAGE.parent / SURFACE).read_text(encoding="utf-8") == surface()


def commands() -> list[tuple[str, click.Command]]:
    found = []
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        inner = command.commands if isinstance(command, click.Group) else {}
        found += [(name, command), *((f"{name} {one}", other) for one, other in inner.items())]
    return found


@pytest.mark.parametrize(("name", "command"), commands(), ids=[name for name, _ in commands()])
def test_every_command_has_a_help_with_an_example_that_is_a_command(
    name: str, command: click.Command
) -> None:
    text = command.help or ""
    examples = re.findall(r"^\s+spark-spec (.+)$", text.partition("Example:")[2], re.MULTILINE)
    assert examples, f"{name} has no example"
    for example in examples:
        assert example.split()[0] in COMMANDS


@pytest.mark.parametrize(("name", "command"), commands(), ids=[name for name, _ in commands()])
def test_every_option_is_explained(name: str, command: click.Command) -> None:
    for param in command.params:
        if isinstance(param, click.Option):
            assert param.help, f"{name} {param.name}"


def test_the_overview_says_what_each_command_s_help_says() -> None:
    for name, (_, text) in COMMANDS.items():
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        assert command.name == name
        assert text.endswith(".")
