"""The endpoints of vLLM."""

import os
from typing import Any

from standin.engine import Engine, Reply
from standin.facts import load
from standin.life import Plan

# A vllm counter, and llama.cpp's that it is made of.
COUNTERS = {
    "prompt_tokens_total": "prompt_tokens_total",
    "generation_tokens_total": "tokens_predicted_total",
    "iteration_tokens_total_count": "n_decode_total",
    "iteration_tokens_total_sum": "tokens_predicted_total",
}
SPECULATIVE = {
    "num_drafts_total": "spec_decode_num_drafts_total",
    "num_draft_tokens_total": "spec_decode_num_draft_tokens_total",
    "num_accepted_tokens_total": "spec_decode_num_accepted_tokens_total",
}
PER_POSITION = "spec_decode_num_accepted_tokens_per_pos_total"


class Vllm(Engine):
    """One loaded target, with or without a draft."""

    def __init__(self, names: list[str], draft_len: int, plan: Plan, options: dict[str, Any]) -> None:
        super().__init__(names, draft_len, plan)
        self.options = options

    def key(self) -> str | None:
        keys = self.options["api_key"]
        return (keys[0] if keys else None) or os.environ.get("VLLM_API_KEY")

    def get(self, path: str) -> Reply | None:
        if path in ("/health", "/ping"):
            return Reply(200)
        if path == "/version":
            return Reply(200, {"version": load("vllm-serve.json")["package"]["version"]})
        if path == "/v1/models":
            return self.models("vllm")
        if path == "/metrics":
            return Reply(200, self.prometheus(), kind="text/plain; version=0.0.4; charset=utf-8")
        return None

    def error(self, status: int, message: str, kind: str = "BadRequestError") -> Reply:
        return Reply(status, {"error": {"message": message, "type": kind, "param": None, "code": status}})

    def refuse(self, path: str, request: dict[str, Any]) -> Reply | None:
        refused = super().refuse(path, request)
        auto = request.get("tools") and request.get("tool_choice", "auto") == "auto"
        if refused is None and auto and not self.options["enable_auto_tool_choice"]:
            switches = "--enable-auto-tool-choice and --tool-call-parser"
            return self.error(400, f'"auto" tool choice requires {switches} to be set')
        return refused

    def prometheus(self) -> str:
        now, labels = self.counters(), f'engine="0",model_name="{self.names[0]}"'
        lines = []

        def add(name: str, kind: str, value: float, more: str = "") -> None:
            lines.append(f"# HELP vllm:{name} {name}\n# TYPE vllm:{name} {kind}" if not more else "")
            lines.append(f"vllm:{name}{{{labels}{more}}} {value}")

        add("num_requests_running", "gauge", now["requests_processing"])
        add("num_requests_waiting", "gauge", now.get("requests_deferred", 0.0))
        add("kv_cache_usage_perc", "gauge", 0.0)
        if not self.options["disable_log_stats"]:
            for name, source in COUNTERS.items():
                add(name, "counter", now.get(source, 0.0))
        if self.draft_len and not self.plan.hide_spec_counters and not self.options["disable_log_stats"]:
            for name, source in SPECULATIVE.items():
                add(f"spec_decode_{name}", "counter", now.get(source, 0.0))
            lines.append(f"# TYPE vllm:{PER_POSITION} counter")
            for position in range(self.draft_len):
                add(
                    PER_POSITION,
                    "counter",
                    now.get(f"{PER_POSITION} {position}", 0.0),
                    f',position="{position}"',
                )
        return "\n".join(line for line in lines if line) + "\n"
