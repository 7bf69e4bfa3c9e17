"""The embedded engine's tables and its launch: pure, and told by the live engine's own lines."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from appliance import engines
from appliance.catalog.stack import Stack
from appliance.core.errors import ConfigFault
from appliance.engines import diagnose
from appliance.engines.base import Launch, Place
from appliance.engines.llamacpp import ENGINE, VERSION
from appliance.stack.check import check, pair_of

PLACE = Place(
    python="/opt/py/bin/python",
    programs="/opt/spark-spec/programs",
    config="/etc/spark-spec",
    state="/var/lib/spark-spec",
    target="/models/Größe x/target.gguf",
    draft="/models/draft.gguf",
    host="0.0.0.0",
    port=8000,
)


def stack(**sections: dict[str, Any]) -> Stack:
    base: dict[str, Any] = {
        "preset": "demo",
        "engine": {"name": "llamacpp"},
        "target": {"model": "smollm2-135m-instruct"},
        "serve": {"name": "Public/Name", "max_seq_len": 2048},
        "draft": {"method": "draft-target", "model": "smollm2-135m-drop4", "k": 3},
    }
    return Stack.model_validate(base | sections)


def settings(of: Stack, place: Place = PLACE) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(ENGINE.launch(of, pair_of(of), place).files["llamacpp.json"])
    return loaded


def launched() -> Launch:
    return ENGINE.launch(stack(), pair_of(stack()), PLACE)


def test_engines_are_found_by_name() -> None:
    assert engines.get("llamacpp") is ENGINE
    with pytest.raises(ConfigFault, match="lamacpp"):
        engines.get("lamacpp")


def test_the_version_is_the_one_the_project_pins() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert f"xllamacpp=={VERSION}" in project["project"]["optional-dependencies"]["local"]
    assert ENGINE.version(stack()) == VERSION


def test_the_program_is_run_by_path_with_its_settings_file() -> None:
    launch = launched()
    program = "/opt/spark-spec/programs/llamacpp_program.py"
    assert launch.argv == ("/opt/py/bin/python", program, "llamacpp.json")
    assert launch.files["llamacpp.json"].endswith("}\n")
    assert launch.env == {"GOMP_SPINCOUNT": "1000"}
    assert launch == launched()


def test_the_settings_say_what_is_served_where_and_under_which_name() -> None:
    found = settings(stack())
    assert found["model.path"] == "/models/Größe x/target.gguf"
    assert found["model_alias"] == ["Public/Name"]
    assert (found["hostnames"], found["port"]) == (["0.0.0.0"], 8000)
    assert found["endpoint_metrics"] is True
    assert found["ui"] is False
    assert found["offline"] is True


def test_every_slot_has_the_whole_context() -> None:
    found = settings(stack(serve={"name": "n", "max_seq_len": 1000, "max_batch_size": 3}))
    assert (found["n_ctx"], found["n_parallel"]) == (3000, 3)


def test_a_draft_is_set_with_its_length() -> None:
    found = settings(stack())
    assert found["speculative.types"] == ["DRAFT_SIMPLE"]
    assert found["speculative.draft.mparams.path"] == "/models/draft.gguf"
    assert found["speculative.draft.n_max"] == 3


def test_without_a_draft_nothing_of_it_is_said() -> None:
    found = settings(stack(draft={"method": "none"}))
    assert not [name for name in found if name.startswith("speculative")]


def test_threads_are_for_both_models_or_left_to_the_program() -> None:
    names = {"cpuparams.n_threads", "speculative.draft.cpuparams.n_threads"}
    assert not names & settings(stack()).keys()
    found = settings(stack(llamacpp={"threads": 5}))
    assert [found[name] for name in names] == [5, 5]


LOAD = {
    "0.00.002.474 I srv    load_model: loading model '/m/Größe x/Smol.Q4_1.gguf'": "loading Smol.Q4_1.gguf",
    "0.01.293.405 I common_speculative_init_result: loading draft model 'd.gguf'": "loading the draft d.gguf",
    "0.04.797.547 I srv    load_model: initializing, n_slots = 2, n_ctx_slot = 2048, kv_unified = 'false'": (
        "preparing 2 x 2048 tokens"
    ),
    "0.07.078.405 I srv          init: model loaded": "loaded",
}


@pytest.mark.parametrize("line", LOAD)
def test_the_lines_of_a_load_are_phases(line: str) -> None:
    matches = ((re.search(phase.pattern, line), phase.phase) for phase in ENGINE.phases)
    assert [match.expand(text) for match, text in matches if match] == [LOAD[line]]


FATAL = {
    "E srv         start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 18202": "port",
    "E gguf_init_from_file: failed to open GGUF file '/x.gguf' (No such file or directory)": "not there",
    "E gguf_init_from_file: failed to open GGUF file '/x.gguf' (Permission denied)": "may not be read",
    "E llama_init_from_model: failed to initialize the context: n_seq_max must be <= 256": "at once",
    "E gguf_init_from_reader: invalid magic characters: 'hell', expected 'GGUF'": "damaged",
    "E gguf_init_from_reader: failed to read magic": "damaged",
    "E llama_model_load: error loading model: tensor 'blk.16.ffn_down.weight' data is not within the file "
    "bounds, model is corrupted or incomplete": "damaged",
    "E spec common_specu: the target and draft vocabs are not compatible": "tokenizer",
    "E ggml_aligned_malloc: insufficient memory (attempted to allocate 1757812.50 MB)": "memory",
    "the engine was ended by SIGKILL": "memory",
    "the engine was ended by SIGILL": "processor",
    "llamacpp_program: No module named 'xllamacpp'": "not installed",
    "llamacpp_program: unknown parameter model.pth: no attribute": "parameter",
}


@pytest.mark.parametrize("line", FATAL)
def test_a_known_death_is_told_in_words(line: str) -> None:
    death = diagnose(["starting", line, "srv init: exiting due to model loading error"], ENGINE.deaths)
    assert death is not None
    assert FATAL[line] in death.why
    assert death.fix


def test_an_unknown_death_has_no_diagnosis() -> None:
    assert diagnose([*LOAD, "Segmentation fault"], ENGINE.deaths) is None
    assert diagnose([], ENGINE.deaths) is None


def test_another_version_or_no_context_is_refused() -> None:
    with pytest.raises(ConfigFault, match=r"there is no llama\.cpp 1\.2\.1"):
        check(stack(engine={"name": "llamacpp", "version": "1.2.1"}))
    with pytest.raises(ConfigFault, match="max_seq_len"):
        check(stack(serve={"name": "n", "max_seq_len": None}))
