"""TensorRT-LLM: trtllm-serve in NVIDIA's container, told everything by one config file.

Options, endpoints and log lines as read in its sources up to 1.4.0rc4; nothing was run on a GPU.
"""

from typing import Any

from packaging.version import Version

from appliance.catalog.entries import HubSource
from appliance.catalog.stack import RuntimeName, Stack
from appliance.core.errors import ConfigFault
from appliance.core.template import render_yaml
from appliance.engines import trtllm_versions as versions
from appliance.engines.base import Death, Engine, Launch, Pair, Place
from appliance.engines.command_line import check_owned
from appliance.engines.container import environment
from appliance.engines.options import around, judge, locked_options
from appliance.engines.trtllm_config import BARRED, OWNED, check_layers, check_sections, config
from appliance.engines.trtllm_deaths import DEATHS
from appliance.supervise.plan import CounterTable, Phase

CONFIG = "extra-llm-api-config.yml"


class TrtLlm:
    """TensorRT-LLM's tables."""

    name = "trtllm"
    formats: tuple[str, ...] = ("safetensors",)
    runtimes: tuple[RuntimeName, ...] = ("docker",)
    gpu = True
    health_path = "/health"  # 200 early, and never through harmony: ready is what a chat says
    chat_path = "/v1/chat/completions"
    local_modules: tuple[str, ...] = ()
    counters: CounterTable | None = CounterTable(
        path="/metrics",
        format="iterations",
        names={
            "steps": "specDecodingStats.numRequestsWithDraftTokens",
            "drafted": "specDecodingStats.numDraftTokens",
            "accepted": "specDecodingStats.numAcceptedTokens",
            "active": "numActiveRequests",
        },
    )
    phases: tuple[Phase, ...] = (
        Phase(r"(?i)loading safetensors weights\D*?(?:\d+%\D*)?(\d+)/(\d+)", r"reading weight files \1/\2"),
        Phase(r"(?i)loading weights\D*?(?:\d+%\D*)?(\d+)/(\d+)", r"loading weights \1/\2"),
        Phase(r"Allocated .* in paged KV cache", "allocating the KV cache"),
        Phase(r"\[Autotuner\] Autotuning process starts", "autotuning"),
        Phase(r"CUDA graph (?:instances|warmup|capture)", "capturing CUDA graphs"),
        Phase(r"Application startup complete", "listening"),
    )
    deaths: tuple[Death, ...] = DEATHS

    def version(self, stack: Stack) -> str:
        return stack.engine.version or versions.DEFAULT

    def check(self, stack: Stack, pair: Pair) -> tuple[str, ...]:
        text = self.version(stack)
        version = versions.parse(text)
        versions.refuse_bad(text, version, stack, pair)
        options, speculates = stack.trtllm, stack.draft.method != "none"
        check_owned(self.name, options, OWNED, BARRED)
        check_sections(options)
        _check_cache(options)
        _check_graphs(options)
        check_layers(options, pair)
        if speculates:
            versions.decoding_type(stack.draft.method, version, text)
            _check_together(options, version, pair)
        self._check_name(stack, pair, text)
        told = [*versions.warnings(text, version), *_judged(stack, version, text)]
        told += _warn_memory(stack)
        if speculates:
            told += _warn_speculation(stack, pair, text)
        return tuple(told)

    def launch(self, stack: Stack, pair: Pair, place: Place) -> Launch:
        version = versions.parse(self.version(stack))
        data = config(stack, pair, place, version)
        name = () if stack.serve.name == _model(pair) else ("--served_model_name", stack.serve.name)
        return Launch(
            argv=(
                *("trtllm-serve", _model(pair), "--backend", "pytorch"),
                # By the repository's name its loader asks the hub, offline too, and dies of it.
                *("--tokenizer", place.target),
                *("--host", place.host, "--port", str(place.port), *name),
                *("--extra_llm_api_options", f"{place.config}/{CONFIG}"),  # its only name until 1.2.0rc5
            ),
            env=environment(place, harmony=pair.target.chat == "harmony")
            | {"TRTLLM_NO_USAGE_STATS": "1", "TELEMETRY_DISABLED": "1"},
            files={
                CONFIG: render_yaml(
                    "extra-llm-api/config.yml.j2", {"version": self.version(stack), "config": data}
                )
            },
        )

    def _check_name(self, stack: Stack, pair: Pair, text: str) -> None:
        """The name in /v1/models is the model's own, unless the version has an option for another."""
        if stack.serve.name == _model(pair) or versions.parse(text) >= versions.SERVED_NAME:
            return
        raise ConfigFault(
            f"serve.name cannot be {stack.serve.name} with TensorRT-LLM {text}",
            "this version answers /v1/models with the repository's name; --served_model_name is known from "
            f"{versions.SERVED_NAME} on",
            f"leave serve.name at {_model(pair)}, or set engine.version to {versions.SERVED_NAME}",
        )


def _model(pair: Pair) -> str:
    """The target as a repository's name: it is looked up in the hub cache that the supervisor lays out, and it is
    what /v1/models answers in every version."""
    source = pair.target.source
    assert isinstance(source, HubSource), "formats lets only a hub's models through"
    return source.repo


