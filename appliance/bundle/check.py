"""Is a bundle whole, and whose is it? Everything is looked at before anything of it is used."""

import hashlib
import os
import stat
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from appliance.bundle import keys
from appliance.bundle.journal import Journal, Stamp
from appliance.bundle.layout import MANIFEST, SIGNATURE, SUMS, files, folders, sums
from appliance.bundle.manifest import LARGEST, Blob, Bundle, parse
from appliance.bundle.plain import hash_plain, small, unreadable
from appliance.core.errors import FetchFault, Mismatch
from appliance.core.text import one_line
from appliance.models.parallel import each

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

Policy = Literal["required", "if-present", "never"]
Progress = Callable[[str, int, int], None]
OWN = (MANIFEST, SIGNATURE, SUMS)
# What file systems and desktops put at the top of a medium by themselves.
FOREIGN = ("lost+found", "System Volume Information", ".Trash-", ".Trashes", ".Spotlight-V100", ".fseventsd")
MOST_NAMED = 20


@dataclass(frozen=True)
class Problem:
    """A path of the bundle's folder, and what is wrong with it."""

    path: str
    what: str


@dataclass(frozen=True)
class Opened:
    """A bundle whose manifest was read: its folder, the sha256 of bundle.json, and the id of the key that signed it;
    None where none did, or nobody asked."""

    folder: Path
    bundle: Bundle
    digest: str
    key: str | None


def open_bundle(folder: Path, policy: Policy, given: "Ed25519PublicKey | None" = None) -> Opened:
    """Read the manifest of a folder and its signature, as the policy has it; `given` is the only key to trust.

    Raises FetchFault (no bundle), ConfigFault (of a newer appliance), Mismatch (signature, or no manifest).
    """
    raw = _raw(folder / MANIFEST)
    key = _signed(folder, raw, policy, given)
    return Opened(folder, parse(raw, str(folder / MANIFEST)), hashlib.sha256(raw).hexdigest(), key)


def read_manifest(path: Path) -> tuple[Bundle, bytes]:
    """A manifest alone, and its bytes. Raises as `open_bundle` does."""
    raw = _raw(path)
    return parse(raw, str(path)), raw


def _raw(path: Path) -> bytes:
    raw = small(path, LARGEST)
    if raw is None:
        raise FetchFault(f"{path.parent} is no bundle", f"there is no {path.name} in it",
                         "name the folder that `spark-spec bundle create` wrote")  # fmt: skip
    return raw


def _signed(folder: Path, raw: bytes, policy: Policy, given: "Ed25519PublicKey | None") -> str | None:
    if policy == "never":
        return None
    text = small(folder / SIGNATURE, 1 << 16)
    if text is None:
        if policy == "required" or given is not None:
            raise Mismatch(f"{folder} is not signed", f"there is no {SIGNATURE} in it, and a signature is asked for",
                           "get it signed from who made it, or say --signature if-present without a key")  # fmt: skip
        return None
    known = {keys.key_id(given): given} if given is not None else keys.trusted()
    return keys.verify(text.decode("utf-8", "replace"), raw, known)


def problems(opened: Opened, jobs: int, seen: Journal, progress: Progress) -> tuple[Problem, ...]:
    """All that is wrong with a bundle's files, by path: missing, extra, short, long, changed, or no plain file.

    `jobs` files are hashed at a time, those that `seen` has as they were are not hashed again. Raises MachineFault
    where one cannot be read.
    """
    expected, found = files(opened.bundle), _listed(opened)
    listed = _unlisted(expected, found)
    listed += _sums_differ(opened)
    sound: list[str] = []
    for path, blob in sorted(expected.items()):
        kind, size = found.get(path, (None, 0))
        if kind is None:
            listed.append(Problem(path, "missing"))
        elif kind != stat.S_IFREG:
            listed.append(Problem(path, "no plain file"))
        elif size != blob.bytes:
            listed.append(
                Problem(path, f"{'short' if size < blob.bytes else 'long'}: {size} bytes, not {blob.bytes}")
            )
        else:
            sound.append(path)
    listed += _changed(opened, {path: expected[path] for path in sound}, jobs, seen, progress)
    return tuple(sorted(listed, key=lambda one: one.path))


