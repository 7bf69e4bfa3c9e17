"""Who holds a TCP port on this machine."""

import contextlib
import errno
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from appliance.core.errors import MachineFault

LISTEN = "0A"


@dataclass(frozen=True)
class Holder:
    """A process that listens on a port; None where the kernel does not let us see it."""

    pid: int | None
    command: str | None


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
                        words = (process / "cmdline").read_bytes().split(b"\0")
                        return Holder(int(process.name), b" ".join(words).decode(errors="replace").strip())
    return Holder(None, None)


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