def _judged(stack: Stack, version: Version, text: str) -> tuple[str, ...]:
    """Hold the section against what is known of the versions around this one; its speculative part as what the draft
    method makes of it, by the versions that spell the method alike. Raises ConfigFault."""
    options, known = dict(stack.trtllm), locked_options("trtllm", text) or around("trtllm", version)
    if stack.draft.method == "none" or "speculative_config" not in options:
        return judge("trtllm", options, known, text)
    name = versions.decoding_type(stack.draft.method, version, text)
    part = {"decoding_type": name} | dict(options.pop("speculative_config"))
    alike = [
        one for one in known if versions.spelled(stack.draft.method, Version(one.version)) == name
    ] or known
    return (
        *judge("trtllm", options, known, text),
        *judge("trtllm", {"speculative_config": part}, alike, text),
    )


def _check_graphs(options: dict[str, Any]) -> None:
    graphs = options.get("cuda_graph_config")
    if isinstance(graphs, dict) and graphs.get("batch_sizes") and graphs.get("max_batch_size"):
        raise ConfigFault(
            "trtllm.cuda_graph_config has batch_sizes and max_batch_size",
            "each says which graphs are captured, and the engine refuses both together",
            "take one out: --set trtllm.cuda_graph_config.max_batch_size=0",
        )


def _check_cache(options: dict[str, Any]) -> None:
    """Raises ConfigFault for a cache of no size: the engine's own bounds do not say so."""
    for key in ("max_tokens", "max_gpu_total_bytes"):
        size = options.get("kv_cache_config", {}).get(key)
        if isinstance(size, int) and size < (1 if key == "max_tokens" else 0):
            raise ConfigFault(
                f"trtllm.kv_cache_config.{key} cannot be {size}",
                "a cache has room for something",
                "give a size",
            )


def _check_together(options: dict[str, Any], version: Version, pair: Pair) -> None:
    """Raises ConfigFault for what the engine cannot do beside speculation."""
    speculative = options.get("speculative_config", {})
    if speculative.get("use_dynamic_tree") and pair.target.chat == "harmony":
        raise ConfigFault(
            "trtllm.speculative_config.use_dynamic_tree does not go with this target",
            "the engine has no dynamic tree for models with sliding windows, as gpt-oss is",
            "leave it out",
        )
    if options.get("sampler_type") == "TRTLLMSampler" or "HELIX" in str(options.get("cp_config", "")).upper():
        raise ConfigFault(
            "this sampler or parallelism and speculation do not go together",
            "the engine speculates with its own sampler, and not over Helix",
            "leave trtllm.sampler_type and trtllm.cp_config out, or use --no-spec",
        )
    if options.get("guided_decoding_backend") and version < versions.GUIDED_CRASH_ENDS:
        raise ConfigFault(
            "trtllm.guided_decoding_backend and speculation do not go together",
            "it is unsupported at first and crashes in 1.3.0rc15 (#7006, #15022)",
            "leave it out, or use --no-spec",
        )
    for key in ("pipeline_parallel_size", "pp_size", "context_parallel_size", "cp_size"):
        if isinstance(size := options.get(key), int) and size > 1:
            raise ConfigFault(
                f"trtllm.{key}={size} and speculation do not go together",
                "the engine does not speculate over a pipeline or a split context",
                "leave it out, or use --no-spec",
            )


def _warn_memory(stack: Stack) -> list[str]:
    cache, length = stack.trtllm.get("kv_cache_config", {}), stack.serve.max_seq_len
    told, most = [], cache.get("max_tokens")
    if isinstance(most, int) and length is not None and most < length:
        told.append(
            f"trtllm.kv_cache_config.max_tokens {most} is less than one request of serve.max_seq_len {length}: "
            "a request of full length will never fit"
        )
    if most and cache.get("free_gpu_memory_fraction") is not None:
        told.append("the KV cache is capped twice, by max_tokens and by a fraction: the smaller one counts")
    if not cache.get("max_tokens") and not cache.get("max_gpu_total_bytes"):
        told.append(
            "the KV cache is not capped: on unified memory it takes a share of what is free at that moment, the "
            "page cache's included (#2773); trtllm.kv_cache_config.max_tokens caps it"
        )
    if cache.get("host_cache_size"):
        told.append("trtllm.kv_cache_config.host_cache_size brings nothing on unified memory (#15793)")
    return told


def _warn_speculation(stack: Stack, pair: Pair, text: str) -> list[str]:
    version, told = versions.parse(text), []
    if version < versions.ADVANCED_SAMPLING:
        told.append(
            f"TensorRT-LLM {text} answers greedily when it speculates, whatever temperature is asked for"
        )
    if stack.draft.method == "eagle3":
        if stack.trtllm.get("kv_cache_config", {}).get("enable_block_reuse"):
            told.append(
                "with block reuse Eagle3's drafts were taken six times less often on repeated prompts (#18280)"
            )
        graphs = stack.trtllm.get("cuda_graph_config")
        if isinstance(graphs, dict) and graphs.get("enable_padding"):
            told.append("padded CUDA graphs overran a buffer with Eagle3 (#15708): leave enable_padding off")
        if pair.target.chat == "harmony" and stack.offers.tools and version < versions.EMPTY_TOOLS_FIXED:
            told.append(f"TensorRT-LLM {text} is older than the fix of empty tool calls with Eagle3 (#16377)")
    return told


ENGINE: Engine = TrtLlm()
