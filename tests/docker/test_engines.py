"""The Spark's presets, walked on a real Docker against stand-ins of their engines.

A stand-in takes the real command line and config, judges both by what is known of the engine's version, goes through
the phases of a start, and answers with llama.cpp's real tokens. What is walked: everything of ours.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.models.harmony import HARMONY
from tests.conftest import Cli
from tests.docker.walks import REVISION, Walk, base_of, vocabulary
from tests.fakes import hub_cache

pytestmark = pytest.mark.engine

Begin = Callable[..., Walk]
TRTLLM, VLLM, SGLANG = ("trtllm", "1.3.0rc12"), ("vllm", "0.32.0"), ("sglang", "0.5.23")
WALKS = {"eagle3": TRTLLM, "draft-target": TRTLLM, "eagle3-vllm": VLLM, "eagle3-sglang": SGLANG}
NAMES = {"draft-target": "nvidia/Llama-3.3-70B-Instruct-FP4"}
GPT_OSS = "openai/gpt-oss-120b"
TOKEN = "hf_walk$oauthtoken_in_no_file"


@pytest.fixture
def begin(cli: Cli, home: Path, free_port: int, models_dir: Path) -> Iterator[Begin]:
    """A walk with its models in the hub cache; what it started is gone afterwards."""
    del models_dir  # the stand-ins carry the demo's models
    vocabulary()

    def walk(preset: str, engine: tuple[str, str] = TRTLLM, *sets: str, **standin: Any) -> Walk:
        made = Walk(cli, home, free_port, preset, base_of(*engine), sets, standin)
        made.models()
        return made

    yield walk


def said(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr


@pytest.mark.parametrize("preset", WALKS)
def test_a_preset_comes_up_verified_under_its_public_name(preset: str, begin: Begin) -> None:
    walk = begin(preset, WALKS[preset])
    done = walk.up(verify=True, HF_TOKEN=TOKEN)
    assert done.returncode == 0, said(done)
    told = json.loads(done.stdout)
    outcomes = {check["name"]: check["outcome"] for check in told["verify"]["checks"]}
    assert set(outcomes.values()) <= {"passed", "not offered"}, outcomes
    assert outcomes["speculation"] == "passed"
    assert [model["id"] for model in walk.ask("/v1/models")["data"]] == [NAMES.get(preset, GPT_OSS)]
    log = walk.log()
    assert "SET TWICE" not in log and "SECRET" not in log and "NOT OFFLINE" not in log
    assert ("loading" in done.stderr) and ("serving" in done.stderr)
    seen = subprocess.run(["docker", "inspect", walk.container()], capture_output=True, text=True, check=True)
    _private(walk, seen.stdout)
    everything = [done.stdout, done.stderr, log, seen.stdout, *_files(walk.home / "state")]
    assert all(TOKEN not in text and "oauthtoken" not in text for text in everything)  # case 3
    assert walk.up().returncode == 0 and json.loads(walk.up().stdout)["adopted"] is True
    walk.down()
    assert walk.cli("status").stdout.count("absent") == 1


def _private(walk: Walk, inspected: str) -> None:
    """Loopback only, nothing writable of the host's, no root, no capability."""
    facts = json.loads(inspected)[0]
    host = facts["HostConfig"]
    assert [one["HostIp"] for bound in host["PortBindings"].values() for one in bound] == ["127.0.0.1"]
    assert all(mount["RW"] is False for mount in facts["Mounts"] if mount["Type"] == "bind")
    sources = {mount["Source"] for mount in facts["Mounts"]}
    assert not {str(walk.hub), str(walk.home)} & sources, "only the models themselves are mounted"
    assert facts["Config"]["User"] == "10001:10001"
    assert host["CapDrop"] == ["ALL"] and host["Privileged"] is False


def _files(folder: Path) -> list[str]:
    return [path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("preset", "version"),
    [
        ("eagle3-original", "spark-single-gpu-dev"),
        ("draft-target-original", "spark-single-gpu-dev"),
        ("eagle3", "1.2.1"),
        ("draft-target", "1.2.1"),
        ("eagle3-v3", "1.4.0rc0"),
        ("draft-target", "1.4.0rc0"),
    ],
)
def test_every_version_gets_its_own_spelling(preset: str, version: str, begin: Begin) -> None:
    """Case 40: the stand-in of each version refuses the other one's."""
    walk = begin(preset, ("trtllm", version), f"engine.version={version}")
    done = walk.up()
    assert done.returncode == 0, said(done)
    assert "SET TWICE" not in walk.log()
    assert walk.ask("/v1/models")["data"][0]["id"] == NAMES.get(preset.removesuffix("-original"), GPT_OSS)
    walk.down()


