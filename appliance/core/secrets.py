"""Tokens in a file that only its owner can read; their values go nowhere but to the process that needs them.

The format is one NAME=value a line. Everything after the first = is the value: no quotes, no escapes, no
variables, so that a token with a $ in it arrives as it is.
"""

import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from appliance.core.errors import ConfigFault, MachineFault, UsageFault
from appliance.core.paths import LARGEST, default_config, read_small, write_atomic
from appliance.core.text import one_line, shown

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PATIENCE_S = 20.0  # for the other writers of the file; each takes milliseconds


def default_secrets() -> Path | None:
    """The user's secrets file, which need not exist; None where there is no home for it."""
    config = default_config()
    return config and config.with_name("secrets.env")


def load(path: Path) -> dict[str, str]:
    """Names and values; empty where there is no file. Raises ConfigFault on a line that is none (never shows it)."""
    found = {}
    for number, line in enumerate((read_small(path) or "").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise ConfigFault(f"{path}, line {number} is not NAME=value", "it has no name before an =",
                              "`spark-spec secrets set NAME` writes such lines")  # fmt: skip
        if not value.isprintable():
            raise ConfigFault(f"{path}, line {number} has a character that cannot be shown",
                              f"no token has one; this is the line of {name}",
                              f"set it anew: remove the line, then spark-spec secrets set {name}")  # fmt: skip
        found[name] = value
    return found


def too_open(path: Path | None) -> str | None:
    """A warning where there is a file that others can read, with the command that mends it."""
    if path is None:
        return None
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
    """Set a secret, or remove it (None). The file is replaced whole, with mode 0600 whatever the umask, and
    several at once wait for each other. Raises UsageFault on a name or value that cannot be, ConfigFault where
    the file cannot be written, MachineFault where others write it without end."""
    if not _NAME.fullmatch(name):
        raise UsageFault(f"{shown(name)} cannot name a secret", "it is not an environment variable's name",
                         "use letters, digits and underscores, such as HF_TOKEN")  # fmt: skip
    if value is not None and (not value.strip() or not value.isprintable()):
        raise UsageFault(f"the value of {one_line(name)} is empty, has several lines, or a character that "
                         "cannot be shown", "a secret is one line of text",
                         f"pass it on standard input: spark-spec secrets set {one_line(name)} < token.txt")  # fmt: skip
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone_in(path.parent):
            _sweep(path)
            kept = {key: text for key, text in load(path).items() if key != name}
            if value is not None:
                kept[name] = value
            _write(path, kept)
    except OSError as error:
        raise ConfigFault(f"cannot write {path}", error.strerror or "the write failed",
                          "check the folder's owner and mode, and the room on its disk") from None  # fmt: skip


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; it goes with the process, however that ends."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(handle, folder)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, folder: Path) -> None:
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise MachineFault(f"{folder} is locked", "another process keeps its lock",
                                   f"find it: fuser -v {folder}") from None  # fmt: skip
        time.sleep(0.02)


def _sweep(path: Path) -> None:
    """Remove what a killed write left: with the lock held no other write is under way, and it holds tokens."""
    for stale in path.parent.glob(f".{path.name}.*"):
        stale.unlink()


def _write(path: Path, secrets: Mapping[str, str]) -> None:
    text = "".join(f"{key}={text}\n" for key, text in secrets.items())
    if len(text.encode()) > LARGEST:
        raise UsageFault("the secrets would be larger than 1 MiB", "no file of tokens is",
                         "pass a token: spark-spec secrets set NAME < token.txt")  # fmt: skip
    write_atomic(path, text, mode=0o600)


def environment(path: Path | None = None) -> Mapping[str, str]:
    """The environment for a process that fetches: ours, with the secrets in it."""
    file = path or default_secrets()
    return {**os.environ, **(load(file) if file else {})}
