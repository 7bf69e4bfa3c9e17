"""Where things are: the package's own data, and the folders of this user."""

import os
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent


def data(name: str) -> Path:
    """A folder of the package's data: templates, images or compose; from the wheel, or from a checkout."""
    shipped = PACKAGE / "data" / name
    return shipped if shipped.is_dir() else PACKAGE.parent / name


def _xdg(variable: str, fallback: str) -> Path:
    """A base folder as in the XDG specification: a relative value is to be ignored."""
    value = os.environ.get(variable, "")
    return Path(value) if value.startswith("/") else Path.home() / fallback


def default_state() -> Path:
    """Stacks, releases and their logs."""
    return _xdg("XDG_STATE_HOME", ".local/state") / "spark-spec"


def default_models() -> Path:
    """Model files."""
    return _xdg("XDG_CACHE_HOME", ".cache") / "spark-spec" / "models"


def default_config() -> Path:
    """The user's config file; it need not exist."""
    return _xdg("XDG_CONFIG_HOME", ".config") / "spark-spec" / "config.yaml"


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
