"""What runs in an engine's image, run here against engines of a few lines with real parsers and models."""

import argparse
import json
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict, Field
from pydantic.dataclasses import dataclass

from appliance.images import options_inside as module
from appliance.images.options_inside import MARK, from_parser, main

Put = Callable[..., None]


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Put:
    """Put a module of an engine where it is imported from."""

    def put(name: str, **content: Any) -> None:
        made = ModuleType(name)
        made.__path__ = []
        vars(made).update(content)
        monkeypatch.setitem(sys.modules, name, made)

    versions = {"tensorrt_llm": "1.3.0rc12", "vllm": "0.30.1", "sglang": "0.5.4"}

    def version(name: str) -> str:
        if name not in versions:
            raise PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(module, "version", version)
    return put


def told(capsys: pytest.CaptureFixture[str], engine: str) -> dict[str, Any]:
    main(engine)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(MARK)
    content: dict[str, Any] = json.loads(last.removeprefix(MARK))
    Draft202012Validator.check_schema(content["options"])
    return content


def test_each_kind_of_option() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?")
    parser.add_argument("--version", action="version")
    parser.add_argument("-n", "--max-num-seqs", type=int)
    parser.add_argument("--fraction", type=float)
    parser.add_argument("--name")
    parser.add_argument("--dtype", choices=["auto", "fp8"])
    parser.add_argument("--trust", action="store_true")
    parser.add_argument("--prefix-caching", action=argparse.BooleanOptionalAction)
    parser.add_argument("--middleware", action="append")
    parser.add_argument("--served-model-name", nargs="+")
    parser.add_argument("--config", type=json.loads)
    schema = from_parser(parser)
    assert schema["additionalProperties"] is False
    assert schema["properties"] == {
        "max_num_seqs": {"type": ["integer", "null"]},
        "fraction": {"type": ["number", "null"]},
        "name": {"type": ["string", "null"]},
        "dtype": {"enum": ["auto", "fp8", None]},
        "trust": {"type": "boolean", "x-argument": "flag"},
        "prefix_caching": {"type": ["boolean", "null"], "x-argument": "pair"},
        "middleware": {
            "type": ["array", "null"],
            "items": {"type": ["string", "null"]},
            "x-argument": "append",
        },
        "served_model_name": {
            "type": ["array", "null"],
            "items": {"type": ["string", "null"]},
            "x-argument": "many",
        },
        "config": {"x-argument": "json"},
    }


class Graphs(BaseModel):
    model_config = ConfigDict(extra="forbid")
    title: str = ""
    padding: bool = Field(default=False, description="whether")


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    graphs: Graphs | None = None
    hook: Callable[[int], int] | None = None


def test_tensorrt_llm_is_asked_for_its_model(
    put: Put, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put("tensorrt_llm")
    put("tensorrt_llm.llmapi")
    put("tensorrt_llm.llmapi.llm_args", TorchLlmArgs=Arguments)
    found = type("Spec", (), {"submodule_search_locations": ["/nowhere"]})
    monkeypatch.setattr(module, "find_spec", lambda _: found)
    content = told(capsys, "trtllm")
    assert content["version"] == "1.3.0rc12"
    options = content["options"]
    assert set(options["properties"]) == {"graphs", "hook"} and options["additionalProperties"] is False
    graphs = options["$defs"]["Graphs"]
    assert set(graphs["properties"]) == {"title", "padding"}
    assert "description" not in graphs["properties"]["padding"] and "title" not in graphs


def test_tensorrt_llm_s_own_schema_file_comes_first(
    put: Put, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put("tensorrt_llm")
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "trtllm-serve-config.schema.json").write_text(
        '{"type": "object", "properties": {"a": {}}}'
    )
    found = type("Spec", (), {"submodule_search_locations": [str(tmp_path)]})
    monkeypatch.setattr(module, "find_spec", lambda _: found)
    assert told(capsys, "trtllm")["options"]["properties"] == {"a": {}}


@dataclass(config=ConfigDict(extra="forbid"))
class Speculative:
    method: Literal["eagle3", "draft_model"] | None = None
    num_speculative_tokens: int | None = None


@pytest.mark.parametrize(
    ("parsers", "classes"),
    [("vllm.entrypoints.launchers", "vllm.utils.argparse_utils"), ("vllm.entrypoints.openai", "vllm.utils")],
)
def test_vllm_is_asked_wherever_its_parser_is(
    parsers: str, classes: str, put: Put, capsys: pytest.CaptureFixture[str]
) -> None:
    def make(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
        parser.add_argument("--max-model-len", type=int)
        parser.add_argument("--speculative-config", type=json.loads)
        return parser

    for name in ("vllm", "vllm.utils", "vllm.entrypoints", parsers):
        put(name)
    put("vllm.config", SpeculativeConfig=Speculative)
    put(f"{parsers}.cli_args", make_arg_parser=make)
    put(classes, FlexibleArgumentParser=argparse.ArgumentParser)
    content = told(capsys, "vllm")
    assert content["version"] == "0.30.1"
    assert set(content["options"]["properties"]) == {"max_model_len", "speculative_config"}
    assert set(content["options"]["$defs"]["SpeculativeConfig"]["properties"]) == {
        "method",
        "num_speculative_tokens",
    }


def test_sglang_is_asked_for_its_parser(put: Put, capsys: pytest.CaptureFixture[str]) -> None:
    class ServerArgs:
        @staticmethod
        def add_cli_args(parser: argparse.ArgumentParser) -> None:
            parser.add_argument("--speculative-num-steps", type=int)

    for name in ("sglang", "sglang.srt"):
        put(name)
    put("sglang.srt.server_args", ServerArgs=ServerArgs)
    content = told(capsys, "sglang")
    assert (content["version"], set(content["options"]["properties"])) == ("0.5.4", {"speculative_num_steps"})


@pytest.mark.parametrize("engine", ["trtllm", "vllm", "sglang"])
def test_an_engine_that_is_not_there_is_an_error(engine: str) -> None:
    with pytest.raises(ImportError):
        main(engine)
