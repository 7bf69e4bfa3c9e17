"""The endpoints of trtllm-serve."""

import os
from pathlib import Path
from typing import Any

from standin.engine import Drafting, Engine, Reply
from standin.life import Plan
from standin.trtllm_config import greedy_only
from standin.trtllm_versions import V14

VOCABULARY = ("o200k_base.tiktoken", "cl100k_base.tiktoken")
NO_VOCABULARY = (
    "Error in harmony chat completion: error downloading or loading vocab file: "
    "failed to download or load vocab file"
)
STARTING = (("x-trtllm-server-state", "starting"), ("retry-after", "1"))
# The engine's request classes forbid other fields.
FIELDS = {
    "messages", "prompt", "model", "frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs",
    "max_tokens", "max_completion_tokens", "n", "best_of", "echo", "suffix", "response_format", "seed", "stop",
    "stream", "stream_options", "temperature", "top_p", "top_k", "min_p", "tools", "tool_choice", "user",
    "parallel_tool_calls", "reasoning_effort", "use_beam_search", "early_stopping", "top_p_min", "repetition_penalty",
    "length_penalty", "prompt_logprobs", "prompt_ignore_length", "min_tokens", "stop_token_ids",
    "include_stop_str_in_output", "ignore_eos", "skip_special_tokens", "spaces_between_special_tokens",
    "truncate_prompt_tokens", "return_context_logits", "detokenize", "lora_request", "add_generation_prompt",
    "add_special_tokens", "documents", "chat_template", "chat_template_kwargs", "disaggregated_params", "cache_salt",
    "guided_decoding", "mm_processor_kwargs",
}  # fmt: skip
PENALTIES = ("frequency_penalty", "presence_penalty")
MOST_STATS = 1000
BLOCK = 32


class TrtLlm(Engine):
    """One loaded target, with or without a draft."""

    def __init__(
        self, names: list[str], draft_len: int, plan: Plan, version: str,
        config: dict[str, Any], architecture: dict[str, Any], tool_parser: str | None,
    ) -> None:  # fmt: skip
        super().__init__(names, draft_len, plan)
        self.version, self.config, self.tool_parser = version, config, tool_parser
        self.harmony = (
            architecture.get("model_type") == "gpt_oss" and os.environ.get("DISABLE_HARMONY_ADAPTER") != "1"
        )
        self.greedy = greedy_only(version, config)
        self.seen: dict[str, float] = {}
        self.iteration = 0

    def starting(self, path: str) -> Reply:
        if path == "/health" and self.version != V14:
            return Reply(200)  # too early, as these versions do
        return Reply(503, headers=STARTING)

    def get(self, path: str) -> Reply | None:
        if path == "/health":
            return Reply(200)
        if path == "/version":
            return Reply(200, {"version": self.version})
        if path == "/v1/models":
            return self.models("tensorrt_llm")
        if path == "/metrics":
            return Reply(200, self.drained() if self.config.get("enable_iter_perf_stats") else [])
        if path == "/health_generate":
            assert self.llama is not None
            request = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
            return Reply(self.llama.ask("POST", "/v1/chat/completions", request)[0])
        return None

    def refuse(self, path: str, request: dict[str, Any]) -> Reply | None:
        unknown = sorted(set(request) - FIELDS)
        if unknown:
            where = f"'loc': ('body', '{unknown[0]}')"
            detail = f"[{{'type': 'extra_forbidden', {where}, 'msg': 'Extra inputs are not permitted'}}]"
            return self.error(400, detail)
        refused = super().refuse(path, request)
        if refused:
            return refused
        if self.draft_len and self.version == V14 and any(request.get(name) for name in PENALTIES):
            spec = self.config["speculative_config"]
            if not spec.get("enable_penalty"):
                return self.error(
                    400, "penalties are not supported with one-model speculative decoding; set enable_penalty"
                )
        if self.harmony and path == "/v1/chat/completions":
            folder = Path(os.environ.get("TIKTOKEN_ENCODINGS_BASE") or "/nonexistent")
            if not folder.is_absolute() or not all((folder / name).is_file() for name in VOCABULARY):
                return self.error(400, NO_VOCABULARY)
        return None

    def calls_tools(self, _request: dict[str, Any]) -> bool:
        return self.harmony or bool(self.tool_parser)

    def adapt(self, request: dict[str, Any]) -> dict[str, Any]:
        return super().adapt(request) | ({"temperature": 0} if self.greedy else {})

    def decorate(
        self, body: dict[str, Any], drafting: Drafting | None, _request: dict[str, Any]
    ) -> dict[str, Any]:
        for choice in body.get("choices", ()):
            choice["avg_decoded_tokens_per_iter"] = drafting.tokens / drafting.steps if drafting else None
            choice["disaggregated_params"] = None
            if drafting and choice.get("finish_reason") and self.config.get("per_request_spec_decode_stats"):
                choice["speculative_decoding"] = {
                    "acceptance_rate": drafting.accepted / drafting.drafted if drafting.drafted else 0.0,
                    "total_accepted_draft_tokens": drafting.accepted,
                    "total_draft_tokens": drafting.drafted,
                    "num_spec_steps": drafting.steps,
                }
        return body

    def drained(self) -> list[dict[str, Any]]:
        """The iterations since the last reading, at most the newest thousand: reading empties it."""
        with self.lock:
            now = self.counters()
            names = ("n_decode_total", "spec_decode_num_drafts_total", "spec_decode_num_draft_tokens_total",
                     "spec_decode_num_accepted_tokens_total", "tokens_predicted_total")  # fmt: skip
            decodes, steps, drafted, accepted, tokens = (
                int(now.get(n, 0) - self.seen.get(n, 0)) for n in names
            )
            self.seen = now
            count = max(decodes, steps, 1 if tokens else 0)
            first = self.iteration
            self.iteration += count
            active = int(now["requests_processing"])
        stats = [
            self._stats(first + i, active, _share(drafted, steps, i), _share(accepted, steps, i), i < steps)
            for i in range(count)
        ]
        return stats[-int(self.config.get("max_stats_len") or MOST_STATS) :]

    def _stats(
        self, iteration: int, active: int, drafted: int, accepted: int, speculated: bool
    ) -> dict[str, Any]:
        spec = {
            "numDraftTokens": drafted, "numAcceptedTokens": accepted, "numRequestsWithDraftTokens": int(speculated),
            "acceptanceLength": 1.0 + accepted if speculated else 0.0, "iterLatencyMS": 0.0, "draftOverhead": 0.0,
        }  # fmt: skip
        return {
            "iter": iteration, "iterLatencyMS": 20.0, "numActiveRequests": active, "numQueuedRequests": 0,
            "inflightBatchingStats": {
                "numScheduledRequests": 1, "numContextRequests": 0, "numGenRequests": 1, "numPausedRequests": 0,
                "avgNumDecodedTokensPerIter": 1.0 + accepted,
            },
            "kvCacheStats": {
                "maxNumBlocks": 256, "freeNumBlocks": 256, "usedNumBlocks": 0, "tokensPerBlock": BLOCK,
                "reusedBlocks": 0, "missedBlocks": 0, "cacheHitRate": 0.0,
            },
        } | ({"specDecodingStats": spec} if self.draft_len else {})  # fmt: skip


def _share(total: int, parts: int, index: int) -> int:
    """The part of a whole number that falls to one of so many."""
    return 0 if index >= parts else total // parts + (index < total % parts)