def test_another_version_than_the_image_s_is_found_out_and_explained(begin: Begin) -> None:
    walk = begin("draft-target", ("trtllm", "1.2.1"), "engine.version=1.4.0rc0")
    done = walk.up()
    assert done.returncode == 6, said(done)
    assert "Invalid decoding type" in done.stderr
    assert "engine.version" in done.stderr
    assert walk.cli("status").stdout.count("absent") == 1


def test_a_base_with_another_s_command_is_found_out(begin: Begin) -> None:
    done = begin("eagle3", VLLM).up()
    assert done.returncode == 6, said(done)
    assert "trtllm-serve" in done.stderr


@pytest.mark.parametrize("preset", ["eagle3", "eagle3-vllm", "eagle3-sglang"])
def test_without_speculation_nothing_of_the_draft_is_left(preset: str, begin: Begin) -> None:
    walk = begin(preset, WALKS[preset])
    done = walk.cli("up", preset, *walk.words(), "--no-spec", "--json", timeout=300)
    assert done.returncode == 0, said(done)
    outcomes = {check["name"]: check["outcome"] for check in json.loads(done.stdout)["verify"]["checks"]}
    assert outcomes["speculation"] == "not offered"
    walk.down()


def test_garbling_a_repeated_token_and_emptied_tool_calls_are_told_apart(begin: Begin) -> None:
    """Case 32."""
    walk = begin("eagle3")
    assert walk.up().returncode == 0
    reasons = {}
    for mood in ("garble", "repeat", "empty-tools"):
        walk.mood(mood)
        done = walk.cli("verify", "eagle3", timeout=120)
        assert done.returncode == 8, said(done)
        reasons[mood] = said(done)
    assert "control token leaked" in reasons["garble"]
    assert "repeats one token" in reasons["repeat"]
    assert "tools" in reasons["empty-tools"] and "no tool call" in reasons["empty-tools"]
    assert (
        "chat         passed" in reasons["empty-tools"]
        or "chat                 passed" in reasons["empty-tools"]
    )
    walk.mood("well")
    assert walk.cli("verify", "eagle3", timeout=120).returncode == 0
    walk.down()


def test_a_start_that_answers_badly_is_told_and_kept_only_where_nothing_ran_before(begin: Begin) -> None:
    walk = begin("eagle3", mood="repeat")
    done = walk.up(verify=True)
    assert done.returncode == 8, said(done)
    assert "repeats one token" in done.stderr
    walk.down()


def test_drafts_that_are_counted_as_nought_are_unknown_and_the_answers_are_asked(begin: Begin) -> None:
    """TensorRT-LLM before PR #17082."""
    walk = begin("eagle3", hide_spec_counters=True)
    done = walk.up(verify=True)
    assert done.returncode == 0, said(done)
    told = json.loads(done.stdout)["verify"]
    assert told["acceptance"]["drafted"] is None and told["acceptance"]["acceptance_length"] > 1
    walk.down()


def test_an_engine_that_takes_requests_and_never_answers_is_wedged(begin: Begin) -> None:
    walk = begin("draft-target", TRTLLM, "health.wedge_s=5", mood="hang")
    done = walk.up()
    assert done.returncode == 7, said(done)
    assert "no token" in done.stderr


def test_a_load_that_stands_still_is_given_up_with_its_phase(begin: Begin) -> None:
    """TensorRT-LLM#14500."""
    walk = begin("draft-target", TRTLLM, "health.stall_s=5", stall_while_loading=True)
    done = walk.up()
    assert done.returncode == 7, said(done)
    assert "loading weights" in done.stderr


def test_a_death_while_loading_is_explained(begin: Begin) -> None:
    line = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    walk = begin("draft-target", die_while_loading={"line": line, "code": 1})
    done = walk.up()
    assert done.returncode == 6, said(done)
    assert "there is not enough memory" in done.stderr and line in done.stderr


