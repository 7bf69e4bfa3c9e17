"""Local, else one's own registry, else built; another architecture is refused (cases.md, 31)."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.core.errors import FetchFault, MachineFault
from appliance.images import base as base_module
from appliance.images import ensure as module
from appliance.images import local
from appliance.images.base import obtain
from appliance.images.ensure import ensure, ensure_recorded, fetch, fetch_recorded
from appliance.images.local import ImageInfo, find
from appliance.images.versions import ImageName, base_image, own, versions
from tests.images.conftest import Docker, Ear

AMD, ARM = "linux/amd64", "linux/arm64"
IMAGE = own("serve-llamacpp", "1")
OURS = IMAGE.reference
BASE = base_image(versions().bases["bookworm"], "1")


class Engine:
    """Stands for a Docker engine and the world around it: what is here, and what can be pulled or made."""

    def __init__(self) -> None:
        self.here: dict[str, str] = {}
        self.remote: dict[str, str] = {}
        self.can_make = True
        self.done: list[str] = []

    def find(self, name: str, origin: local.Origin = "local") -> ImageInfo | None:
        platform = self.here.get(name)
        return ImageInfo(name, "sha256:1", platform, 1, origin) if platform else None

    def pull(self, name: str, platform: str, talk: Ear) -> None:
        del platform, talk
        self.done.append(f"pull {name}")
        if name not in self.remote:
            raise FetchFault(f"the image {name} could not be pulled", "no such host", "")
        self.here[name] = self.remote[name]

    def make(self, name: str, platform: str, talk: Ear) -> str:
        del talk
        self.done.append(f"make {name}")
        if not self.can_make:
            raise MachineFault("the base cannot be made", "debootstrap is missing", "")
        self.here[name] = platform
        return name

    def build(self, image: str, name: str, base: str, platform: str, talk: Ear) -> None:
        del talk
        self.done.append(f"build {image} on {base}")
        self.here[name] = platform

    def tag(self, name: str, other: str, talk: Ear) -> None:
        talk.command(f"docker tag {name} {other}")
        self.here[other] = self.here[name]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    fake = Engine()
    for place in (module, base_module):
        monkeypatch.setattr(place, "find", fake.find)
        monkeypatch.setattr(place, "pull", fake.pull)
    monkeypatch.setattr(base_module, "_made", fake.make)
    monkeypatch.setattr(base_module, "this_platform", lambda: ARM)
    monkeypatch.setattr(module, "build", fake.build)
    monkeypatch.setattr(module, "tag", fake.tag)
    yield fake


def test_an_image_that_is_here_is_used(engine: Engine, ear: Ear) -> None:
    engine.here[OURS] = ARM
    assert ensure(IMAGE, ARM, "own.registry/x", ear).origin == "local"
    assert not engine.done and not ear.said


def test_an_image_of_another_architecture_is_refused(engine: Engine, ear: Ear) -> None:
    engine.here[OURS] = AMD
    with pytest.raises(MachineFault) as caught:
        ensure(IMAGE, ARM, None, ear)
    assert AMD in caught.value.why and ARM in caught.value.why and f"docker rmi {OURS}" in caught.value.fix
    assert not engine.done


def test_a_registry_that_serves_another_architecture_is_refused(engine: Engine, ear: Ear) -> None:
    engine.remote[f"own.registry/x/{OURS}"] = AMD
    with pytest.raises(MachineFault):
        ensure(IMAGE, ARM, "own.registry/x", ear)
    assert OURS not in engine.here


def test_ones_own_registry_is_asked_before_building(engine: Engine, ear: Ear) -> None:
    engine.remote[f"own.registry/x/{OURS}"] = ARM
    found = ensure(IMAGE, ARM, "own.registry/x", ear)
    assert (found.reference, found.origin) == (OURS, "registry")
    assert engine.done == [f"pull own.registry/x/{OURS}"]
    assert ear.commands == [f"docker tag own.registry/x/{OURS} {OURS}"]


def test_it_is_built_where_no_registry_has_it_and_that_is_said_first(engine: Engine, ear: Ear) -> None:
    engine.here[BASE.local] = ARM
    found = ensure(IMAGE, ARM, "own.registry/x", ear)
    assert found.origin == "built"
    assert engine.done == [f"pull own.registry/x/{OURS}", f"build serve-llamacpp on {BASE.local}"]
    assert any("building it for linux/arm64 (33 MB to fetch" in line for line in ear.said)


def test_what_of_ours_was_not_here_is_recorded(
    engine: Engine, ear: Ear, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[tuple[Path, str]] = []
    monkeypatch.setattr(module, "record", lambda *what: kept.append(what))
    engine.remote["vendor/engine:1"] = ARM
    ensure_recorded(ImageName("vendor/engine:1"), ARM, None, tmp_path, ear)
    assert not kept
    engine.remote[f"own.registry/x/{OURS}"] = ARM
    for _ in range(2):
        ensure_recorded(IMAGE, ARM, "own.registry/x", tmp_path, ear)
    engine.here.clear()
    ensure_recorded(IMAGE, ARM, None, tmp_path, ear)
    assert kept == [(tmp_path, OURS)] * 2
    engine.here.clear()
    engine.remote[BASE.public] = ARM
    fetch_recorded(IMAGE, ARM, None, tmp_path, ear)  # its base is none of ours
    fetch_recorded(IMAGE, ARM, "own.registry/x", tmp_path, ear)
    assert kept == [(tmp_path, OURS)] * 3


def test_someone_elses_image_is_pulled_never_built(engine: Engine, ear: Ear) -> None:
    engine.remote["vendor/engine:1.2"] = AMD
    assert ensure(ImageName("vendor/engine:1.2"), AMD, None, ear).origin == "registry"
    with pytest.raises(FetchFault):
        ensure(ImageName("vendor/other:1"), AMD, None, ear)
    assert engine.done == ["pull vendor/engine:1.2", "pull vendor/other:1"]


def test_an_engine_s_base_is_pulled_never_made(engine: Engine, ear: Ear) -> None:
    image = own("serve-trtllm", "1.3.0rc12")
    assert image.base
    engine.remote[image.base.public] = ARM
    assert ensure(image, ARM, None, ear).origin == "built"
    assert engine.done == [f"pull {image.base.public}", f"build serve-trtllm on {image.base.public}"]


def test_an_engine_s_base_of_another_architecture_is_refused(engine: Engine, ear: Ear) -> None:
    image = own("serve-trtllm", "1.3.0rc12")
    assert image.base
    engine.here[image.base.public] = AMD
    with pytest.raises(MachineFault, match="cannot run here") as caught:
        ensure(image, ARM, None, ear)
    assert AMD in caught.value.why and ARM in caught.value.why


def test_an_image_on_an_older_content_of_its_base_is_built_anew(
    engine: Engine, ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Engines' tags move, and so do images of one's own."""
    image = own("serve-trtllm", "1.3.0rc12", "mine:1")
    on_base = {"mine:1": "sha256:old"}

    def find(name: str, origin: local.Origin = "local") -> ImageInfo | None:
        if name == image.reference:
            return ImageInfo(name, "sha256:1", ARM, 1, origin, "sha256:old")
        return ImageInfo(name, on_base[name], ARM, 1, origin)

    monkeypatch.setattr(module, "find", find)
    assert ensure(image, ARM, None, ear).origin == "local" and not engine.done
    on_base["mine:1"] = "sha256:new"
    engine.here["mine:1"] = ARM
    ensure(image, ARM, None, ear)
    assert engine.done == ["build serve-trtllm on mine:1"]
    assert any("stands on an older base" in line for line in ear.said)


