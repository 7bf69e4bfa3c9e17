"""The checked-in stacks and reference files, and `make golden`, which writes them."""

import shutil
import tempfile
from functools import cache
from pathlib import Path

import click

from appliance import engines
from appliance.catalog.preset import names
from appliance.catalog.stack import RuntimeName
from appliance.cli.main import COMMANDS, cli
from appliance.core.paths import PACKAGE
from appliance.core.settings import Value
from appliance.machine.facts import REFERENCE, Machine
from appliance.stack.render import render
from appliance.stack.resolve import Resolved, known_settings, resolve

GOLDEN = "tests/stack/golden"
SURFACE = "tests/cli/surface.txt"
TABLE = "## All keys\n\n"


def machine(runtime: RuntimeName) -> Machine:
    """A made-up machine, the same everywhere."""
    return Machine(
        runtime,
        models="/srv/models",
        hub="/srv/huggingface/hub",
        harmony="/srv/harmony",
        home="/home/ada/.local/state/spark-spec",
        gpu="cdi",
        python="/opt/python3",
        programs="/opt/programs",
    )


def plain(preset: str) -> Resolved:
    """A preset with no settings around it: the config file that is named is an empty one."""
    with tempfile.NamedTemporaryFile(suffix=".yaml") as empty:
        return resolve(preset, [], {"SPARK_SPEC_CONFIG": empty.name})


@cache
def golden_files() -> dict[str, str]:
    """Text by path from the repository's root: compose/ as shipped, and each preset as a release of its own."""
    found = {}
    for preset in names():
        stack = plain(preset).stack
        for path, text in render(stack, REFERENCE, preset).files.items():
            found[f"compose/{preset}/{path}"] = text
        for runtime in engines.get(stack.engine.name).runtimes:
            for path, text in render(stack, machine(runtime), preset).files.items():
                found[f"{GOLDEN}/{preset}-{runtime}/{path}"] = text
    return found


def settings_table() -> str:
    """The table of docs/settings.md."""
    values = plain("demo-baseline").values
    rows = ["| key | default | means |", "|---|---|---|"]
    for key, leaf in known_settings().items():
        value = values.get(key, Value(None, "default"))
        default = "" if value.value is None else f"`{value.value}`"
        shown = {
            "paths.state": "`$XDG_STATE_HOME/spark-spec`",
            "paths.models": "`$XDG_CACHE_HOME/spark-spec/models`",
            "paths.hub": "`$HF_HOME/hub`",
            "paths.harmony": "`$XDG_CACHE_HOME/spark-spec/harmony`",
        }
        shown |= {key: "the preset's"} if value.source.startswith("preset") else {}
        rows.append(f"| `{key}` | {shown.get(key, default)} | {leaf.description} |")
    return "\n".join(rows) + "\n"


def settings_page() -> str:
    """docs/settings.md with its table as it should be."""
    text = (PACKAGE.parent / "docs/settings.md").read_text(encoding="utf-8")
    return text.partition(TABLE)[0] + TABLE + settings_table()


def surface() -> str:
    """The command line: each command with its arguments and options, one a line."""
    lines = []
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        lines += _surface(f"spark-spec {name}", command)
    return "\n".join(lines) + "\n"


def _surface(path: str, command: click.Command) -> list[str]:
    if isinstance(command, click.Group):
        return [
            line for name, inner in command.commands.items() for line in _surface(f"{path} {name}", inner)
        ]
    parts = []
    for param in command.params:
        kind = "" if getattr(param, "is_flag", False) else f" {param.type.name}"
        default = (
            ""
            if param.default in (None, False, ()) or "Sentinel" in repr(param.default)
            else f"={param.default}"
        )
        text = param.name if isinstance(param, click.Argument) else "/".join(param.opts) + kind + default
        parts.append(f"<{text}>" if param.required else f"[{text}]")
    return [" ".join([path, *parts])]


def write() -> None:
    root = PACKAGE.parent
    for folder in ("compose", GOLDEN):
        shutil.rmtree(root / folder, ignore_errors=True)
    for path, text in golden_files().items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    (root / "docs/settings.md").write_text(settings_page(), encoding="utf-8")
    (root / SURFACE).write_text(surface(), encoding="utf-8")


if __name__ == "__main__":
    write()
    print(Path(GOLDEN))
