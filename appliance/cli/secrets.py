"""secrets: set, list, rm."""

import sys
from pathlib import Path

import click

from appliance.cli import options
from appliance.cli.output import Terminal, result, result_json

LONGEST = 64 * 1024  # bytes of one secret


@click.group()
def secrets() -> None:
    """Keep tokens in a file that only you can read (mode 0600). They reach only the processes that fetch.

    \b
    Example:
      spark-spec secrets set HF_TOKEN
    """


@secrets.command("set")
@click.argument("name")
def set_secret(name: str) -> None:
    """Store the secret NAME. The value is asked for, or read from standard input; it is never an argument.

    \b
    Example:
      spark-spec secrets set HF_TOKEN < token.txt
    """
    from appliance.core.secrets import store

    path = _file()
    asked = sys.stdin is not None and sys.stdin.isatty()
    value = click.prompt(name, hide_input=True, err=True) if asked else _piped()
    store(path, name, value.strip("\r\n"))
    result(f"{name} is kept in {path}")


def _piped() -> str:
    """The secret from standard input. Raises UsageFault, which never shows it."""
    from appliance.core.errors import UsageFault

    raw = sys.stdin.buffer.read(LONGEST + 1) if sys.stdin is not None else b""
    try:
        if len(raw) <= LONGEST:
            return raw.decode("utf-8-sig")
        why = "it is longer than 64 KiB"
    except UnicodeDecodeError:
        why = "it is not UTF-8 text"
    raise UsageFault("standard input holds no secret", why, "a secret is one line of text")


def _file() -> Path:
    """The user's secrets file. Raises ConfigFault where there is no home for it."""
    from appliance.core.errors import ConfigFault
    from appliance.core.paths import named_file
    from appliance.core.secrets import default_secrets

    path = default_secrets()
    if path is None:
        raise ConfigFault("there is no place for secrets", "this user has no home folder",
                          "set HOME, or XDG_CONFIG_HOME, to a folder of yours")  # fmt: skip
    return named_file(str(path), "the secrets file")


@secrets.command("list")
@options.as_json
def list_secrets(as_json: bool) -> None:
    """List the names of the secrets; never their values.

    \b
    Example:
      spark-spec secrets list
    """
    from appliance.core.secrets import load, too_open

    path = _file()
    warning = too_open(path)
    if warning:
        Terminal().say(warning)
    names = sorted(load(path))
    if as_json:
        result_json({"file": str(path), "names": names})
    else:
        result("\n".join(names) if names else "no secrets")


@secrets.command()
@click.argument("name")
def rm(name: str) -> None:
    """Remove the secret NAME.

    \b
    Example:
      spark-spec secrets rm HF_TOKEN
    """
    from appliance.core.errors import UsageFault
    from appliance.core.secrets import load, store
    from appliance.core.text import one_line

    path = _file()
    if name not in load(path):
        raise UsageFault(
            f"there is no secret {one_line(name)}",
            "it was never set here",
            "`spark-spec secrets list` names them",
        )
    store(path, name, None)
    result(f"{name} is removed")
