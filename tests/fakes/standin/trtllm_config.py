"""The config file of trtllm-serve: read, judged, refused in the engine's words."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml
from standin import hub
from standin.facts import Refused
from standin.trtllm_versions import RC12, SPARK, V12, V14, decodings, schema
from standin.trtllm_words import heading, problem, problems

SPECULATION = "speculative_config"
DRAFTED = ("Eagle", "Eagle3", "DraftTarget", "Draft_Target")
COUNTED = (*DRAFTED, "NGram", "PARD", "DFlash", "DSpark", "SA")


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader keeps the last of two equal keys; this one also notes it."""

    twice: list[str]

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        self.twice += sorted({str(key) for key in keys if keys.count(key) > 1})
        return super().construct_mapping(node, deep)


def read(path: Path) -> tuple[dict[str, Any], list[str]]:
    """The config and the keys that stand twice in it. Raises Refused."""
    try:
        loader = _Loader(path.read_text(encoding="utf-8"))
        loader.twice = []
        config = loader.get_single_data()
    except (OSError, yaml.YAMLError) as error:
        raise Refused(f"{type(error).__name__}: {error}") from None
    if config is None:
        return {}, []
    if not isinstance(config, dict):
        raise Refused(f"TypeError: '{type(config).__name__}' object is not a mapping")
    return config, loader.twice


def judge(version: str, config: dict[str, Any]) -> None:
    """Raises Refused where this version of the engine would."""
    found = problems(
        {key: value for key, value in config.items() if key != SPECULATION}, _without_speculation(version)
    )
    found += _speculation(version, config.get(SPECULATION))
    if not found and version == V14:
        # The facts' schema, unchanged, has the last word.
        found = problems(config, schema(V14))
    found += [] if found else _rules(version, config)
    if found:
        raise Refused(heading(found))


def _without_speculation(version: str) -> dict[str, Any]:
    return {**schema(version), "required": []}


def _speculation(version: str, spec: Any) -> list[str]:
    """By its tag: the old dispatch, or pydantic's union."""
    if spec is None:
        return []
    if not isinstance(spec, dict):
        return [problem([SPECULATION], "model_attributes_type", "Input should be a valid dictionary", spec)]
    known, tag = decodings(version), spec.get("decoding_type")
    if version in (SPARK, V12) and tag not in known:
        raise Refused(f"ValueError: Invalid decoding type: {tag}")
    if tag is None:
        text = "Unable to extract tag using discriminator 'decoding_type'"
        return [problem([SPECULATION], "union_tag_not_found", text, spec)]
    if tag not in known:
        text = f"Input tag '{tag}' found using 'decoding_type' does not match any of the expected tags: "
        return [
            problem(
                [SPECULATION],
                "union_tag_invalid",
                text + ", ".join(f"'{one}'" for one in sorted(known)),
                spec,
            )
        ]
    whole = schema(version)
    return problems(spec, {**whole["$defs"][known[tag]], "$defs": whole["$defs"]}, (SPECULATION, tag))


def _rules(version: str, config: dict[str, Any]) -> list[str]:
    """What validators say that no schema can."""
    found, spec, graphs = [], config.get(SPECULATION) or {}, config.get("cuda_graph_config") or {}
    tag = spec.get("decoding_type", "")
    if tag in ("Medusa", "Lookahead"):
        found.append(f"Speculation type {tag} is not supported with backend pytorch")
    if tag in COUNTED and not (spec.get("max_draft_len") or 0) > 0:
        found.append(f"max_draft_len must be > 0 for {tag}")
    if tag in DRAFTED and not draft_of(config):
        found.append(f"Draft model must be provided for {tag}: speculative_model_dir is None")
    if tag == "NGram" and version in (SPARK, V12) and not spec.get("max_matching_ngram_size", 0) > 0:
        found.append("max_matching_ngram_size must be > 0 for NGram")
    if spec.get("use_dynamic_tree") and not (spec.get("dynamic_tree_max_topK") or 0) > 0:
        found.append("dynamic_tree_max_topK should be > 0 when use_dynamic_tree is True")
    if spec.get("max_concurrency") and spec.get("draft_len_schedule"):
        found.append("max_concurrency and draft_len_schedule are mutually exclusive")
    sizes, largest = graphs.get("batch_sizes"), graphs.get("max_batch_size") or 0
    if sizes and largest and (version in (SPARK, V12) or max(sizes) != largest):
        found.append(
            "Please don't set both cuda_graph_config.batch_sizes and cuda_graph_config.max_batch_size"
        )
    if spec and (config.get("pipeline_parallel_size") or 1) > 1 and version in (RC12, V14):
        found.append("Speculative decoding is not supported with pipeline parallelism")
    return [problem([], "value_error", f"Value error, {text}", config) for text in found]


def draft_of(config: dict[str, Any]) -> str:
    """The draft as the config names it; "" without."""
    spec = config.get(SPECULATION) or {}
    return spec.get("speculative_model_dir") or spec.get("speculative_model") or ""


def draft_len(config: dict[str, Any]) -> int:
    return int((config.get(SPECULATION) or {}).get("max_draft_len") or 0)


def read_draft(version: str, config: dict[str, Any]) -> None:
    """The draft's folder, or from 1.3 on its repository. Raises Refused."""
    draft = draft_of(config)
    if not draft:
        return
    if version in (SPARK, V12) and not Path(draft).is_dir():
        raise Refused(f"FileNotFoundError: [Errno 2] No such file or directory: '{draft}/config.json'")
    folder = hub.resolve(draft)
    hub.read_config(folder)
    hub.read_weights(folder)


def greedy_only(version: str, config: dict[str, Any]) -> bool:
    """Whether one-model speculation drops the sampling parameters of requests."""
    spec = config.get(SPECULATION) or {}
    one_model = (spec.get("decoding_type") in ("Eagle", "Eagle3") and spec.get("eagle3_one_model", True)) or (
        spec.get("decoding_type") == "Draft_Target"
    )
    return bool(one_model) and version != V14 and not spec.get("allow_advanced_sampling", False)
