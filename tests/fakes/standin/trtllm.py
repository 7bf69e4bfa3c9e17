"""`trtllm-serve`: a real Click command line, as the engine's own is."""

import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import click
from click.core import ParameterSource
from standin import hub
from standin.facts import Refused, load
from standin.life import look_at_environment, read_plan, say, set_twice, traceback
from standin.start import run
from standin.trtllm_config import draft_len, judge, read, read_draft
from standin.trtllm_service import TrtLlm
from standin.trtllm_versions import SPARK, V12, options, version

PROGRAM = "/usr/local/bin/trtllm-serve"
EXIT_AT_SIGTERM = 128 + 15
KINDS: dict[str, Any] = {"str": str, "int": int, "float": float, "bool": bool}
# Options that say the same as a key of the config file under another name.
SAME: dict[str, tuple[str, ...]] = {
    "free_gpu_memory_fraction": ("kv_cache_config.free_gpu_memory_fraction",),
    "kv_cache_dtype": ("kv_cache_config.dtype",),
    "telemetry": ("telemetry_config.disabled",),
    "revision": ("revision", "hf_revision"),
}
WEIGHTS = 1288


class Words:
    """Says what Click said of an unknown option before 8.5, as the engine's images have it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)  # type: ignore[misc, no-any-return]
        except click.NoSuchOption as error:
            near = sorted(error.possibilities or ())
            hint = (
                f" Did you mean {near[0]}?"
                if len(near) == 1
                else f" (Possible options: {', '.join(near)})"
                if near
                else ""
            )
            raise click.UsageError(f"No such option: {error.option_name}{hint}", ctx) from None


class Command(Words, click.Command):
    """A sub-command."""


class DefaultGroup(Words, click.Group):
    """Without the name of a sub-command it is `serve`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args or args[0] not in self.commands:
            return "serve", self.commands["serve"], args
        return super().resolve_command(ctx, args)


def _click_options(known: dict[str, dict[str, Any]]) -> list[click.Parameter]:
    made: list[click.Parameter] = []
    for name, option in known.items():
        flags = option["flags"]
        if option["is_flag"]:
            pair = [flag for flag in flags if flag.startswith("--no-")]
            flags = [f"{next(f for f in flags if f not in pair)}/{pair[0]}"] if pair else flags
            made.append(click.Option([*flags, name], is_flag=True, default=option["default"]))
            continue
        kind = (
            click.Choice(option["choices"])
            if option["type"] == "Choice"
            else KINDS.get(option["type"], click.Path(exists=True))
        )
        made.append(
            click.Option(
                [*flags, name],
                type=kind,
                default=option["default"],
                multiple=option["multiple"],
                required=option["required"],
            )
        )
    return made


def _other(name: str) -> click.Command:
    def refuse(**_: Any) -> NoReturn:
        sys.exit(f"standin: {name} is not stood in for")

    params = _click_options(load("serve-cli.json")["commands"][name])
    return Command(name, params=params, callback=refuse)


def serve(model: str, **given: Any) -> NoReturn:
    """Check everything, then load and serve. Its words and exit codes are the engine's."""
    look_at_environment()
    try:
        engine = _engine(model, given)
    except Refused as refused:
        traceback(PROGRAM, str(refused))
        sys.exit(refused.code)
    ready = [
        f"INFO:     Started server process [{os.getpid()}]",
        "INFO:     Waiting for application startup.",
        "INFO:     Application startup complete.",
        f"INFO:     Uvicorn running on http://{given['host']}:{given['port']} (Press CTRL+C to quit)",
    ]
    try:
        run(
            engine, given["host"], given["port"],
            loading=[f"Loading weights: {done}/{WEIGHTS}" for done in (0, 12, 322, 644, 1288)],
            loaded=_warm_up(engine.config),
            at_ready=ready, code=EXIT_AT_SIGTERM,
        )  # fmt: skip
    except OSError as error:
        traceback(PROGRAM, f"RuntimeError: Failed to bind socket to {given['host']}:{given['port']}: {error}")
        sys.exit(1)


def _warm_up(config: dict[str, Any]) -> list[str]:
    """What it logs between the weights and the first request."""
    lines = ["[TRT-LLM] [I] Allocated 4.50 GiB for max tokens in paged KV cache (36864)."]
    if config.get("enable_autotuner", True):
        lines += [f"[TRT-LLM] [I] [Autotuner] Autotuning process {word}" for word in ("starts ...", "ends")]
    if config.get("cuda_graph_config", {}) is not None:
        lines += [
            "[TRT-LLM] [I] Creating CUDA graph instances for 1 batch sizes.",
            "[TRT-LLM] [I] Capturing CUDA graph for batch size=1",
        ]
    return lines


def _engine(model: str, given: dict[str, Any]) -> TrtLlm:
    """Everything that the engine checks before it loads. Raises Refused."""
    current = version()
    path = given["extra_llm_api_options"]
    config, twice = read(Path(path)) if path else ({}, [])
    set_twice([*twice, *_twice_in_argv(current), *_twice(config)])
    judge(current, config)
    if not hub.offline() and not Path(model).is_dir():
        say("standin: NOT OFFLINE the engine would ask the hub")
    folder = hub.resolve(model, given.get("revision") or config.get("hf_revision"))
    architecture = hub.read_config(folder)
    hub.read_weights(folder)
    hub.read_tokenizer(folder)
    read_draft(current, config)
    names = [given.get("served_model_name") or model]
    return TrtLlm(
        names, draft_len(config), read_plan(folder), current, config, architecture, given.get("tool_parser")
    )


def _twice_in_argv(current: str) -> list[str]:
    """Options given twice, under one flag or two."""
    words = [word.partition("=")[0] for word in sys.argv[1:]]
    single = {name: one["flags"] for name, one in options(current).items() if not one["multiple"]}
    return [name for name, flags in single.items() if sum(words.count(flag) for flag in flags) > 1]


def _twice(config: dict[str, Any]) -> list[str]:
    """Keys given both on the command line and in the config, or in the config under two names."""
    context = click.get_current_context()
    found = []
    for name in context.params:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            found += [key for key in SAME.get(name, (name,)) if _has(config, key)]
    spec = config.get("speculative_config")
    if isinstance(spec, dict) and {"speculative_model", "speculative_model_dir"} <= set(spec):
        found.append("speculative_config.speculative_model")
    return found


def _has(config: Any, dotted: str) -> bool:
    for part in dotted.split("."):
        if not isinstance(config, dict) or part not in config:
            return False
        config = config[part]
    return True


def main() -> None:
    known = options(version())
    argument = click.Argument(["model"])
    serving = Command("serve", params=[argument, *_click_options(known)], callback=serve)
    others = ["disaggregated", "disaggregated_mpi_worker"]
    others += [] if version() in (SPARK, V12) else ["mm_embedding_serve"]
    commands = {"serve": serving, **{name: _other(name) for name in others}}
    DefaultGroup("trtllm-serve", commands=commands)(prog_name="trtllm-serve")


if __name__ == "__main__":
    main()
