"""What must be there before an engine starts: models out of a mounted hub cache, and files known by their hash.

A mounted cache is read-only and may hold several revisions. The engine gets a cache of its own, made of links,
whose `main` is the revision that is meant; so a repository's name and a folder's path mean the same bytes.
Standard library only: this file also runs inside every engine image.
"""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from appliance.supervise.plan import File, Snapshot

HUB, MODELS = "hub", "models"  # below the state folder


def lay_out(snapshots: Iterable[Snapshot], state: Path) -> None:
    """Make `<state>/hub`, a hub cache of links, and `<state>/models/<repo>`, a link to each model's snapshot.

    The layout is the hub library's: models--org--name/{blobs,refs/main,snapshots/<revision>}.
    Raises FileNotFoundError where a snapshot is not in its cache, OSError where the links cannot be made.
    """
    for snapshot in snapshots:
        source = Path(snapshot.folder)
        revision = snapshot.revision or _main(source)
        found = source / "snapshots" / revision
        if not found.is_dir():
            raise FileNotFoundError(f"{source} has no snapshot {revision}")
        own = state / HUB / source.name
        (own / "refs").mkdir(parents=True, exist_ok=True)
        (own / "refs" / "main").write_text(revision, encoding="ascii")
        for part in ("blobs", "snapshots"):
            _link(own / part, source / part)
        _link(state / MODELS / snapshot.repo, found)


def check(files: Iterable[File]) -> None:
    """Raises FileNotFoundError or ValueError, naming the first file that is not there or not what it should be."""
    for file in files:
        try:
            content = Path(file.path).read_bytes()
        except FileNotFoundError:
            raise FileNotFoundError(f"{file.path} is not there: {file.role}") from None
        found = hashlib.sha256(content).hexdigest()
        if found != file.sha256:
            raise ValueError(f"{file.path} is not {file.role}: its sha256 is {found}, not {file.sha256}")


def _main(source: Path) -> str:
    try:
        revision = (source / "refs" / "main").read_text(encoding="ascii").strip()
    except (FileNotFoundError, NotADirectoryError):
        revision = ""
    if not re.fullmatch(r"[0-9a-f]{40}", revision):
        raise FileNotFoundError(f"{source} has no refs/main that names a commit: no whole download is in it")
    return revision


def _link(link: Path, target: Path) -> None:
    """A link that may be there already, in one step."""
    link.parent.mkdir(parents=True, exist_ok=True)
    fresh = link.with_name(f".{link.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)
