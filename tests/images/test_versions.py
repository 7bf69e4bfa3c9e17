"""The tag of an image says what it is made of, before anything is built."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import appliance
from appliance.catalog.lock import Lock, LockedBase, write
from appliance.core.errors import ConfigFault, UsageFault
from appliance.core.paths import PACKAGE, data
from appliance.images import versions as module
from appliance.images.versions import (
    Base,
    base_image,
    dockerfile,
    extra_files,
    load,
    named,
    own,
    program,
    requirements,
    versions,
)

ROOT = PACKAGE.parent


def test_the_embedded_engine_is_the_one_pyproject_pins() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pinned = next(one for one in extras["local"] if one.startswith("xllamacpp=="))
    locked = requirements("serve-llamacpp")
    assert locked and f"\n{pinned} " in locked.read_text()


@pytest.mark.parametrize("image", [name for name, image in versions().images.items() if image.fetch])
def test_all_that_is_locked_has_one_version_and_its_hashes(image: str) -> None:
    locked = requirements(image)
    assert locked
    entries = [line for line in locked.read_text().splitlines() if line and not line.startswith((" ", "#"))]
    assert entries and all(re.fullmatch(r"[a-z0-9-]+==[a-z0-9.+]+ \\", entry) for entry in entries)
    blocks = re.split(r"^[a-z0-9-]+==", locked.read_text(), flags=re.M)[1:]
    assert all("--hash=sha256:" in block for block in blocks)


def test_what_is_asked_for_is_locked() -> None:
    """requirements.in changes together with requirements.txt."""
    for image in [name for name, one in versions().images.items() if one.fetch]:
        locked = requirements(image)
        assert locked
        pins = dict(re.findall(r"^([a-z0-9-]+)==(\S+) ", locked.read_text(), flags=re.M))
        for line in locked.with_suffix(".in").read_text().splitlines():
            if line and not line.startswith("#"):
                asked = Requirement(line)
                assert asked.specifier.contains(pins[asked.name]), (image, line)


def reference(image: str) -> str:
    return own(image, "1").reference


@pytest.mark.parametrize("image", list(versions().images))
def test_every_image_can_be_made(image: str) -> None:
    assert dockerfile(image).is_file()
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


def test_the_user_s_lock_wins_over_what_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    before, digest = own("serve-trtllm", "1.3.0rc12"), "sha256:" + "cd" * 32
    name = "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12"
    write(Lock(bases={name: LockedBase(digest=digest, platforms=("linux/arm64",))}))
    after = own("serve-trtllm", "1.3.0rc12")
    assert before.base and after.base and after.base.public == f"{before.base.public}@{digest}"
    assert f"-{'cd' * 6}-" in after.reference
    assert own("serve-trtllm", "1.2.1").base == base_image(versions().bases["trtllm"], "1.2.1")


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


@pytest.mark.parametrize(
    "changed", ["serve-llamacpp/Dockerfile", "serve-llamacpp/requirements.txt", "docker-bake.hcl"]
)
def test_a_changed_recipe_is_another_image(
    changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = reference("serve-llamacpp")
    copy = shutil.copytree(data("images"), tmp_path / "images")
    monkeypatch.setattr(module, "data", lambda name: tmp_path / name)
    assert reference("serve-llamacpp") == before
    with (copy / changed).open("a") as stream:
        stream.write("# changed\n")
    assert reference("serve-llamacpp") != before


def test_another_base_is_another_image(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = reference("serve-llamacpp")
    text = (data("images") / "versions.yaml").read_text()
    (tmp_path / "versions.yaml").write_text(text.replace("3.11-slim", "3.12-slim"))
    changed = load(tmp_path / "versions.yaml")
    monkeypatch.setattr(module, "versions", lambda: changed)
    assert reference("serve-llamacpp") != before


def test_other_files_of_its_folder_belong_to_an_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [path.name for path in extra_files("gateway")] == ["closed.conf"]
    before = reference("gateway")
    copy = shutil.copytree(data("images"), tmp_path / "images")
    monkeypatch.setattr(module, "data", lambda name: tmp_path / name)
    (copy / "gateway" / "closed.conf").write_text("# changed\n")
    assert reference("gateway") != before


def test_an_image_is_asked_for_by_name() -> None:
    assert named("train-cpu", None, None) == own("train-cpu", "")
    assert named("dump", "1.3.0rc12", None) == own("dump", "1.3.0rc12")
    assert named("dump", None, "mine:1").base == own("dump", "", "mine:1").base


@pytest.mark.parametrize(("image", "version"), [("dump", None), ("gateway", "1.2")])
def test_an_image_whose_base_is_unclear_is_refused(image: str, version: str | None) -> None:
    with pytest.raises(UsageFault):
        named(image, version, None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("digests: {}", "digests: {a: sha256:12}"),
        ("digests: {}", "digsets: {}"),
        ("linux/amd64: 33827498", 'linux/amd64: "33827498"'),
        ("linux/amd64: 33827498", "linux/riscv64: 33827498"),
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
    places = [place for place, _ in program("serve-llamacpp")]
    assert places == sorted(places)
    assert {"appliance/__init__.py", "appliance/supervise/__main__.py", "appliance/supervise/plan.py"} < set(
        places
    )
    assert "programs/llamacpp_program.py" in places
