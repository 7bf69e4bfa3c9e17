"""vLLM: `vllm serve` in a container, told everything on its command line.

Options, rules, endpoints and counters as read from 0.32.0's own parser and sources; log lines as people report them.
Nothing was run on a GPU.
"""

from collections.abc import Mapping
from typing import Any

from packaging.version import InvalidVersion, Version

from appliance.catalog.stack import RuntimeName, Stack
from appliance.core.errors import ConfigFault
from appliance.core.text import shown
from appliance.engines.base import Death, Engine, Launch, Pair, Place
from appliance.engines.command_line import ENDPOINT, HOST, SECOND_FILE, SECRET, arguments, check_owned, given
from appliance.engines.container import environment
from appliance.engines.heads import LAST_BOUNDARY, reads_last_boundary
from appliance.engines.options import Known, around, judge, known, locked_options
from appliance.engines.server_deaths import DEATHS
from appliance.engines.tools import ToolParsers
from appliance.supervise.plan import CounterTable, Phase

DEFAULT = "26.05.post1-py3"  # NVIDIA's container; which vLLM is in it is not known
METHODS = {"eagle3": "eagle3", "draft-target": "draft_model"}
PARSERS = ToolParsers(harmony="openai", llama3="llama3_json")

OWNED: Mapping[str, str] = {
    "model": "target.model",
    "served_model_name": "serve.name",
    "port": "serve.port",
    "max_model_len": "serve.max_seq_len",
    "max_num_seqs": "serve.max_batch_size",
    "enable_auto_tool_choice": "offers.tools",
    "spec_method": "draft.method",
    "spec_model": "draft.model",
    "spec_tokens": "draft.k",
    "speculative_config.method": "draft.method",
    "speculative_config.model": "draft.model",
    "speculative_config.num_speculative_tokens": "draft.k",
}
BARRED: Mapping[str, str] = {
    "api_key": SECRET,
    "hf_token": f"{SECRET}; and the engine fetches nothing",
    "host": HOST,
    "uds": ENDPOINT,
    "ssl_certfile": ENDPOINT,
    "ssl_keyfile": ENDPOINT,
    "grpc": ENDPOINT,
    "headless": ENDPOINT,
    "config": SECOND_FILE,
    "disable_log_stats": "acceptance is counted by them",
}


class Vllm:
    """vLLM's tables."""

    name = "vllm"
    formats: tuple[str, ...] = ("safetensors",)
    runtimes: tuple[RuntimeName, ...] = ("docker",)
    gpu = True
    health_path = "/health"
    chat_path = "/v1/chat/completions"
    local_modules: tuple[str, ...] = ()
    counters: CounterTable | None = CounterTable(
        path="/metrics",
        format="prometheus",
        names={
            "generated": "vllm:generation_tokens_total",
            "steps": "vllm:spec_decode_num_drafts_total",
            "drafted": "vllm:spec_decode_num_draft_tokens_total",
            "accepted": "vllm:spec_decode_num_accepted_tokens_total",
            "accepted_per_position": "vllm:spec_decode_num_accepted_tokens_per_pos_total",
            "active": "vllm:num_requests_running",
        },
    )
    phases: tuple[Phase, ...] = (
        Phase(r"Loading drafter model", "loading the draft"),
        Phase(r"checkpoint shards: +\d+% Completed \| (\d+)/(\d+)", r"loading weights \1/\2"),
        Phase(r"Model loading took", "weights loaded"),
        Phase(r"Capturing CUDA graph\D*(\d+)%", r"capturing CUDA graphs \1%"),
        Phase(r"Graph capturing finished", "CUDA graphs captured"),
        Phase(r"torch\.compile|Dynamo bytecode transform", "compiling"),
        Phase(r"Application startup complete", "listening"),
    )
    deaths: tuple[Death, ...] = (
        Death(
            r"Free memory on device .* is less than desired GPU memory utilization",
            "less memory is free than the share that the engine was told to take",
            "end other programs, lower vllm.gpu_memory_utilization, or give the page cache back: sync; echo 3 | "
            "sudo tee /proc/sys/vm/drop_caches",
        ),
        Death(
            r"larger than the available KV cache memory|No available memory for the cache blocks",
            "the KV cache has no room for one request of full length",
            "lower serve.max_seq_len, or raise vllm.kv_cache_memory_bytes or vllm.gpu_memory_utilization",
        ),
        *DEATHS,
    )

    def version(self, stack: Stack) -> str:
        return stack.engine.version or DEFAULT

    def check(self, stack: Stack, pair: Pair) -> tuple[str, ...]:
        options, text = given(stack.vllm), self.version(stack)
        check_owned(self.name, options, OWNED, BARRED)
        _check_speculative(options)
        told = judge(self.name, options, _known(text), text)
        PARSERS.check(self.name, stack, pair)
        return (*told, *_warnings(stack, pair))

    def launch(self, stack: Stack, pair: Pair, place: Place) -> Launch:
        harmony = pair.target.chat == "harmony"
        options = _options(stack, pair, place)
        return Launch(
            argv=("vllm", "serve", place.target, *arguments(options, _known(self.version(stack)))),
            env=environment(place, harmony=harmony)
            | {"VLLM_NO_USAGE_STATS": "1", "VLLM_CACHE_ROOT": f"{place.state}/cache/vllm"},
        )


