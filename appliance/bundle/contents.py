"""Read a carried content out of a bundle that was checked: parts are joined, and its hash is made once more."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from appliance.bundle.layout import blob_files
from appliance.bundle.manifest import Blob, Bundle
from appliance.bundle.plain import CHUNK, open_plain
from appliance.core.errors import Mismatch


def read(folder: Path, bundle: Bundle, blob: Blob) -> Iterator[bytes]:
    """The bytes of a content, in pieces. Raises Mismatch at their end where they are others, OSError."""
    digest = hashlib.sha256()
    for path in blob_files(bundle, Blob(sha256=blob.sha256, bytes=blob.bytes)):
        with open_plain(folder / path) as stream:
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
                yield chunk
    if digest.hexdigest() != blob.sha256:
        raise Mismatch(
            f"a content of the bundle {folder} changed after it was checked",
            f"{blob.sha256} is {digest.hexdigest()} now",
            f"see that nothing writes to it, then: spark-spec bundle verify {folder}",
        )
