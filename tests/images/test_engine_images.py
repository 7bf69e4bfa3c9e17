"""The images that stand on an engine's own: only files are added, nothing of the base is run to build them."""

import re
from pathlib import Path

import pytest

from appliance.images.build import lay_out
from appliance.images.versions import dockerfile, versions
from tests.images.conftest import Ear

IMAGES = ["serve-sglang", "serve-trtllm", "serve-vllm"]
OURS = "10001:10001"


def instructions(image: str) -> list[tuple[str, str]]:
    """(word, rest) of each instruction, with its continued lines."""
    text = re.sub(r"^#.*\n", "", dockerfile(image).read_text(encoding="utf-8"), flags=re.M)
    lines = text.replace("\\\n", " ").splitlines()
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines if line.strip())]


def test_they_share_one_recipe() -> None:
    assert (
        sorted(name for name, one in versions().images.items() if one.dockerfile == "serve-engine") == IMAGES
    )


@pytest.mark.parametrize("image", IMAGES)
def test_nothing_is_run_and_only_copies_touch_the_base(image: str) -> None:
    words = {word for word, _ in instructions(image)}
    assert words == {
        "ARG",
        "FROM",
        "COPY",
        "ENV",
        "USER",
        "WORKDIR",
        "HEALTHCHECK",
        "ENTRYPOINT",
        "CMD",
    }


@pytest.mark.parametrize("image", IMAGES)
def test_the_base_is_the_builders_choice(image: str) -> None:
    assert [rest for word, rest in instructions(image) if word == "FROM"] == ["${BASE}"]


@pytest.mark.parametrize("image", IMAGES)
def test_it_runs_as_a_user_of_no_rights_under_our_supervisor(image: str) -> None:
    told = dict(instructions(image))
    assert told["USER"] == OURS
    assert told["ENTRYPOINT"] == '["python3", "-m", "appliance.supervise"]'
    assert told["CMD"] == '["/etc/spark-spec/supervise.json", "--state", "/var/lib/spark-spec"]'
    assert told["WORKDIR"] == "/var/lib/spark-spec"
    assert "appliance.supervise.healthcheck" in told["HEALTHCHECK"]


@pytest.mark.parametrize("image", IMAGES)
def test_what_the_base_has_on_its_pythonpath_stays(image: str) -> None:
    assert "PYTHONPATH=/opt/spark-spec${PYTHONPATH:+:$PYTHONPATH} " in dict(instructions(image))["ENV"]


@pytest.mark.parametrize("image", IMAGES)
def test_what_is_copied_is_in_the_context_and_the_state_folder_is_anyones(
    image: str, tmp_path: Path, ear: Ear
) -> None:
    """The state folder itself is an item in state/: a folder that COPY makes as its target keeps to root's mode,
    and then root without rights (docker.user=0:0) could not write to it."""
    lay_out(image, "linux/arm64", tmp_path, ear)
    context = tmp_path / "context"
    copies = [rest.split() for word, rest in instructions(image) if word == "COPY"]
    assert copies == [
        ["program/", "/opt/spark-spec/"],
        [f"--chown={OURS}", "--chmod=0777", "state/", "/var/lib/"],
    ]
    assert (context / "program/appliance/supervise/__main__.py").is_file()
    assert [path.name for path in (context / "state").rglob("*")] == ["spark-spec"]
    assert (context / "state" / "spark-spec").is_dir()
