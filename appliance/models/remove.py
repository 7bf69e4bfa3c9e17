"""Taking a model away: in one step, so that no half of it is ever taken for a model."""

import contextlib
import os
import shutil
from pathlib import Path

from appliance.core.errors import MachineFault
from appliance.models import record
from appliance.models.ensure import Say
from appliance.models.hub_shelf import opened


def remove_file(file: Path) -> int:
    """Remove a model's file with its record. Returns the bytes. Raises MachineFault."""
    try:
        size = file.stat().st_size
        file.unlink()
        record.path_of(file).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # others may lie in it
            file.parent.rmdir()
    except OSError as error:
        raise _kept(file, error) from error
    return size


def remove_folder(folder: Path, say: Say) -> int:
    """Remove a repository's folder in the hub's cache. Returns the bytes. Raises MachineFault, NoProgress."""
    try:
        size = size_of(folder)
        with opened(folder, say):
            gone = folder.with_name(f".{folder.name}.removed-{os.getpid()}")
            folder.rename(gone)
            shutil.rmtree(gone)
    except OSError as error:
        raise _kept(folder, error) from error
    return size


def size_of(folder: Path) -> int:
    """Bytes of a repository's blobs, half ones among them."""
    return sum(blob.stat().st_size for blob in (folder / "blobs").glob("*") if blob.is_file())


def _kept(path: Path, error: OSError) -> MachineFault:
    return MachineFault(f"{path} cannot be removed", str(error), "see to its rights, and run again")
