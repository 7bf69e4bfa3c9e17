"""Tokens in a file that only its owner can read; their values go nowhere but to the process that needs them.

The format is one NAME=value a line. Everything after the first = is the value: no quotes, no escapes, no
variables, so that a token with a $ in it arrives as it is.
"""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from appliance.core.errors import ConfigFault, UsageFault
from appliance.core.paths import default_config, write_atomic

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def default_secrets() -> Path:
    """The user's secrets file; it need not exist."""
    return default_config().with_name("secrets.env")


def load(path: Path) -> dict[str, str]:
    """Names and values; empty where there is no file. Raises ConfigFault on a line that is none (never shows it)."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigFault(f"cannot read {path}", str(error), "check its owner and mode") from None
    found = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise ConfigFault(f"{path}, line {number} is not NAME=value", "it has no name before an =",
                              "`spark-spec secrets set NAME` writes such lines")  # fmt: skip
        found[name] = value
    return found


def too_open(path: Path) -> str | None:
    """A warning where others can read the file, with the command that mends it."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None
    return (
        f"warning: {path} can be read by others (mode {mode:o}); mend it: chmod 600 {path}"
        if mode & 0o077
        else None
    )


def store(path: Path, name: str, value: str | None) -> None:
    """Set a secret, or remove it (None). The file is replaced whole, with mode 0600 whatever the umask."""
    if not _NAME.fullmatch(name):
        raise UsageFault(f"{name!r} cannot name a secret", "it is not an environment variable's name",
                         "use letters, digits and underscores, such as HF_TOKEN")  # fmt: skip
    if value is not None and (not value.strip() or len(value.splitlines()) > 1):
        raise UsageFault(f"the value of {name} is empty or has several lines", "a secret is one line",
                         f"pass it on standard input: spark-spec secrets set {name} < token.txt")  # fmt: skip
    kept = {key: text for key, text in load(path).items() if key != name}
    if value is not None:
        kept[name] = value
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, "".join(f"{key}={text}\n" for key, text in kept.items()), mode=0o600)


def environment(path: Path | None = None) -> Mapping[str, str]:
    """The environment for a process that fetches: ours, with the secrets in it."""
    return {**os.environ, **load(path or default_secrets())}
