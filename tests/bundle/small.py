"""A small bundle, whole by the format: one image of two layers, a model of the hub in two parts, one file."""

import hashlib
from pathlib import Path

from appliance.bundle.layout import MANIFEST, SUMS, blob_path, sums
from appliance.bundle.manifest import (
    Blob,
    Bundle,
    BundledImage,
    HubBlob,
    HubModel,
    Layer,
    NamedFile,
    PresetSet,
    to_text,
)

CONFIG, LAYERS, SBOM = b'{"os": "linux"}', (b"layer one", b"layer two"), b'{"bomFormat": "CycloneDX"}'
WEIGHTS, MODEL, RUNBOOK = b"weights of a model", b"a gguf file", b"read me\n"
CUT = 7
REVISION = "0123456789abcdef0123456789abcdef01234567"


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def blob(content: bytes) -> Blob:
    return Blob(sha256=sha(content), bytes=len(content))


def small_bundle(folder: Path) -> Bundle:
    """Write it into a new folder."""
    parts = tuple(WEIGHTS[start : start + CUT] for start in range(0, len(WEIGHTS), CUT))
    layers = tuple(
        Layer(sha256=sha(one), bytes=len(one), diff_id=sha(b"tar" + one), unpacked=30) for one in LAYERS
    )
    image = BundledImage(reference="spark-spec/x:1", config=blob(CONFIG), layers=layers, sbom=blob(SBOM))
    weights = HubBlob(path="model.safetensors", sha256=sha(WEIGHTS), bytes=len(WEIGHTS), cached=sha(WEIGHTS))
    contents = {sha(one): one for one in (CONFIG, SBOM, *LAYERS, WEIGHTS, MODEL)}
    bundle = Bundle(
        schema_version=1, appliance="0.1.0", platform="linux/arm64", parent=None,
        presets=(PresetSet(name="demo", sets=()),),
        models=(HubModel(repo="org/model", revision=REVISION, origin="hub", files=(weights,)),),
        files=(NamedFile(path="m/model.gguf", sha256=sha(MODEL), bytes=len(MODEL)),),
        vocabulary=(), images=(image,), launcher=None,
        plain=(NamedFile(path="RUNBOOK.md", sha256=sha(RUNBOOK), bytes=len(RUNBOOK)),),
        carried=tuple(sorted(contents)), parts={sha(WEIGHTS): tuple(blob(part) for part in parts)},
    )  # fmt: skip
    (folder / blob_path("x")).parent.mkdir(parents=True)
    for digest, content in contents.items():
        if digest == sha(WEIGHTS):
            for number, part in enumerate(parts):
                (folder / blob_path(digest, number)).write_bytes(part)
        else:
            (folder / blob_path(digest)).write_bytes(content)
    (folder / "RUNBOOK.md").write_bytes(RUNBOOK)
    text = to_text(bundle)
    (folder / MANIFEST).write_text(text)
    (folder / SUMS).write_text(sums(bundle, text))
    return bundle
