"""SGLang: `sglang.launch_server` in a container, told everything on its command line.

Options, rules, endpoints and counters as read from 0.5.23's own parser and sources; log lines as people report them.
Nothing was run on a GPU.
"""

import re
from collections.abc import Mapping
from typing import Any

from packaging.version import InvalidVersion, Version

from appliance.catalog.stack import RuntimeName, Stack
from appliance.core.errors import ConfigFault
from appliance.engines.base import Death, Engine, Launch, Pair, Place
from appliance.engines.command_line import ENDPOINT, HOST, SECOND_FILE, SECRET, arguments, check_owned, given
from appliance.engines.container import environment
from appliance.engines.heads import LAST_BOUNDARY, reads_last_boundary
from appliance.engines.options import Known, around, judge, known, locked_options
from appliance.engines.server_deaths import DEATHS
from appliance.engines.tools import ToolParsers
from appliance.supervise.plan import CounterTable, Phase

DEFAULT = "spark"
TAGS = {"spark": "0.5.4"}  # tags that do not say which version they are
DROPS_LAST_BOUNDARY = Version("0.5.4")
ALGORITHMS = {"eagle3": "EAGLE3", "draft-target": "STANDALONE"}
CHAIN = 1  # candidates of each drafted token: one, as K means it in every other engine
PARSERS = ToolParsers(harmony="gpt-oss", llama3="llama3")

OWNED: Mapping[str, str] = {
    "model_path": "target.model",
    "model": "target.model",
    "served_model_name": "serve.name",
    "port": "serve.port",
    "context_length": "serve.max_seq_len",
    "max_running_requests": "serve.max_batch_size",
    "speculative_algorithm": "draft.method",
    "speculative_draft_model_path": "draft.model",
    "speculative_draft_model": "draft.model",
    "speculative_num_steps": "draft.k",
}
BARRED: Mapping[str, str] = {
    "api_key": SECRET,
    "admin_api_key": SECRET,
    "ssl_keyfile_password": SECRET,
    "host": HOST,
    "ssl_certfile": ENDPOINT,
    "ssl_keyfile": ENDPOINT,
    "config": SECOND_FILE,
    "enable_metrics": "it is always on: acceptance is counted by it",
}


class SgLang:
    """SGLang's tables."""

    name = "sglang"
    formats: tuple[str, ...] = ("safetensors",)
    runtimes: tuple[RuntimeName, ...] = ("docker",)
    gpu = True
    health_path = "/health"  # /health_generate would make it work at each look
    chat_path = "/v1/chat/completions"
    local_modules: tuple[str, ...] = ()
    # Drafted and accepted tokens are not counted, only their rates since the last log line.
    counters: CounterTable | None = CounterTable(
        path="/metrics",
        format="prometheus",
        names={
            "generated": "sglang:generation_tokens_total",
            "steps": "sglang:spec_verify_calls_total",
            "answers": "sglang:num_requests_total",  # accepted drafts are told as rates only: they follow
            # Tokens may be counted only when a request ends; those in the KV cache while it runs.
            "progress": "sglang:num_used_tokens",
            "active": "sglang:num_running_reqs",
        },
    )
    phases: tuple[Phase, ...] = (
        Phase(r"Load weight begin", "loading weights"),
        Phase(r"shards: +\d+% Completed \| (\d+)/(\d+)", r"loading weights \1/\2"),
        Phase(r"Load weight end\. (?:elapsed=\S+ s, )?type=(\w+)", r"loaded \1"),
        Phase(r"KV Cache is allocated|Memory pool end", "KV cache allocated"),
        Phase(r"Capture (?:draft )?(?:extend )?cuda graph begin", "capturing CUDA graphs"),
        Phase(r"Capturing batches .*?(\d+)%", r"capturing CUDA graphs \1%"),
        Phase(r"Capture (?:draft )?(?:extend )?cuda graph end", "CUDA graphs captured"),
        Phase(r"Application startup complete", "warming up"),
        Phase(r"The server is fired up and ready to roll", "listening"),
    )
    deaths: tuple[Death, ...] = (
        Death(
            r"Must use persistent kernel and be TMA-compliant",
            "this image's MXFP4 kernels do not run on a GB10 (0.5.17's and dev-cu13's were seen so)",
            f"set engine.version={DEFAULT}, or another engine.name",
        ),
        Death(
            r"Not enough memory\. Please try",
            "the KV cache has no room beside the weights",
            "raise sglang.mem_fraction_static, lower serve.max_seq_len, or end other programs",
        ),
        *DEATHS,
    )

    def version(self, stack: Stack) -> str:
        return stack.engine.version or DEFAULT

    def check(self, stack: Stack, pair: Pair) -> tuple[str, ...]:
        options, text = given(stack.sglang), self.version(stack)
        if ":" in stack.serve.name:
            raise ConfigFault(
                f"serve.name cannot be {stack.serve.name} with SGLang",
                "it takes no name with a colon",
                "set serve.name to one without",
            )
        check_owned(self.name, options, OWNED, BARRED)
        told = judge(self.name, options, _known(text), text)
        if stack.draft.method != "none":
            _check_tree(options, stack.draft.k or 0)
            _check_head(stack, pair, text)
        PARSERS.check(self.name, stack, pair)
        return (*told, *_warnings(options))

    def launch(self, stack: Stack, pair: Pair, place: Place) -> Launch:
        options = _options(stack, pair, place)
        words = arguments(options, _known(self.version(stack)))
        return Launch(
            argv=(place.python, "-m", "sglang.launch_server", *words),
            env=environment(place, harmony=pair.target.chat == "harmony"),
        )


