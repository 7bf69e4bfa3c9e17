"""Rendering: the same to the byte, nothing secret in it, and the checked-in stacks are its output."""

import json
from pathlib import Path

import pytest
import yaml

from appliance import engines
from appliance.catalog.preset import names
from appliance.core.errors import ConfigFault
from appliance.core.paths import PACKAGE
from appliance.machine.facts import REFERENCE, Machine, this_machine
from appliance.stack.render import render
from appliance.stack.resolve import resolve
from appliance.supervise import plan
from tests.golden import GOLDEN, golden_files, machine, plain, settings_page

MACHINES = {"docker": machine("docker"), "process": machine("process")}


def stack(*sets: str):  # type: ignore[no-untyped-def]
    return resolve("demo", sets, {}).stack


@pytest.mark.parametrize("path", sorted(golden_files()))
def test_a_checked_in_file_is_what_is_rendered(path: str) -> None:
    """Stale? `make golden` writes them anew; read the difference before you commit it."""
    checked_in = (PACKAGE.parent / path).read_text(encoding="utf-8")
    assert checked_in == golden_files()[path]


def test_no_checked_in_stack_is_left_over() -> None:
    there = {str(file.relative_to(PACKAGE.parent)) for folder in ("compose", GOLDEN) for file in
             (PACKAGE.parent / folder).rglob("*") if file.is_file()}  # fmt: skip
    assert there == set(golden_files())


def test_every_setting_is_documented() -> None:
    assert (PACKAGE.parent / "docs/settings.md").read_text(encoding="utf-8") == settings_page()


CAN = [(preset, kind) for preset in names() for kind in engines.get(plain(preset).stack.engine.name).runtimes]


@pytest.mark.parametrize(("preset", "kind"), CAN)
def test_rendering_twice_gives_the_same_bytes(preset: str, kind: str) -> None:
    one = render(resolve(preset, [], {}).stack, MACHINES[kind], "demo")
    two = render(resolve(preset, [], {}).stack, MACHINES[kind], "demo")
    assert one == two


def test_any_change_is_another_digest() -> None:
    digests = {
        render(stack(*sets), MACHINES["docker"], name).digest
        for sets, name in (
            ((), "demo"),
            ((), "other"),
            (("draft.k=2",), "demo"),
            (("serve.port=8001",), "demo"),
        )
    }
    assert len(digests) == 4
    assert render(stack(), REFERENCE, "demo").digest not in digests


def test_the_manifest_names_each_file_with_its_hash() -> None:
    import hashlib

    rendered = render(stack(), MACHINES["docker"], "demo")
    manifest = json.loads(rendered.files["manifest.json"])
    assert set(manifest["files"]) == set(rendered.files) - {"manifest.json"}
    for path, digest in manifest["files"].items():
        assert hashlib.sha256(rendered.files[path].encode()).hexdigest() == digest


def test_ports_are_on_loopback_and_mounts_in_the_long_form_without_making_folders() -> None:
    compose = yaml.safe_load(render(stack(), MACHINES["docker"], "demo").files["compose.yaml"])
    engine = compose["services"]["engine"]
    assert [port["host_ip"] for port in engine["ports"]] == ["127.0.0.1"]
    for mount in engine["volumes"]:
        assert mount["read_only"] is True
        assert mount["bind"] == {"create_host_path": False}
    assert engine["init"] is True
    assert engine["restart"].startswith("on-failure:")


def test_a_context_longer_than_a_model_can_do_is_refused() -> None:
    with pytest.raises(ConfigFault, match="is more than smollm2-135m-instruct can do"):
        render(stack("serve.max_seq_len=8193"), MACHINES["docker"], "demo")


@pytest.mark.parametrize("preset", [preset for preset, kind in CAN if (preset, "process") not in CAN])
def test_an_engine_of_an_image_is_no_process_here(preset: str) -> None:
    with pytest.raises(ConfigFault, match="does not run as a process"):
        render(plain(preset).stack, MACHINES["process"], "x")


def test_a_local_process_listens_on_loopback_only() -> None:
    files = render(stack(), MACHINES["process"], "demo").files
    assert json.loads(files["engine/llamacpp.json"])["hostnames"] == ["127.0.0.1"]
    assert "compose.yaml" not in files


def test_the_public_name_arrives_exactly_whatever_is_in_it() -> None:
    """Case 2's kind: a dollar is not for compose to expand."""
    for name in ("a$b", "$oauthtoken", "${HOME}", "é 'x' \"y\""):
        files = render(stack(f"serve.name={name}"), MACHINES["docker"], "demo").files
        assert json.loads(files["engine/llamacpp.json"])["model_alias"] == [name]
        assert plan.parse(files["engine/supervise.json"]).chat_body["model"] == name


def test_a_models_folder_with_spaces_and_other_letters_is_rendered_as_it_is() -> None:
    """Case 6."""
    folder = Path("/data/Modèles à moi/k: $x")
    folders = dict.fromkeys(("models", "hub", "harmony"), str(folder))
    text = render(stack(), this_machine("docker", folders, Path("/s"), "none", {}), "demo").files[
        "compose.yaml"
    ]
    source = yaml.safe_load(text)["services"]["engine"]["volumes"][1]["source"]
    assert source.replace("$$", "$") == str(folder)
    files = render(stack(), this_machine("process", folders, Path("/s"), "none", {}), "demo").files
    assert json.loads(files["engine/llamacpp.json"])["model.path"].startswith(f"{folder}/")


def test_a_reference_stack_holds_no_path_of_a_machine() -> None:
    files = render(stack(), REFERENCE, "demo").files
    assert "${SPARK_SPEC_PATHS_MODELS:?" in files["compose.yaml"]
    assert all(str(Path.home()) not in text for text in files.values())


def test_a_token_in_the_environment_is_in_no_rendered_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 3."""
    monkeypatch.setenv("HF_TOKEN", "hf_secret_value")
    for kind in MACHINES.values():
        assert isinstance(kind, Machine)
        assert all("hf_secret_value" not in text for text in render(stack(), kind, "demo").files.values())
