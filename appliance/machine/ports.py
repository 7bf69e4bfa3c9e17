"""Who holds a TCP port on this machine."""

import contextlib
import errno
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from appliance.core.errors import MachineFault

LISTEN = "0A"
COMMAND_MOST = 120


@dataclass(frozen=True)
class Holder:
    """Who listens on a port, as far as it can be known: `pid` and `command` (one short line) are None where
    the process cannot be seen; `listening` is false where nothing listens there, though it may be bound."""

    pid: int | None
    command: str | None
    listening: bool = True

    def words(self) -> str:
        """For a message, and no more than is known."""
        if self.pid is not None:
            return f"process {self.pid} ({self.command})"
        if self.listening:
            return "a process that this user may not see"
        return "a process that has bound it without listening; which one cannot be seen"


def is_free(port: int) -> bool:
    """Whether 127.0.0.1:port can be bound. Raises MachineFault where this user may not."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                raise MachineFault(f"port {port} may not be used", "it needs a privilege this user does not have",
                                   "choose one above 1023: --set serve.port=8000") from None  # fmt: skip
            return False
    return True


def holder(port: int) -> Holder:
    """The process that listens on a port, as far as this user can see."""
    inodes = _listening(port)
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for link in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    target = os.readlink(link)  # noqa: PTH115 -- a socket link names no path
                    if target.startswith("socket:[") and target[8:-1] in inodes:
                        return Holder(int(process.name), _command(process))
    return Holder(None, None, listening=bool(inodes))


def _command(process: Path) -> str:
    """A process's command line (proc(5), cmdline) on one line, shortened; its name where it has none."""
    words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    line = " ".join("".join(char if char.isprintable() else " " for char in words).split())
    if not line:
        line = (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
    return line if len(line) <= COMMAND_MOST else f"{line[: COMMAND_MOST - 1]}…"


def _listening(port: int) -> set[str]:
    """Socket inodes listening on a port (proc(5), /proc/net/tcp: local address in field 1, state 3, inode 9)."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(fields[9])
    return found