def test_bases_are_tried_in_order(engine: Engine, ear: Ear) -> None:
    assert obtain(BASE, ARM, "own/x", ear) == BASE.local
    assert engine.done == [f"pull own/x/{BASE.local}", f"pull {BASE.public}", f"make {BASE.local}"]
    assert obtain(BASE, ARM, "own/x", ear) == BASE.local
    assert len(engine.done) == 3


def test_a_base_of_another_architecture_is_passed_over(engine: Engine, ear: Ear) -> None:
    engine.here |= {BASE.local: AMD, BASE.public: ARM}
    assert obtain(BASE, ARM, None, ear) == BASE.public


def test_a_base_for_another_machine_has_a_name_of_its_own(engine: Engine, ear: Ear) -> None:
    engine.here[BASE.local] = ARM
    assert obtain(BASE, AMD, None, ear) == f"{BASE.local}-amd64"
    assert engine.here == {BASE.local: ARM, f"{BASE.local}-amd64": AMD}


def test_no_base_at_all_tells_everything_that_was_tried(engine: Engine, ear: Ear) -> None:
    engine.can_make = False
    with pytest.raises(FetchFault) as caught:
        obtain(BASE, ARM, "own/x", ear)
    for word in (f"own/x/{BASE.local}", BASE.public, "debootstrap is missing"):
        assert word in caught.value.why
    assert len([line for line in ear.said if "no such host" in line]) == 2


