"""vLLM's speculative config, judged by the facts; refused in pydantic's words."""

from typing import Any

from standin import hub
from standin.facts import Refused, load
from standin.options import out_of_bounds
from standin.trtllm_words import heading, problem

WITHOUT_MODEL = ("ngram", "ngram_gpu", "suffix", "extract_hidden_states", "mtp", "dspark")
CHECKS: dict[str, Any] = {"int": int, "bool": bool, "str": str, "float": (int, float)}
ERRORS = {"int": "int_type", "bool": "bool_type", "str": "string_type", "float": "float_type"}
SHORT = {"spec_method": "method", "spec_model": "model", "spec_tokens": "num_speculative_tokens"}


def merged(parsed: dict[str, Any]) -> dict[str, Any] | None:
    """The config with its shortcuts. Raises Refused where one is given twice."""
    config = parsed["speculative_config"]
    if config is not None and not isinstance(config, dict):
        raise Refused("TypeError: --speculative-config must be a JSON object")
    found = {key.replace("-", "_"): value for key, value in (config or {}).items()}
    for option, key in SHORT.items():
        if parsed[option] is not None:
            if key in found:
                raise Refused(
                    f"ValueError: --{option.replace('_', '-')} and --speculative-config both set '{key}'"
                )
            found[key] = parsed[option]
    return found or None


def judge(config: dict[str, Any]) -> None:
    """Raises Refused."""
    facts = load("vllm-serve.json")["speculative"]
    found = []
    for key, value in config.items():
        field = facts["fields"].get(key)
        if field is None or field.get("internal"):
            found.append(problem([key], "unexpected_keyword_argument", "Unexpected keyword argument", value))
        else:
            found += _field(key, value, field, facts)
    found += (
        []
        if found
        else [problem([], "value_error", f"Value error, {text}", config) for text in _rules(config)]
    )
    if found:
        raise Refused(heading(found, "SpeculativeConfig"))


def _field(key: str, value: Any, field: dict[str, Any], facts: dict[str, Any]) -> list[str]:
    kind = field["type"].removesuffix("|None")
    if value is None:
        nullable = kind != field["type"] or field.get("default", 0) is None
        return [] if nullable else [problem([key], "none_not_allowed", "Input should not be None", value)]
    if kind in CHECKS and (
        not isinstance(value, CHECKS[kind]) or (kind != "bool" and isinstance(value, bool))
    ):
        return [problem([key], ERRORS[kind], f"Input should be a valid {kind}", value)]
    choices = field.get("choices")
    if isinstance(choices, str):
        choices = facts["methods"] + facts["mtp_aliases"]
    if choices and value not in choices:
        listed = ", ".join(repr(choice) for choice in choices[:-1]) + f" or {choices[-1]!r}"
        return [problem([key], "literal_error", f"Input should be {listed}", value)]
    bad = out_of_bounds(value, field.get("bounds", {}))
    return [problem([key], *bad, value)] if bad else []


def _rules(config: dict[str, Any]) -> list[str]:
    method, count = config.get("method"), config.get("num_speculative_tokens")
    if method is None and not config.get("model"):
        return ["num_speculative_tokens was provided but without speculative model."]
    if method and method not in WITHOUT_MODEL and not method.endswith("_mtp") and not config.get("model"):
        return [f"model must be provided for method {method}"]
    if count is None and method != "suffix":
        return ["A speculative model was provided, but `num_speculative_tokens` was not provided"]
    if config.get("tensor_parallel_size") is not None:
        return ["'tensor_parallel_size' is not a valid argument in the speculative_config."]
    if config.get("draft_tensor_parallel_size") not in (None, 1):
        return ["draft_tensor_parallel_size must be 1 or the target's"]
    low, high = config.get("prompt_lookup_min"), config.get("prompt_lookup_max")
    if low and high and low > high:
        return [f"prompt_lookup_min={low} must be less than or equal to prompt_lookup_max={high}"]
    synthetic = ("synthetic_acceptance_rates", "synthetic_acceptance_length")
    if (config.get("rejection_sample_method") == "synthetic") != (
        sum(config.get(k) is not None for k in synthetic) == 1
    ):
        return [f"rejection_sample_method synthetic needs exactly one of {', '.join(synthetic)}"]
    return []


def read_draft(config: dict[str, Any], target: dict[str, Any]) -> None:
    """The draft's files, and that it fits. Raises Refused."""
    if not config.get("model") or config.get("method") == "custom_class":
        return
    folder = hub.resolve(config["model"], config.get("revision"))
    draft = hub.read_config(folder)
    hub.read_weights(folder)
    if config.get("method") == "draft_model" and not config.get("use_heterogeneous_vocab"):
        sizes = target.get("vocab_size"), draft.get("vocab_size")
        if sizes[0] != sizes[1]:
            raise Refused(
                "ValueError: Target and draft model should have the same vocabulary size. "
                f"Target model vocab_size={sizes[0]}. Draft model vocab_size={sizes[1]}."
            )