def _version(text: str) -> Version | None:
    try:
        return Version(TAGS.get(text, text))
    except InvalidVersion:
        return None


def _known(text: str) -> tuple[Known, ...]:
    """What is locked of a version, else what is known around it; all of it where the tag does not tell which it is."""
    version = _version(text)
    return locked_options("sglang", text) or (around("sglang", version) if version else known("sglang"))


def _options(stack: Stack, pair: Pair, place: Place) -> dict[str, Any]:
    """All options, ours first, each once; what the section says of speculation only where there is some."""
    serve, harmony = stack.serve, pair.target.chat == "harmony"
    speculates = stack.draft.method != "none"
    ours: dict[str, Any] = {
        "model_path": place.target,
        "served_model_name": serve.name,
        "host": place.host,
        "port": place.port,
        "context_length": serve.max_seq_len,
        "max_running_requests": serve.max_batch_size,
        "enable_metrics": True,
    }
    if speculates:
        ours |= _speculative(stack, pair, place)
    if _is_fp4(pair.target.quantization):
        ours["quantization"] = "modelopt_fp4"
    if harmony:
        ours["reasoning_parser"] = "gpt-oss"
    if stack.offers.tools:
        ours["tool_call_parser"] = PARSERS.of(pair)
    theirs = given(stack.sglang)
    return given(
        ours | {key: one for key, one in theirs.items() if speculates or not key.startswith("speculative_")}
    )


def _speculative(stack: Stack, pair: Pair, place: Place) -> dict[str, Any]:
    """The engine fills nothing in: steps without a topk fail, and a tree without its size too."""
    steps = stack.draft.k or 0
    ours: dict[str, Any] = {
        "speculative_algorithm": ALGORITHMS[stack.draft.method],
        "speculative_draft_model_path": place.draft,
        "speculative_num_steps": steps,
        "speculative_eagle_topk": CHAIN,
        "speculative_num_draft_tokens": steps + 1,  # the last token that is certain is verified too
    }
    if _is_fp4(pair.target.quantization):
        # Left out, it is read as the target is.
        draft = pair.draft.quantization if pair.draft else None
        ours["speculative_draft_model_quantization"] = "modelopt_fp4" if _is_fp4(draft) else "unquant"
    return ours


def _is_fp4(quantization: str | None) -> bool:
    """NVIDIA's four bits, which the engine does not see by itself; MXFP4 it does."""
    return re.search(r"\b(NV)?FP4\b", quantization or "", re.I) is not None


def _check_tree(options: Mapping[str, Any], steps: int) -> None:
    """Raises ConfigFault for a shape of the drafts that the engine would change, or not start with."""
    topk = options.get("speculative_eagle_topk", CHAIN)
    tokens = options.get("speculative_num_draft_tokens")
    if topk == CHAIN and tokens not in (None, steps + 1):
        raise ConfigFault(
            f"sglang.speculative_num_draft_tokens cannot be {tokens} with draft.k={steps}",
            f"a chain of {steps} drafted tokens is verified as {steps + 1}: the engine would take that instead",
            "leave it out, or set sglang.speculative_eagle_topk above 1",
        )
    if topk > CHAIN and tokens is None:
        raise ConfigFault(
            f"sglang.speculative_eagle_topk={topk} needs sglang.speculative_num_draft_tokens",
            "of a tree of drafts the engine does not know how much to verify",
            "set it, such as 8 for draft.k=5 and a topk of 4, or leave the topk out",
        )
    if topk > CHAIN and options.get("attention_backend") == "trtllm_mha":
        raise ConfigFault(
            f"sglang.speculative_eagle_topk={topk} and sglang.attention_backend=trtllm_mha do not go together",
            "that backend verifies chains only",
            "leave one of them out",
        )


def _check_head(stack: Stack, pair: Pair, text: str) -> None:
    """Raises ConfigFault for a head that dies at its first request."""
    version = _version(text)
    if version and version <= DROPS_LAST_BOUNDARY and reads_last_boundary(pair):
        raise ConfigFault(
            f"{stack.draft.model} cannot draft in SGLang {text}",
            f"it reads layer {LAST_BOUNDARY} of its target, which SGLang {DROPS_LAST_BOUNDARY} drops",
            "choose another head (`spark-spec heads`), another engine.name, or --no-spec",
        )


def _warnings(options: Mapping[str, Any]) -> list[str]:
    if options.keys() & {"mem_fraction_static", "max_total_tokens"}:
        return []
    return [
        "the KV cache is not capped: SGLang takes most of the memory there is, which on unified memory is everyone's; "
        "sglang.max_total_tokens caps it"
    ]


ENGINE: Engine = SgLang()