def refused(opened: Opened, found: tuple[Problem, ...]) -> Mismatch:
    """The fault of a bundle with problems. All are in it, unless there are very many."""
    named = [f"{one.path}: {one.what}" for one in found[:MOST_NAMED]]
    more = [f"and {len(found) - MOST_NAMED} more: --json names all"] if len(found) > MOST_NAMED else []
    return Mismatch(
        f"{opened.folder} is not whole: {len(found)} of its files are not as they should be",
        "\n".join(one_line(line) for line in (*named, *more)),
        f"copy these files anew from another copy of the bundle into {opened.folder}",
    )


def _listed(opened: Opened) -> dict[str, tuple[int, int]]:
    """(kind, bytes) of everything in the folder but its own folders, by path. Links are not followed."""
    known, found = folders(opened.bundle), dict[str, tuple[int, int]]()
    waiting = [""]
    while waiting:
        place = waiting.pop()
        try:
            with os.scandir(opened.folder / place) as entries:
                for entry in entries:
                    path = f"{place}/{entry.name}".lstrip("/")
                    told = entry.stat(follow_symlinks=False)
                    kind = stat.S_IFMT(told.st_mode)
                    if kind == stat.S_IFDIR and path in known:
                        waiting.append(path)
                    elif place or not entry.name.startswith(FOREIGN):
                        # A second name of the same content elsewhere could change it after it was looked at.
                        linked = kind == stat.S_IFREG and told.st_nlink > 1
                        found[path] = (stat.S_IFLNK if linked else kind, told.st_size)
        except OSError as error:
            raise unreadable(opened.folder / place, error) from None
    return found


def _unlisted(expected: Mapping[str, Blob], found: Mapping[str, tuple[int, int]]) -> list[Problem]:
    """What is there and belongs to no bundle, or is there only in another case."""
    extra = [path for path in found if path not in expected and path not in OWN]
    odd = [path for path in OWN if path in found and found[path][0] != stat.S_IFREG]
    return [
        *(Problem(one_line(path), "extra: the bundle does not name it") for path in extra),
        *(Problem(path, "no plain file") for path in odd),
    ]


def _sums_differ(opened: Opened) -> list[Problem]:
    raw = small(opened.folder / MANIFEST, LARGEST) or b""
    said = small(opened.folder / SUMS, LARGEST)
    if said is None:
        return [Problem(SUMS, "missing")]
    right = sums(opened.bundle, raw.decode("utf-8", "replace")).encode()
    return [] if said == right else [Problem(SUMS, "changed: it does not say what the manifest says")]


def _changed(
    opened: Opened, asked: Mapping[str, Blob], jobs: int, seen: Journal, progress: Progress
) -> list[Problem]:
    """The files whose content is another one."""
    total, done, lock = sum(one.bytes for one in asked.values()), 0, threading.Lock()
    wrong: list[Problem] = []
    stop = threading.Event()

    def moved(count: int) -> None:
        nonlocal done
        with lock:
            done += count
            progress(f"checking {opened.folder.name}", min(done, total - 1), total)

    def look(path: str) -> None:
        blob, file = asked[path], opened.folder / path
        if seen.holds(path, file, blob.sha256):
            moved(blob.bytes)
            return
        before, digest = Stamp.of(file), hash_plain(file, moved, stop)
        if digest != blob.sha256:
            with lock:
                wrong.append(Problem(path, f"changed: its sha256 is {digest}"))
        elif Stamp.of(file) == before:
            seen.keep(path, before, digest)

    fault = each(sorted(asked), look, jobs, stop)
    progress(f"checking {opened.folder.name}", total, total)
    seen.save()
    if isinstance(fault, OSError):
        raise unreadable(Path(fault.filename or opened.folder), fault)
    if fault is not None:
        raise fault
    return wrong
