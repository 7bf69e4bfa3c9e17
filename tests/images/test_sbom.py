"""The bill of materials: what CycloneDX 1.6 wants, and the same bytes for the same image."""

import json
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from appliance.images.layers import Contents
from appliance.images.packages import Distribution, Package, Read
from appliance.images.sbom import bill

DIGEST = "ab" * 32
CONFIG: dict[str, Any] = {
    "created": "2026-11-30T10:00:00.5Z", "os": "linux", "architecture": "arm64",
    "rootfs": {"type": "layers", "diff_ids": [f"sha256:{DIGEST}"]},
    "config": {"Labels": {"org.opencontainers.image.base.name": f"own.example:5000/base:12@sha256:{DIGEST}"}},
}  # fmt: skip
FILES: dict[str, Read] = {
    "etc/os-release": Distribution("debian", "12"),
    "var/lib/dpkg/status": (
        Package("deb", "libc6", "2.36-9+deb12u13", "arm64"),
        Package("deb", "zlib1g", "1:1.2", "arm64"),
    ),
    "opt/x/METADATA": (Package("pypi", "xllamacpp", "2026.10", license="MIT"),),
    "opt/y/METADATA": (Package("pypi", "Odd_Name", "1", license="not an expression at all"),),
    "opt/spark-spec/appliance/__init__.py": (
        Package("generic", "spark-spec", "0.1.0", license="Apache-2.0"),
    ),
}


def told(files: dict[str, Read] = FILES, config: dict[str, Any] = CONFIG) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(bill("spark-spec/gateway:1", Contents(config, files)))
    return read


@pytest.mark.parametrize("files", [FILES, {}])
def test_it_is_what_the_schema_wants(files: dict[str, Read]) -> None:
    text = bill("spark-spec/gateway:1", Contents(CONFIG, files))
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_each_package_is_named_as_scanners_look_it_up() -> None:
    purls = {part["purl"] for part in told()["components"] if "purl" in part}
    assert {
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u13?arch=arm64&distro=debian-12",
        "pkg:pypi/xllamacpp@2026.10",
        "pkg:generic/spark-spec@0.1.0",
    } < purls


def test_it_says_of_which_content_it_is_and_what_that_stands_on() -> None:
    made = told()
    image = made["metadata"]["component"]
    assert (image["name"], image["version"]) == ("spark-spec/gateway", "1")
    assert {"name": "spark-spec:platform", "value": "linux/arm64"} in image["properties"]
    (base,) = [part for part in made["components"] if part["bom-ref"] == "base"]
    assert (base["name"], base["version"]) == ("own.example:5000/base", "12")
    assert base["hashes"] == [{"alg": "SHA-256", "content": DIGEST}]


def test_the_same_image_gives_the_same_bytes_and_another_one_another_number() -> None:
    files = dict(reversed(FILES.items()))
    assert told() == told(files)
    assert bill("a:1", Contents(CONFIG, FILES)) == bill("a:1", Contents(CONFIG, files))
    assert told()["serialNumber"] != told({})["serialNumber"]
    assert told()["metadata"]["timestamp"].startswith("2026-11-30T10:00:00")
    assert told(config=CONFIG | {"created": None})["metadata"]["timestamp"].startswith("1970-01-01")
