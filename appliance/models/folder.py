"""The models folder: may it be written, is there room, who is at work on a file in it."""

import contextlib
import fcntl
import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from appliance.core.errors import MachineFault, NoProgress

LOCK_WAIT_S = 1800.0
LOCK_POLL_S = 0.1
_SETTING = "or choose another folder for the models"


def check_writable(models: Path, folder: Path) -> None:
    """Raise MachineFault where files cannot be made in `folder`, which is in or is the models folder.

    Neither need exist yet.
    """
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not nearest.is_dir():
        raise MachineFault(
            f"the models folder {models} cannot be made", f"{nearest} is a file", f"move it away, {_SETTING}"
        )
    if os.statvfs(nearest).f_flag & os.ST_RDONLY:
        raise MachineFault(
            f"the models folder {models} cannot be written",
            f"{nearest} is on a read-only file system",
            f"mount it for writing, {_SETTING}",
        )
    if os.access(nearest, os.W_OK | os.X_OK, effective_ids=True):
        return
    if models.exists():
        raise not_ours(nearest)
    # Never a command that would hand over a folder which is not the appliance's own, such as /srv.
    raise MachineFault(
        f"the models folder {models} cannot be made",
        f"{nearest} cannot be written by {_name(os.geteuid())}",
        f"sudo install -d -o {_name(os.geteuid())} {shlex.quote(str(models))}    ({_SETTING})",
    )


def make(folder: Path) -> None:
    """Make a folder, and those above it, that anyone may read whatever the umask: the engine's user is
    another one. Folders that are here are left alone. Raises OSError."""
    for path in reversed((folder, *folder.parents)):
        if not path.exists():
            path.mkdir(exist_ok=True)
            path.chmod(0o755)


def check_places(*files: Path) -> None:
    """Raise MachineFault where something that is no file lies in the place of one."""
    for file in files:
        if file.exists() and not file.is_file():
            kind = "a folder" if file.is_dir() else "no ordinary file"
            raise MachineFault(
                f"{file} is {kind}",
                "a file of a model belongs in its place",
                f"move it away: mv {shlex.quote(str(file))} {shlex.quote(str(file))}.old",
            )


def not_ours(path: Path) -> MachineFault:
    """The fault of a path that this user may not write, with the command that changes it."""
    seen, user = path.stat(), _name(os.geteuid())
    why = f"it belongs to {_name(seen.st_uid)} (mode {seen.st_mode & 0o7777:04o}), and you are {user}"
    command = f"sudo chown -R {user} {shlex.quote(str(path))}"
    if seen.st_uid == os.geteuid():
        command = f"chmod -R u+rwX {shlex.quote(str(path))}"
    return MachineFault(f"{path} cannot be written", why, f"{command}    ({_SETTING})")


def check_room(folder: Path, needed: int, label: str) -> None:
    """Raise MachineFault where the disk under `folder` has less than `needed` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise MachineFault(
            f"the disk is too full for {label}",
            f"{megabytes(needed)} are needed and {megabytes(free)} are free in {folder}",
            f"free some space, {_SETTING}",
        )


def megabytes(count: int) -> str:
    """Bytes for a person: 98.4 MB."""
    return f"{count / 1e6:,.1f} MB"


@contextlib.contextmanager
def only_one(
    file: Path, say: Callable[[str], None], growing: Callable[[], int] = lambda: 0
) -> Iterator[None]:
    """Hold the lock of a model file: nobody else gets or makes it meanwhile. It ends with its process.

    Waits for another holder, LOCK_WAIT_S at most from when `growing` last changed, then raises NoProgress.
    """
    with file.with_name(f".{file.name}.lock").open("a", encoding="utf-8") as lock:
        deadline = time.monotonic() + LOCK_WAIT_S
        said, size = False, growing()
        while not _lock(lock.fileno()):
            if size != (size := growing()):
                deadline = time.monotonic() + LOCK_WAIT_S
            if time.monotonic() > deadline:
                raise NoProgress(
                    f"{file.name} is not there yet",
                    f"another process has been at work on it for {LOCK_WAIT_S / 60:.0f} minutes",
                    f"see what holds {lock.name} (`fuser {shlex.quote(lock.name)}`), and run again",
                )
            if not said:
                say(f"another process is getting {file.name}; waiting for it")
                said = True
            time.sleep(LOCK_POLL_S)
        yield


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _name(uid: int) -> str:
    """A user's name, or its number where it has none."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
