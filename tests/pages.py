"""Read the project's own pages: their sections, tables, code spans and blocks of commands; and run the latter."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from appliance.catalog.preset import load
from appliance.cli.main import cli
from appliance.core.paths import PACKAGE

ROOT = PACKAGE.parent
# Before a block that cannot be run where the tests run: it needs a Spark, a hub or both.
ON_A_SPARK = "<!-- on a Spark -->"
_BLOCK = re.compile(rf"({re.escape(ON_A_SPARK)}\n+)?```sh\n(.*?)```", re.DOTALL)

Row = Mapping[str, str]


@dataclass(frozen=True)
class Block:
    """Commands that a page shows."""

    text: str
    on_a_spark: bool

    @property
    def lines(self) -> list[str]:
        """Its commands, without comments."""
        told = self.text.replace("\\\n", " ").splitlines()
        return [" ".join(line.split(" #")[0].split()) for line in told if line.strip() and line[0] != "#"]


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    return [Block(text, bool(mark)) for mark, text in _BLOCK.findall(read(page))]


def sections(page: str) -> dict[str, str]:
    """The text below each heading of the second level."""
    parts = re.split(r"^## (.+)$", read(page), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(text: str) -> list[Row]:
    """The rows of all tables, each by its own head."""
    found: list[Row] = []
    head: list[str] | None = None
    for line in text.splitlines():
        if not line.startswith("|"):
            head = None
            continue
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if head is None:
            head = cells
        elif set("".join(cells)) - set("-: "):
            assert len(cells) == len(head), line
            found.append(dict(zip(head, cells, strict=True)))
    return found


def spans(cell: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def parsed(line: str) -> click.Context:
    """A spark-spec command line as the program takes it. Raises click.UsageError where it does not."""
    words = shlex.split(line)[1:]
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        assert found is not None, line
        command, words = found, words[1:]
    made = command.make_context(line, list(words))
    if "preset" in made.params:
        load(made.params["preset"])
    return made


def check_on_a_spark(block: Block) -> None:
    """Hold commands that cannot be run here against the program: it takes each of them, and what is planned or
    fetched is the preset that the next `up` starts."""
    fetched: list[str] = []
    for line in block.lines:
        context = parsed(line)
        if line.startswith("spark-spec models "):
            fetched.append(context.params["preset"])
        elif context.command.name == "up":
            assert set(fetched) <= {context.params["preset"]}, line
            fetched = []
    assert not fetched, "downloads without an `up` that needs them"


def environment(home: Path, **more: str) -> dict[str, str]:
    """An environment in which `spark-spec` is this checkout's, with folders of its own."""
    binaries = home / "bin"
    binaries.mkdir(exist_ok=True)
    script = binaries / "spark-spec"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m appliance "$@"\n')
    script.chmod(0o755)
    path = f"{binaries}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **more}


def run(text: str, env: Mapping[str, str], folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run commands as a shell does that stops at the first that fails."""
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder, env=dict(env), capture_output=True, text=True, timeout=300, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
