"""Where things lie in a bundle's folder, and the file that `sha256sum -c` reads. Pure.

bundle.json             the manifest           bundle.sig    its signature, where it is signed
SHA256SUMS              every other file       blobs/sha256/HEX, or HEX.000, HEX.001, … where it was cut
wheels/                 the launcher           install.py, RUNBOOK.md
index.json, oci-layout  the images as an OCI layout, where no layer was cut
"""

import hashlib
from pathlib import PurePosixPath

from appliance.bundle.manifest import Blob, Bundle

MANIFEST = "bundle.json"
SIGNATURE = "bundle.sig"
SUMS = "SHA256SUMS"
BLOBS = "blobs/sha256"
PART_BYTES = (4 << 30) - 1  # the largest file that FAT32 holds


def blob_path(sha256: str, part: int | None = None) -> str:
    """A blob's path in the bundle, or that of one of its parts."""
    return f"{BLOBS}/{sha256}" + (f".{part:03d}" if part is not None else "")


def blob_files(bundle: Bundle, blob: Blob) -> dict[str, Blob]:
    """The files of one carried blob, in order, with what each has to be."""
    parts = bundle.parts.get(blob.sha256)
    if parts is None:
        return {blob_path(blob.sha256): blob}
    return {blob_path(blob.sha256, number): part for number, part in enumerate(parts)}


def files(bundle: Bundle) -> dict[str, Blob]:
    """Every file that a bundle's folder must hold beside bundle.json, bundle.sig and SHA256SUMS."""
    found: dict[str, Blob] = {}
    sizes = bundle.blobs()
    for sha256 in bundle.carried:
        found |= blob_files(bundle, Blob(sha256=sha256, bytes=sizes[sha256]))
    wheels = bundle.launcher.wheels if bundle.launcher else ()
    for file in (*bundle.plain, *wheels):
        found[file.path] = Blob(sha256=file.sha256, bytes=file.bytes)
    return found


def sums(bundle: Bundle, manifest: str) -> str:
    """The text of SHA256SUMS: one line a file, in the order of their names; bundle.json is the text `manifest`."""
    lines = {path: blob.sha256 for path, blob in files(bundle).items()}
    lines[MANIFEST] = hashlib.sha256(manifest.encode()).hexdigest()
    return "".join(f"{digest}  {path}\n" for path, digest in sorted(lines.items()))


def folders(bundle: Bundle) -> set[str]:
    """The folders that a bundle has."""
    found: set[str] = set()
    for path in files(bundle):
        found |= {str(one) for one in PurePosixPath(path).parents if str(one) != "."}
    return found
