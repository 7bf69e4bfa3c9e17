"""The entry point: commands loaded only when they are called, and every ending turned into an exit code."""

import contextlib
import gc
import importlib
import os
import signal
import sys
import traceback
from types import FrameType

import click

from appliance import __version__
from appliance.core.errors import MachineFault, SparkSpecError

INTERRUPTED = 130

# command -> module of this room, and the line of the overview; each module has the command under its own name
COMMANDS = {
    "presets": ("catalog", "List the presets."),
    "heads": ("heads", "List the published draft heads and what each is made for."),
    "show": ("catalog", "Show every setting of a preset and where it comes from."),
    "render": ("catalog", "Write a stack's files to a folder that plain docker compose runs."),
    "plan": ("plan", "Show what a stack takes of this machine's memory."),
    "up": ("lifecycle", "Bring a stack up and verify it."),
    "status": ("watch", "Say how the stacks are."),
    "logs": ("watch", "Show an engine's log."),
    "ask": ("ask", "Ask the endpoint a question."),
    "verify": ("verify", "Check that the endpoint answers well, not only 200."),
    "restart": ("lifecycle", "Stop and start a stack."),
    "rollback": ("lifecycle", "Go back to the release before."),
    "down": ("lifecycle", "Stop a stack."),
    "models": ("models", "List, fetch and check models."),
    "images": ("images", "List, build, pull, push, lock and check container images."),
    "bundle": ("bundle", "Carry a stack to a machine without a network."),
    "secrets": ("secrets", "Keep tokens in a file that only you can read."),
}


class LazyGroup(click.Group):
    """A group whose overview needs no command's module: `--help` stays instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"appliance.cli.{COMMANDS[cmd_name][0]}")
        command = getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            ctx.fail(f"There is no command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="spark-spec")
@click.option("--debug", is_flag=True, help="Show a traceback when something fails.")
def cli(debug: bool) -> None:
    """Fast, verified local LLM serving by speculative decoding.

    \b
    Example:
      spark-spec up demo
      spark-spec ask "Why is the sky blue?"
      spark-spec down
    """


def main(args: list[str] | None = None) -> int:
    """Run the command line. Returns the exit code; all of them are in docs/exit-codes.md."""
    words = sys.argv[1:] if args is None else args
    debug = "--debug" in words
    gc.set_threshold(50_000)  # what loading makes stays: searching it for garbage costs a tenth of a start
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        code = cli.main(words, prog_name="spark-spec", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 -- the one place that may: each becomes a code
        return _ending(error, debug)
    finally:
        gc.freeze()  # the process ends: nobody needs what another search would free


def _ending(error: BaseException, debug: bool) -> int:
    """Say how it ended. Returns the exit code."""
    match error:
        case SparkSpecError():
            code = _report(error, debug)
        case click.ClickException():
            error.show()
            code = error.exit_code
        case KeyboardInterrupt() | click.Abort():
            _echo("interrupted")
            code = INTERRUPTED
        case BrokenPipeError():  # the reader of our output went away, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 0
        case OSError():  # what the machine refused, and no room foresaw: a full disk, a lost folder
            code = _report(MachineFault("the machine refused", str(error), "see to what it names"), debug)
        case _:
            what, why = f"{type(error).__name__}: {error}", "this is a bug in spark-spec"
            fix = "run it again with --debug before the command, and report what it prints"
            code = _report(SparkSpecError(what, why, fix), debug)
    return code


def _report(error: SparkSpecError, debug: bool) -> int:
    """Print an error's three lines. Returns its exit code."""
    if debug:
        _echo(traceback.format_exc())
    for label, text in (("error", error.what), ("  why", error.why), ("  fix", error.fix)):
        if text:
            _echo(f"{label}: {text}")
    return error.code


def _echo(text: str) -> None:
    """A line to standard error, where that can be written."""
    with contextlib.suppress(OSError, ValueError):
        click.echo(text, err=True)


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    raise KeyboardInterrupt
