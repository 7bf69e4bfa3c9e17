"""An image is compared with its record and its name; no record is no pass; each ending has its exit code."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.core.errors import MachineFault
from appliance.images import records
from appliance.images import verify as module
from appliance.images.identity import identity
from appliance.images.records import path_of, record, recorded
from appliance.images.verify import Verdict, fault, misnamed, verify
from appliance.images.versions import base_image, own, versions

ARM, AMD = "linux/arm64", "linux/amd64"
OURS = own("serve-llamacpp", "1").reference
LABELS = {
    "spark-spec.image": "serve-llamacpp",
    "org.opencontainers.image.version": "0.1.0",
    "org.opencontainers.image.base.name": "spark-spec/base:bookworm",
}
Here = Callable[..., None]


def facts(
    user: str = "10001", labels: dict[str, str] = LABELS, architecture: str = "arm64"
) -> dict[str, Any]:
    config = {"User": user, "Labels": labels}
    return {"Os": "linux", "Architecture": architecture, "Config": config, "RootFS": {"Layers": ["sha256:a"]}}


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    """Put images on the engine: reference=facts."""

    def put(**images: dict[str, Any]) -> None:
        monkeypatch.setattr(
            records, "inspect", {OURS if name == "ours" else name: one for name, one in images.items()}.get
        )

    return put


def test_what_was_recorded_is_the_same(here: Here, tmp_path: Path) -> None:
    here(ours=facts())
    record(tmp_path, OURS)
    assert verify(OURS, ARM, tmp_path) == Verdict(OURS, "same")


def test_a_difference_from_the_record_is_told(here: Here, tmp_path: Path) -> None:
    here(ours=facts())
    record(tmp_path, OURS)
    here(ours=facts(user="0"))
    assert verify(OURS, ARM, tmp_path) == Verdict(OURS, "differs", ("user: '0', expected '10001'",))


def test_a_rebuild_replaces_the_record(here: Here, tmp_path: Path) -> None:
    for user in ("1", "2"):
        here(ours=facts(user))
        record(tmp_path, OURS)
        assert verify(OURS, ARM, tmp_path).state == "same"


def test_no_record_is_told_as_such(here: Here, tmp_path: Path) -> None:
    here(ours=facts(), other=facts())
    assert verify(OURS, ARM, tmp_path) == Verdict(OURS, "not recorded")
    assert verify("other", ARM, tmp_path).state == "not recorded"
    assert verify("absent", ARM, tmp_path).state == "not here"


def test_another_platform_is_told_before_all_else(here: Here, tmp_path: Path) -> None:
    here(ours=facts(user="0", architecture="amd64"))
    assert verify(OURS, ARM, tmp_path).state == "other platform"
    record(tmp_path, OURS)
    assert verify(OURS, ARM, tmp_path).state == "other platform"
    assert verify(OURS, AMD, tmp_path).state == "same"  # platforms have a record each


@pytest.mark.parametrize(
    ("label", "value", "told"),
    [
        (
            "spark-spec.image",
            "serve-vllm",
            "label spark-spec.image: serve-vllm, its name says serve-llamacpp",
        ),
        ("spark-spec.image", "", "label spark-spec.image: absent"),
        ("org.opencontainers.image.version", "0.0.9", "label org.opencontainers.image.version: 0.0.9"),
        ("org.opencontainers.image.base.name", "evil:1", "label org.opencontainers.image.base.name: evil:1"),
    ],
)
def test_labels_that_deny_the_name_differ_even_without_a_record(
    label: str, value: str, told: str, here: Here, tmp_path: Path
) -> None:
    here(ours=facts(labels=LABELS | {label: value}))
    found = verify(OURS, ARM, tmp_path)
    assert found.state == "differs" and found.differences[0].startswith(told)


@pytest.mark.parametrize("image", list(versions().images))
@pytest.mark.parametrize("named", [None, "registry.example:5000/mine:1"])
def test_the_names_that_we_give_agree_with_the_labels_that_we_set(image: str, named: str | None) -> None:
    name = own(image, "1.3.0rc12", named)
    assert name.base
    labels = {
        "spark-spec.image": image,
        "org.opencontainers.image.version": name.reference.rpartition(":")[2].partition("-")[0],
    }
    for base in filter(None, (name.base.local, name.base.public, f"own.registry/{name.base.public}")):
        found = identity(facts(labels=labels | {"org.opencontainers.image.base.name": base}))
        assert misnamed(name.reference, found) == ()


def test_a_base_by_digest_agrees_too() -> None:
    base = versions().bases["trtllm"].model_copy(update={"digests": {"1": f"sha256:{'ab' * 32}"}})
    image = base_image(base, "1")
    labels = LABELS | {"org.opencontainers.image.base.name": image.public}
    assert (
        misnamed(
            f"spark-spec/serve-llamacpp:0.1.0-{image.short}-0123456789ab", identity(facts(labels=labels))
        )
        == ()
    )


def test_others_images_have_no_such_labels() -> None:
    assert misnamed("vendor/engine:1", identity(facts(labels={}))) == ()


@pytest.mark.parametrize(
    "damage", ["", "{}", "[]", "null", '{"schema": 2}', '{"schema": 1, "platform": "x"}']
)
def test_a_damaged_record_is_not_taken_for_none(damage: str, here: Here, tmp_path: Path) -> None:
    here(ours=facts())
    record(tmp_path, OURS)
    path_of(tmp_path, OURS, ARM).write_text(damage)
    with pytest.raises(MachineFault, match="record") as caught:
        verify(OURS, ARM, tmp_path)
    assert "rm '" in caught.value.fix


def test_a_record_lies_in_one_readable_file(here: Here, tmp_path: Path) -> None:
    here(ours=facts())
    record(tmp_path, OURS)
    (path,) = (tmp_path / "images").iterdir()
    assert json.loads(path.read_text())["layers"] == ["sha256:a"]
    assert recorded(tmp_path, OURS, ARM) == identity(facts())


def test_a_state_folder_that_cannot_be_written_is_said(here: Here, tmp_path: Path) -> None:
    here(ours=facts())
    (tmp_path / "images").write_text("")
    with pytest.raises(MachineFault, match="cannot be written"):
        record(tmp_path, OURS)


@pytest.mark.parametrize(
    ("states", "code"),
    [
        (["same", "same"], None),
        ([], None),
        (["same", "not recorded"], 8),
        (["not recorded", "not here"], 4),
        (["not recorded", "other platform"], 4),
        (["other platform", "not here", "not recorded", "same", "differs"], 9),
    ],
)
def test_the_worst_decides(states: list[module.State], code: int | None) -> None:
    found = fault(Verdict(f"image{number}", state, ("user: '0'",)) for number, state in enumerate(states))
    assert (found.code if found else None) == code
    assert found is None or (found.what and found.why and found.fix)


def test_each_of_several_differences_is_named() -> None:
    found = fault([Verdict("a:1", "differs", ("x", "y")), Verdict("b:1", "differs", ("z",))])
    assert found and found.what.startswith("2 images are not") and found.why == "a:1: x; a:1: y; b:1: z"
