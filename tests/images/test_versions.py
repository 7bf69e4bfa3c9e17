"""The tag of an image says what it is made of, before anything is built."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest

import appliance
from appliance.core.errors import ConfigFault
from appliance.core.paths import PACKAGE, data
from appliance.images import versions as module
from appliance.images.versions import Base, base_image, load, own, program, versions

ROOT = PACKAGE.parent


def test_the_wheel_is_the_one_pyproject_pins() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert f"xllamacpp=={versions().wheels['xllamacpp'].version}" in extras["local"]


def test_a_wheel_is_known_for_each_platform() -> None:
    for wheel in versions().wheels.values():
        assert set(wheel.files) == {"linux/amd64", "linux/arm64"}


def reference(image: str) -> str:
    return own(image, "1").reference


@pytest.mark.parametrize("image", list(versions().images))
def test_every_image_can_be_made(image: str) -> None:
    assert (data("images") / image / "Dockerfile").is_file()
    for pattern in versions().images[image].program:
        assert list(PACKAGE.glob(pattern)), f"{pattern} matches no file"
    assert versions().images[image].base in versions().bases


def test_the_tag_tells_version_base_and_inputs() -> None:
    name = reference("serve-llamacpp")
    version = re.escape(appliance.__version__)
    assert re.fullmatch(rf"spark-spec/serve-llamacpp:{version}-bookworm-[0-9a-f]{{12}}", name)
    assert reference("serve-llamacpp") == name
    assert own("serve-llamacpp", "1").image == "serve-llamacpp"


def test_a_known_digest_stands_in_the_tag_and_pins_the_public_image() -> None:
    digest = "sha256:" + "0123456789abcdef" * 4
    base = Base(local="a/b:c", public="d", tag="e", digests={"e": digest}, python="3.11")
    assert base_image(base, "1").short == "0123456789ab"
    assert base_image(base, "1").public == f"d:e@{digest}"


def test_an_engine_s_base_is_tagged_by_its_version() -> None:
    image = own("serve-trtllm", "1.3.0rc12")
    assert image.base and image.base.public == "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12"
    assert "-1.3.0rc12-" in image.reference
    assert own("serve-trtllm", "1.2.1").reference != image.reference


def test_a_base_of_one_s_own_is_another_image() -> None:
    image = own("serve-trtllm", "1.3.0rc12", "registry.example/mine:3")
    assert image.base and image.base.public == "registry.example/mine:3"
    assert image.reference != own("serve-trtllm", "1.3.0rc12").reference


@pytest.mark.parametrize("changed", ["__init__.py", "supervise/plan.py", "supervise/new.py"])
def test_a_changed_program_is_another_image(
    changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = reference("serve-llamacpp")
    copy = shutil.copytree(PACKAGE, tmp_path / "appliance", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(module, "PACKAGE", copy)
    assert reference("serve-llamacpp") == before
    with (copy / changed).open("a") as stream:
        stream.write("# changed\n")
    assert reference("serve-llamacpp") != before


def test_a_changed_dockerfile_wheel_or_base_is_another_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copytree(data("images"), tmp_path / "images")
    seen = {reference("serve-llamacpp")}
    text = (copy / "versions.yaml").read_text()
    sha = versions().wheels["xllamacpp"].files["linux/arm64"].sha256
    for yaml in (text, text.replace(sha, "a" * 64), text.replace("3.11-slim", "3.12-slim")):
        (copy / "versions.yaml").write_text(yaml)
        changed = load(copy / "versions.yaml")
        monkeypatch.setattr(module, "versions", lambda changed=changed: changed)
        seen.add(reference("serve-llamacpp"))
    with (copy / "serve-llamacpp" / "Dockerfile").open("a") as stream:
        stream.write("# changed\n")
    monkeypatch.setattr(module, "data", lambda name: tmp_path / name)
    seen.add(reference("serve-llamacpp"))
    assert len(seen) == 4


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("digests: {}", "digests: {a: sha256:12}"),
        ("digests: {}", "digsets: {}"),
        ("bytes: 33827498", 'bytes: "33827498"'),
        ("bases:", "bases: ["),
    ],
)
def test_a_file_that_is_off_is_refused(old: str, new: str, tmp_path: Path) -> None:
    text = (data("images") / "versions.yaml").read_text()
    assert old in text
    (tmp_path / "versions.yaml").write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigFault):
        load(tmp_path / "versions.yaml")


def test_nothing_is_called_latest() -> None:
    for path in data("images").rglob("*"):
        if path.is_file():
            assert ":latest" not in path.read_text(), path


def test_the_program_lies_where_the_image_expects_it() -> None:
    places = [place for _, place in program("serve-llamacpp")]
    assert places == sorted(places)
    assert {"appliance/__init__.py", "appliance/supervise/__main__.py", "appliance/supervise/plan.py"} < set(
        places
    )
    assert "programs/llamacpp_program.py" in places
