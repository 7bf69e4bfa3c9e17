"""Models in the Hugging Face cache: which revision is there, and is it whole."""

import json
import re
import shlex
from pathlib import Path

from appliance.catalog.entries import HubSource
from appliance.core.errors import FetchFault, MachineFault
from appliance.models.hub_files import read_record, unchecked
from appliance.models.hub_shelf import strays
from appliance.models.place import hub_folder

WEIGHTS = ("*.safetensors", "*.bin")
REVISION_MOST = 100
INDEX = "model.safetensors.index.json"


def main_revision(source: HubSource, hub: Path) -> str | None:
    """The revision that refs/main of a model here names; None where there is none to read."""
    try:
        return _main(hub / hub_folder(source.repo))
    except OSError:
        return None


def check_snapshot(source: HubSource, hub: Path, preset: str = "PRESET") -> None:
    """A look, without reading the weights. Raises FetchFault, with the command that gets it, where its snapshot is not
    there or not whole: a link that leads nowhere or out of its folder, a shard that the index names and nobody fetched,
    a file that is not as it was when it was checked. Raises MachineFault where it may not be read."""
    folder = hub / hub_folder(source.repo)
    try:
        why = _missing(folder, source.revision)
    except OSError as error:
        raise MachineFault(
            f"the model {source.repo} cannot be read",
            f"{error.filename}: {error.strerror}",
            f"make it yours: sudo chown -R $(id -u) {shlex.quote(str(folder))}; paths.hub names another folder",
        ) from None
    if why:
        raise FetchFault(
            f"the model {source.repo} is not here", why, f"get it: spark-spec models pull {preset}"
        )


def _missing(folder: Path, pinned: str | None) -> str | None:
    """What keeps a model's folder from being used; None where nothing does. Raises OSError."""
    revision = pinned or _main(folder)
    if revision is None:
        return (
            f"{folder} has no refs/main that names a revision" if folder.is_dir() else f"there is no {folder}"
        )
    snapshot = folder / "snapshots" / revision
    record = read_record(folder, revision)
    changed = unchecked(folder, record) if record else ()
    if record and changed:
        return f"{snapshot} lacks {changed[0].path}: {len(changed)} of its {len(record.files)} files are not here whole"
    if outside := strays(folder):
        return f"{outside[0]} leads out of its folder, which is all that a container sees"
    lacks = lacking(snapshot)
    return f"{snapshot} lacks {lacks}" if lacks else None


def _main(folder: Path) -> str | None:
    """The revision in refs/main: a commit's 40 hex digits, and nothing else that may lie there."""
    place = folder / "refs" / "main"
    try:
        if not place.is_file():  # a pipe would never end
            return None
        with place.open(encoding="ascii") as stream:
            text = stream.read(REVISION_MOST).strip()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return text if re.fullmatch(r"[0-9a-f]{40}", text) else None


def lacking(snapshot: Path) -> str | None:
    """The first thing that keeps a snapshot from being loaded; None where it is whole."""
    if not (snapshot / "config.json").is_file():
        return "config.json"
    dangling = next(
        (file for file in sorted(snapshot.rglob("*")) if file.is_symlink() and not file.exists()), None
    )
    if dangling:
        return f"the content of {dangling.name}"
    index = snapshot / INDEX
    if index.is_file():
        try:
            shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError):
            return f"a readable {INDEX}"
        return next((shard for shard in sorted(map(str, shards)) if not (snapshot / shard).is_file()), None)
    return None if any(any(snapshot.glob(pattern)) for pattern in WEIGHTS) else "weights"
