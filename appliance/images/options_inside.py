"""Runs inside an engine's image, by its own Python: prints the engine's version and a JSON Schema of what it takes.

Standard library and the engine alone. TensorRT-LLM brings such a schema of its config file, or a pydantic model that
tells it; vLLM and SGLang have a command line's parser, whose options become properties as engines/options.py
reads them: keys are known in full, values as far as the parser tells.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MARK = "spark-spec-options: "
DIALECT = "https://json-schema.org/draft/2020-12/schema"
DISTRIBUTIONS = {"trtllm": ("tensorrt_llm", "tensorrt-llm"), "vllm": ("vllm",), "sglang": ("sglang",)}
# Where a name was in one version or another, the newest first.
VLLM_PARSERS = ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args")
VLLM_CLASSES = ("vllm.utils.argparse_utils", "vllm.utils")
TYPES: dict[Any, str] = {int: "integer", float: "number", str: "string"}


def trtllm() -> dict[str, Any]:
    """The schema it ships, else that of its arguments' model."""
    found = find_spec("tensorrt_llm")
    if found is None:
        raise ImportError("No module named 'tensorrt_llm'")
    for root in found.submodule_search_locations or ():
        shipped = Path(root, "schemas", "trtllm-serve-config.schema.json")
        if shipped.is_file():
            shipped_schema: dict[str, Any] = json.loads(shipped.read_text(encoding="utf-8"))
            return shipped_schema
    return described(import_module("tensorrt_llm.llmapi.llm_args").TorchLlmArgs)


def vllm() -> dict[str, Any]:
    """Its parser's options, with the fields of the speculative config."""
    parser = first(VLLM_PARSERS, "make_arg_parser")(first(VLLM_CLASSES, "FlexibleArgumentParser")())
    schema = from_parser(parser)
    try:
        inner = described(import_module("vllm.config").SpeculativeConfig)
    except Exception:  # noqa: BLE001 - whatever it is there: the option stays known, without its fields
        return schema
    schema["$defs"] = {**inner.pop("$defs", {}), "SpeculativeConfig": inner}
    reference = {"$ref": "#/$defs/SpeculativeConfig"}
    text = {"type": "string", "contentMediaType": "application/json", "contentSchema": reference}
    schema["properties"]["speculative_config"] = {
        "anyOf": [reference, text, {"type": "null"}],
        "x-argument": "json",
    }
    return schema


def sglang() -> dict[str, Any]:
    """Its parser's options."""
    parser = argparse.ArgumentParser()
    import_module("sglang.srt.server_args").ServerArgs.add_cli_args(parser)
    return from_parser(parser)


def first(modules: tuple[str, ...], name: str) -> Any:
    """A name of the first module that has it."""
    missed = []
    for module in modules:
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError) as error:
            missed.append(str(error))
    raise ImportError(f"{name} is nowhere: {'; '.join(missed)}")


def described(model: Any) -> dict[str, Any]:
    """The schema of a pydantic model or dataclass; what JSON cannot say is anything."""
    from pydantic import TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema

    class Lenient(GenerateJsonSchema):
        def handle_invalid_for_json_schema(self, *_: Any) -> dict[str, Any]:
            return {}

    schema: dict[str, Any] = TypeAdapter(model).json_schema(schema_generator=Lenient)
    return schema


def from_parser(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """A schema of a parser's options, by the names their long options have."""
    found = {}
    for action in parser._actions:
        long = [one[2:] for one in action.option_strings if one.startswith("--")]
        if long and not isinstance(action, (argparse._HelpAction, argparse._VersionAction)):
            found[long[0].replace("-", "_")] = property_of(action)
    return {"type": "object", "additionalProperties": False, "properties": found}


def property_of(action: argparse.Action) -> dict[str, Any]:
    """What one option takes."""
    if isinstance(action, argparse.BooleanOptionalAction):
        return {"type": ["boolean", "null"], "x-argument": "pair"}
    if action.nargs == 0:
        return {"type": "boolean", "x-argument": "flag"}
    item = value_of(action)
    if isinstance(action, argparse._AppendAction):
        return {"type": ["array", "null"], "items": item, "x-argument": "append"}
    if action.nargs in ("+", "*") or isinstance(action.nargs, int):
        return {"type": ["array", "null"], "items": item, "x-argument": "many"}
    return item


def value_of(action: argparse.Action) -> dict[str, Any]:
    """What one value may be: only what the parser itself holds it to."""
    if action.choices is not None:
        return {"enum": [*map(plain, action.choices), None]}
    kind = TYPES.get(action.type or str)
    return {"type": [kind, "null"]} if kind else {"x-argument": "json"}


def plain(choice: object) -> str | int | float | bool:
    """A choice as JSON has it."""
    return choice if isinstance(choice, (str, int, float, bool)) else str(choice)


def without_words(schema: Any) -> Any:
    """The same without titles and descriptions: nobody is shown them."""
    if isinstance(schema, list):
        return [without_words(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    words = ("title", "description")
    return {
        key: without_words(one) for key, one in schema.items() if key not in words or not isinstance(one, str)
    }


def installed(engine: str) -> str:
    """The engine's version. Raises LookupError where its distribution is not found."""
    for name in DISTRIBUTIONS[engine]:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    raise LookupError(f"no distribution named {' or '.join(DISTRIBUTIONS[engine])}")


def main(engine: str) -> None:
    schema = {"trtllm": trtllm, "vllm": vllm, "sglang": sglang}[engine]()
    told = {"version": installed(engine), "options": {"$schema": DIALECT, **without_words(schema)}}
    print(f"\n{MARK}{json.dumps(told)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