def test_what_docker_says_of_an_image_is_read(docker: Docker) -> None:
    facts = {"Id": "sha256:ab", "Os": "linux", "Architecture": "arm64", "Size": 12}
    docker(f"echo 'WARNING: something' >&2; echo '{json.dumps(facts)}'")
    assert find("a:1") == ImageInfo("a:1", "sha256:ab", ARM, 12, "local")


@pytest.mark.parametrize(
    "words", ["Error: No such image: a:1", "Error response from daemon: No such image: a:1"]
)
def test_an_image_that_is_not_here_is_none(words: str, docker: Docker) -> None:
    docker(f"echo '{words}' >&2; exit 1")
    assert find("a:1") is None


def test_a_docker_that_fails_is_not_an_absent_image(docker: Docker) -> None:
    docker("echo 'Cannot connect to the Docker daemon' >&2; exit 1")
    with pytest.raises(MachineFault, match="could not look"):
        find("a:1")


@pytest.mark.parametrize(
    "answer",
    ["", "garbage", "[]", "{}", "3", "null", '{"Id":"a","Os":"linux","Architecture":"arm64","Size":null}'],
)
def test_an_answer_that_tells_of_no_image_is_a_fault_in_words(docker: Docker, answer: str) -> None:
    docker(f"echo '{answer}'")
    with pytest.raises(MachineFault) as caught:
        find("a:1")
    assert "a:1" in caught.value.what and "answer" in caught.value.why and caught.value.fix


def test_fetching_takes_ours_from_ones_own_registry_alone(engine: Engine, ear: Ear) -> None:
    engine.remote[f"own.registry/x/{OURS}"] = AMD
    assert fetch(IMAGE, AMD, "own.registry/x", ear).reference == OURS
    engine.here.clear()
    engine.remote.clear()
    with pytest.raises(FetchFault):
        fetch(IMAGE, AMD, "own.registry/x", ear)
    assert engine.done == [f"pull own.registry/x/{OURS}"] * 2


def test_fetching_without_a_registry_gets_what_ours_stands_on(engine: Engine, ear: Ear) -> None:
    engine.remote[BASE.public] = AMD
    for _ in range(2):
        assert fetch(IMAGE, AMD, None, ear).reference == BASE.public
    assert engine.done == [f"pull {BASE.public}"]


def test_fetching_what_is_here_does_nothing_but_look_at_its_platform(engine: Engine, ear: Ear) -> None:
    engine.here[OURS] = AMD
    assert fetch(IMAGE, AMD, "own.registry/x", ear).reference == OURS
    with pytest.raises(MachineFault):
        fetch(IMAGE, ARM, "own.registry/x", ear)
    assert not engine.done