def _known(text: str) -> tuple[Known, ...]:
    """What is locked of a version, else what is known around it; all of it where the tag does not tell which it is."""
    try:
        return locked_options("vllm", text) or around("vllm", Version(text))
    except InvalidVersion:
        return known("vllm")


def _options(stack: Stack, pair: Pair, place: Place) -> dict[str, Any]:
    """All options, ours first, each once."""
    serve, rest = stack.serve, given(stack.vllm)
    theirs = rest.pop("speculative_config", {})
    ours: dict[str, Any] = {
        "served_model_name": [serve.name],
        "host": place.host,
        "port": place.port,
        "max_model_len": serve.max_seq_len,
        "max_num_seqs": serve.max_batch_size,
    }
    if stack.draft.method != "none":
        ours["speculative_config"] = theirs | {
            "method": METHODS[stack.draft.method],
            "model": place.draft,
            "num_speculative_tokens": stack.draft.k,
        }
    if pair.target.chat == "harmony":
        ours["reasoning_parser"] = "openai_gptoss"
    if stack.offers.tools:
        ours |= {"enable_auto_tool_choice": True, "tool_call_parser": PARSERS.of(pair)}
    return given(ours | rest)


def _check_speculative(options: Mapping[str, Any]) -> None:
    value = options.get("speculative_config", {})
    if not isinstance(value, Mapping):
        raise ConfigFault(
            f"vllm.speculative_config cannot be {shown(value)}",
            "it is a section, and the stack has keys in it",
            "set vllm.speculative_config.KEY; --no-spec takes speculation away",
        )


def _warnings(stack: Stack, pair: Pair) -> list[str]:
    options, told = given(stack.vllm), []
    if not options.keys() & {"kv_cache_memory_bytes", "gpu_memory_utilization", "num_gpu_blocks_override"}:
        told.append(
            "the KV cache is not capped: vLLM takes nine tenths of the memory there is, which on unified memory is "
            "everyone's; vllm.kv_cache_memory_bytes caps it"
        )
    if options.get("attention_backend") == "TRITON_ATTN" and "NVFP4" in (pair.target.quantization or ""):
        told.append("NVFP4 models were seen to answer gibberish with TRITON_ATTN (vllm#34759)")
    if reads_last_boundary(pair):
        told.append(
            f"{stack.draft.model} reads layer {LAST_BOUNDARY}, which vLLM before a fix drops; which version has the "
            "fix was not read: see that `spark-spec verify` finds drafts taken"
        )
    return told


ENGINE: Engine = Vllm()
