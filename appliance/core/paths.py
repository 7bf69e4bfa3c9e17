"""Where things are: the package's own data, and the folders of this user."""

import os
import stat
import tempfile
from pathlib import Path

from appliance.core.errors import ConfigFault
from appliance.core.text import one_line, printable, shown

PACKAGE = Path(__file__).resolve().parent.parent
LARGEST = 1 << 20  # bytes of a file that a person writes

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def data(name: str) -> Path:
    """A folder of the package's data: templates, images or compose; from the wheel, or from a checkout."""
    shipped = PACKAGE / "data" / name
    return shipped if shipped.is_dir() else PACKAGE.parent / name


def _xdg(variable: str, fallback: str) -> Path | None:
    """A base folder as in the XDG specification: a relative value is to be ignored. None without a home."""
    value = os.environ.get(variable, "")
    if value.startswith("/"):
        return Path(value)
    try:
        home = Path.home()
    except RuntimeError:  # no HOME, and a user that the machine does not know
        return None
    return home / fallback if home.is_absolute() else None


def default_state() -> Path | None:
    """Stacks, releases and their logs; None where there is no home for them."""
    base = _xdg("XDG_STATE_HOME", ".local/state")
    return base and base / "spark-spec"


def default_models() -> Path | None:
    """Model files; None where there is no home for them."""
    base = _xdg("XDG_CACHE_HOME", ".cache")
    return base and base / "spark-spec" / "models"


def default_hub() -> Path | None:
    """The Hugging Face cache, where its own variables say it is (HF_HUB_CACHE, HF_HOME); None without a home."""
    for variable, inside in (("HF_HUB_CACHE", ""), ("HF_HOME", "hub")):
        if (value := os.environ.get(variable, "")).startswith("/"):
            return Path(value) / inside
    base = _xdg("XDG_CACHE_HOME", ".cache")
    return base and base / "huggingface" / "hub"


def default_harmony() -> Path | None:
    """The vocabulary files of the harmony format; None where there is no home for them."""
    base = _xdg("XDG_CACHE_HOME", ".cache")
    return base and base / "spark-spec" / "harmony"


def default_config() -> Path | None:
    """The user's config file, which need not exist; None where there is no home for it."""
    base = _xdg("XDG_CONFIG_HOME", ".config")
    return base and base / "spark-spec" / "config.yaml"


def expanded(path: Path) -> Path:
    """The path with its ~ or ~user replaced. Raises ValueError where nobody has that home, and on characters
    that cannot be shown."""
    printable(str(path))
    try:
        return path.expanduser()
    except RuntimeError:
        raise ValueError(f"{shown(path.parts[0])} is no home folder that is known here") from None


def named_file(text: str, role: str) -> Path:
    """The path of a file that a person names; `role` names it in messages. Raises ConfigFault."""
    try:
        return expanded(Path(text))
    except ValueError as error:
        raise ConfigFault(f"{role} cannot be {shown(text)}", str(error), "give a plain path") from None


def read_small(path: Path) -> str | None:
    """The text of a regular file of at most 1 MiB, UTF-8 with or without a BOM; None where there is none.

    Raises ConfigFault where it is something else: a pipe may never end, nor a device.
    """
    name = one_line(str(path))
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
        if kind != stat.S_IFREG:
            raise ConfigFault(
                f"cannot read {name}", f"it is {_KINDS.get(kind, 'no file')}", "name a regular file"
            )
        # Not blocking, in case it has become a pipe since.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            raw = stream.read(LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        why = error.strerror or "it cannot be opened"
        raise ConfigFault(f"cannot read {name}", why, "check the path and its permissions") from None
    if len(raw) > LARGEST:
        raise ConfigFault(f"cannot read {name}", "it is larger than 1 MiB", "name the file that was meant")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigFault(
            f"cannot read {name}", f"byte {error.start} is no UTF-8", "save it as UTF-8"
        ) from None


def write_atomic(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace a file in one step, whole and on the disk, or leave it as it was."""
    handle, fresh = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(fresh).chmod(mode)
        Path(fresh).replace(path)
    except BaseException:
        Path(fresh).unlink(missing_ok=True)
        raise