def test_a_ready_engine_that_dies_is_started_again_and_its_counters_begin_anew(begin: Begin) -> None:
    walk = begin("draft-target")
    assert walk.up().returncode == 0
    walk.mood("die")
    with pytest.raises(OSError):
        walk.ask("/v1/chat/completions", {"model": NAMES["draft-target"], "max_tokens": 1,
                                          "messages": [{"role": "user", "content": "Hello"}]})  # fmt: skip
    assert walk.up().returncode == 0  # adopts it, and waits for its next start
    told = json.loads(walk.cli("status", "--json").stdout)[0]
    assert (told["state"], told["engine_starts"]) == ("ready", 2)
    walk.down()


def test_the_vocabulary_is_looked_for_before_anything_is_loaded(begin: Begin, tmp_path: Path) -> None:
    """Case 20: absent, in the wrong folder, of the wrong content."""
    walk = begin("eagle3")
    for folder, code in ((tmp_path / "empty", 5), (tmp_path / "wrong", 9)):
        folder.mkdir()
        if folder.name == "wrong":
            for name in HARMONY:
                (folder / name).write_text("IQ== 0\n")
        words = [word.replace(str(vocabulary()), str(folder)) for word in walk.words()]
        done = walk.cli("up", "eagle3", *words)
        assert done.returncode == code, said(done)
        assert "o200k_base.tiktoken" in done.stderr and "curl" in done.stderr
        assert "docker compose" not in done.stderr


@pytest.mark.parametrize("missing", ["model", "weights", "blob"])
def test_a_model_that_is_not_whole_is_named_with_the_command_that_gets_it(missing: str, begin: Begin) -> None:
    walk = begin("draft-target")
    folder = walk.hub / "models--nvidia--Llama-3.1-8B-Instruct-FP4"
    if missing == "model":
        folder.rename(folder.with_name("elsewhere"))
    elif missing == "weights":
        (folder / "snapshots" / REVISION / "model.safetensors").unlink()
    else:
        (folder / "snapshots" / REVISION / "model.safetensors").resolve().unlink()
    done = walk.up()
    assert done.returncode == 5, said(done)
    assert "the model nvidia/Llama-3.1-8B-Instruct-FP4 is not here" in done.stderr
    assert "spark-spec models pull draft-target" in done.stderr


def test_a_release_stays_with_the_revision_it_was_made_with(begin: Begin) -> None:
    walk = begin("draft-target")
    assert walk.up().returncode == 0
    newer = "f" * 40
    hub_cache.make(walk.hub, NAMES["draft-target"], config=hub_cache.LLAMA_33_70B_FP4, revision=newer)
    assert walk.cli("restart", "draft-target", timeout=300).returncode == 0
    place = f"/var/lib/spark-spec/models/{NAMES['draft-target']}"
    seen = subprocess.run(["docker", "exec", walk.container(), "readlink", place],
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert seen.stdout.strip().endswith(REVISION)
    walk.down()


def test_the_user_in_the_container_can_be_root_where_an_engine_needs_it(begin: Begin) -> None:
    walk = begin("draft-target", TRTLLM, "docker.user=0:0")
    done = walk.up()
    assert done.returncode == 0, said(done)
    walk.down()


def test_a_checked_in_stack_runs_without_the_launcher(begin: Begin, tmp_path: Path) -> None:
    """`docker compose up` in a rendered folder, with the two variables it names."""
    walk = begin("eagle3", TRTLLM, "docker.gpu=none")
    walk.sets = ()
    out = tmp_path / "rendered"
    words = [
        "--set",
        f"docker.base={walk.base}",
        "--set",
        "docker.gpu=none",
        "--set",
        f"serve.port={walk.port}",
    ]
    built = walk.cli("images", "build", "eagle3", *words, timeout=300)
    assert built.returncode == 0, said(built)
    assert walk.cli("render", "eagle3", "-o", str(out), "--reference", *words).returncode == 0
    compose = ["docker", "compose", "--file", str(out / "compose.yaml"), "--project-name", "walk-compose"]
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(walk.home),
                   "HF_HOME": str(walk.hub.parent), "SPARK_SPEC_PATHS_HARMONY": str(vocabulary())}  # fmt: skip
    try:
        up = subprocess.run([*compose, "up", "--detach", "--wait", "--wait-timeout", "120"], capture_output=True,
                            text=True, env=environment, check=False, timeout=180)  # fmt: skip
        assert up.returncode == 0, up.stderr
        assert walk.ask("/v1/models")["data"][0]["id"] == GPT_OSS
    finally:
        subprocess.run([*compose, "down", "--volumes"], capture_output=True, env=environment, check=False)
