"""The endpoints of SGLang."""

from typing import Any

from standin.engine import Drafting, Engine, Reply
from standin.life import Plan

COUNTERS = {
    "prompt_tokens_total": "prompt_tokens_total",
    "generation_tokens_total": "tokens_predicted_total",
    "spec_verify_calls_total": "spec_decode_num_drafts_total",
}
GAUGES = {"num_running_reqs": "requests_processing", "num_queue_reqs": "requests_deferred"}


class SgLang(Engine):
    """One loaded target, with or without a draft."""

    def __init__(self, names: list[str], draft_len: int, plan: Plan, options: dict[str, Any]) -> None:
        super().__init__(names, draft_len, plan)
        self.options = options
        self.seen: dict[str, float] = {}
        self.last = (0.0, 0.0)
        self.answered = 0

    def key(self) -> str | None:
        key = self.options["api_key"]
        return str(key) if key else None

    def get(self, path: str) -> Reply | None:
        if path in ("/health", "/health_generate", "/ready", "/ping"):
            return Reply(200)
        if path in ("/model_info", "/get_model_info"):
            return Reply(200, {"model_path": self.options["model_path"], "is_generation": True})
        if path == "/v1/models":
            return self.models("sglang")
        if path == "/metrics" and self.options["enable_metrics"]:
            return Reply(200, self.prometheus(), kind="text/plain; version=0.0.4; charset=utf-8")
        return None

    def calls_tools(self, _request: dict[str, Any]) -> bool:
        return bool(self.options["tool_call_parser"])

    def decorate(
        self, body: dict[str, Any], drafting: Drafting | None, request: dict[str, Any]
    ) -> dict[str, Any]:
        if drafting:
            self.answered += 1
        if drafting and self.draft_len and request.get("return_spec_tokens_details"):
            body["sglext"] = {
                "spec_tokens_details": {
                    "spec_accept_rate": drafting.accepted / drafting.drafted if drafting.drafted else 0.0,
                    "spec_accept_length": drafting.tokens / drafting.steps,
                    "spec_num_correct_drafts": drafting.accepted,
                    "spec_num_proposed_drafts": drafting.drafted,
                    "spec_verify_ct": drafting.steps,
                }
            }
        return body

    def prometheus(self) -> str:
        now = self.counters()
        speculates = self.draft_len and not self.plan.hide_spec_counters
        labels = f'engine_type="unified",model_name="{self.names[0]}"'
        values = {name: ("gauge", now.get(source, 0.0)) for name, source in GAUGES.items()}
        values |= {name: ("counter", now.get(source, 0.0)) for name, source in COUNTERS.items()}
        values["num_requests_total"] = ("counter", float(self.answered))
        if speculates:
            length, rate = self._last_interval(now)
            values |= {"spec_accept_length": ("gauge", length), "spec_accept_rate": ("gauge", rate)}
            values |= {"spec_num_steps": ("gauge", float(self.draft_len))}
        else:
            del values["spec_verify_calls_total"]
        lines = [
            f"# TYPE sglang:{name} {kind}\nsglang:{name}{{{labels}}} {value}"
            for name, (kind, value) in values.items()
        ]
        return "\n".join(lines) + "\n"

    def _last_interval(self, now: dict[str, float]) -> tuple[float, float]:
        """Mean acceptance length and rate since they were last looked at; as before where nothing was drafted."""
        with self.lock:
            names = [
                f"spec_decode_num_{name}_total" for name in ("drafts", "draft_tokens", "accepted_tokens")
            ]
            steps, drafted, accepted = (now.get(name, 0) - self.seen.get(name, 0) for name in names)
            if steps and drafted:
                self.seen, self.last = now, (1 + accepted / steps, accepted / drafted)
            return self.last
