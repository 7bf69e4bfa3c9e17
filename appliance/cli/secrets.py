"""secrets: set, list, rm."""

import sys

import click

from appliance.cli import options
from appliance.cli.output import Terminal, result, result_json


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
    from appliance.core.secrets import default_secrets, store

    value = click.prompt(name, hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read()
    store(default_secrets(), name, value.strip("\r\n"))
    result(f"{name} is kept in {default_secrets()}")


@secrets.command("list")
@options.as_json
def list_secrets(as_json: bool) -> None:
    """List the names of the secrets; never their values.

    \b
    Example:
      spark-spec secrets list
    """
    from appliance.core.secrets import default_secrets, load, too_open

    path = default_secrets()
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
    from appliance.core.secrets import default_secrets, load, store

    if name not in load(default_secrets()):
        raise UsageFault(
            f"there is no secret {name}", "it was never set here", "`spark-spec secrets list` names them"
        )
    store(default_secrets(), name, None)
    result(f"{name} is removed")
