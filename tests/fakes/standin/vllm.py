"""`vllm serve`: argparse with the real options."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import yaml
from standin import hub
from standin.facts import Refused, load
from standin.life import look_at_environment, read_plan, say, set_twice, traceback
from standin.options import dest, out_of_bounds, parser, twice
from standin.start import run
from standin.trtllm_words import heading, problem
from standin.vllm_config import judge, merged, read_draft
from standin.vllm_service import Vllm

PROGRAM = "/usr/local/bin/vllm"
USAGE = "vllm serve [model_tag] [options]"


def all_options() -> list[dict[str, Any]]:
    return [option for group in load("vllm-serve.json")["options"].values() for option in group]


def normalized(argv: Sequence[str]) -> list[str]:
    """Underscores and dashes are the same in long flags; dotted keys gather into the JSON of their option."""
    words: list[str] = []
    gathered: dict[str, dict[str, Any]] = {}
    rest = iter(argv)
    for word in rest:
        flag, equals, value = word.partition("=")
        if not flag.startswith("--"):
            words.append(word)
            continue
        name, _, key = flag.partition(".")
        name = name.replace("_", "-")
        if not key:
            words.append(f"{name}{equals}{value}")
            continue
        text = value if equals else next(rest, "")
        try:
            parsed = json.loads(text)
        except ValueError:
            parsed = text
        inner = gathered.setdefault(name, {})
        *path, last = key.split(".")
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = parsed
    return words + [word for name, value in gathered.items() for word in (name, json.dumps(value))]


def with_file(argv: list[str]) -> list[str]:
    """What a --config file says, before the command line, which wins."""
    if "--config" not in argv:
        return argv
    at = argv.index("--config")
    said = yaml.safe_load(Path(argv[at + 1]).read_text(encoding="utf-8")) or {}
    words: list[str] = []
    for key, value in said.items():
        name = f"--{key.replace('_', '-')}"
        if isinstance(value, bool):
            words += [name] if value else []
        else:
            words += [name, json.dumps(value) if isinstance(value, dict | list) else str(value)]
    model = [words.pop(words.index("--model") + 1)] if "--model" in words else []
    words = [word for word in words if word != "--model"]
    return [*model, *words, *argv[:at], *argv[at + 2 :]]


def main() -> NoReturn:
    if sys.argv[1:2] != ["serve"]:
        print(
            "usage: vllm [-h] [-v] {chat,complete,serve,bench,collect-env,run-batch} ...\n"
            f"vllm: error: argument subparser: invalid choice: {sys.argv[1:2]}",
            file=sys.stderr,
        )
        sys.exit(2)
    argv = with_file(normalized(sys.argv[2:]))
    made = parser("vllm serve", USAGE, all_options())
    parsed = vars(made.parse_args(argv))
    look_at_environment()
    set_twice(twice(made, argv))
    for name in ("api_key", "hf_token"):
        if parsed[name]:
            say(f"standin: SECRET IN ARGV --{name.replace('_', '-')}")
    if parsed["enable_auto_tool_choice"] and not parsed["tool_call_parser"]:
        traceback(PROGRAM, "TypeError: Error: --enable-auto-tool-choice requires --tool-call-parser")
        sys.exit(1)
    try:
        engine = _engine(parsed)
    except Refused as refused:
        traceback(PROGRAM, str(refused))
        sys.exit(refused.code)
    host, port = parsed["host"] or "0.0.0.0", parsed["port"]
    version, shards = load("vllm-serve.json")["package"]["version"], ("0", "50", "100")
    try:
        run(
            engine, host, port,
            loading=[
                f"INFO [api_server.py:1839] vLLM API server version {version}",
                *(f"Loading safetensors checkpoint shards: {part:>3}% Completed | {done}/2"
                  for done, part in enumerate(shards)),
                "INFO [default_loader.py:267] Loading weights took 12.34 seconds",
            ],
            loaded=[
                "INFO [gpu_worker.py:298] Available KV cache memory: 30.00 GiB",
                "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|##########| 3/3",
                "INFO [gpu_model_runner.py:3118] Graph capturing finished in 3 secs, took 0.10 GiB",
            ],
            at_ready=[
                f"INFO:     Started server process [{os.getpid()}]", "INFO:     Waiting for application startup.",
                "INFO:     Application startup complete.",
            ],
            code=0,
        )  # fmt: skip
    except OSError as error:
        traceback(PROGRAM, f"OSError: {error}")
        sys.exit(1)


def _engine(parsed: dict[str, Any]) -> Vllm:
    """Everything that the engine checks before it loads. Raises Refused."""
    found = []
    for option in all_options():
        if "flags" in option and "bounds" in option:
            name = dest(option)
            bad = out_of_bounds(parsed[name], option["bounds"])
            found += [problem([name], *bad, parsed[name])] if bad else []
    for name in ("reasoning_parser", "tool_call_parser"):
        known = load("vllm-serve.json")["value_lists"][name]
        if parsed[name] and parsed[name] not in known:
            raise Refused(
                f'KeyError: "invalid {name.replace("_", " ")}: {parsed[name]} (chose from {{ {",".join(known)} }})"'
            )
    if found:
        raise Refused(heading(found, "EngineArgs"))
    model = parsed["model_tag"]
    if model is None:
        if parsed["served_model_name"]:
            raise Refused(
                "ValueError: With `vllm serve`, you should provide the model as a positional argument"
            )
        model = load("vllm-serve.json")["cli"]["default_model"]
    folder = hub.resolve(model, parsed["revision"])
    config = hub.read_config(folder)
    hub.read_weights(folder)
    hub.read_tokenizer(folder)
    speculative = merged(parsed)
    if speculative:
        judge(speculative)
        read_draft(speculative, config)
    names = parsed["served_model_name"] or [model]
    return Vllm(
        list(names), int((speculative or {}).get("num_speculative_tokens") or 0), read_plan(folder), parsed
    )


if __name__ == "__main__":
    main()
