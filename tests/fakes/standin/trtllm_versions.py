"""What each version of TensorRT-LLM knows: its options, its config's schema, its decoding tags.

Only what the facts state for a version is accepted: what is undetermined for it is refused, so that a config
that passes here is spelled in a way that is sure.
"""

import copy
import os
from functools import cache
from typing import Any

from standin.facts import load

SPARK, V12, RC12, V14 = "spark-single-gpu-dev", "1.2.1", "1.3.0rc12", "1.4.0rc0"
VERSIONS = (SPARK, V12, RC12, V14)
TAGS_11 = ("MTP", "Medusa", "Eagle", "Lookahead", "NGram", "DraftTarget", "UserProvided", "AUTO")
# Keys of the 1.4 schema that came after 1.3.0rc12, by class ("" is the top level).
LATER = {
    "": (
        "per_request_spec_decode_stats",
        "perf_metrics_output_dir",
        "num_serve_frontends",
        "generation_config",
    ),
    "KvCacheConfig": ("disk_cache_size", "disk_cache_path", "disk_prefetch_num_reqs"),
}
LATER_DECODING = ("advanced_sampling_mode", "enable_penalty", "moe_backend")
ONLY_LATER_LONG = (
    "--tensor_parallel_size", "--pipeline_parallel_size", "--context_parallel_size",
    "--moe_expert_parallel_size", "--moe_cluster_parallel_size",
)  # fmt: skip
NOT_IN_11 = ("--config", "--free_gpu_memory_fraction", "--grpc")


def version() -> str:
    found = os.environ.get("STANDIN_VERSION", V14)
    if found not in VERSIONS:
        raise ValueError(f"STANDIN_VERSION is {found}, known are {VERSIONS}")
    return found


def options(of: str) -> dict[str, dict[str, Any]]:
    """The options of `serve` by name, as in serve-cli.json, with the flags that this version knows."""
    facts = load("serve-cli.json")
    known: dict[str, dict[str, Any]] = copy.deepcopy(facts["commands"]["serve"])
    if of == V14:
        return known
    flags = {flag for flags in facts["earlier_serve_py_snapshot"]["serve_flags"] for flag in flags.split("/")}
    flags -= {*ONLY_LATER_LONG, *NOT_IN_11} if of == SPARK else set(ONLY_LATER_LONG) if of == V12 else set()
    flags |= {"--kv_cache_dtype"} if of == RC12 else set()
    for option in known.values():
        option["flags"] = [flag for flag in option["flags"] if flag in flags]
    known["backend"]["choices"] += ["tensorrt", "trt"]
    return {name: option for name, option in known.items() if option["flags"]}


@cache
def schema(of: str) -> dict[str, Any]:
    """The JSON schema of the config file. For 1.4.0rc0 it is the facts' own, unchanged."""
    if of == V14:
        found: dict[str, Any] = load("serve-config-1.4.json")
        return found
    return _between() if of == RC12 else _walked(of)


@cache
def decodings(of: str) -> dict[str, str]:
    """The class of each decoding tag that a config file may have."""
    if of in (V14, RC12):
        branch = load("serve-config-1.4.json")["properties"]["speculative_config"]["anyOf"][0]
        tags = {tag: ref.rpartition("/")[2] for tag, ref in branch["discriminator"]["mapping"].items()}
        return {tag: name for tag, name in tags.items() if of == V14 or tag != "DSpark"}
    facts = load("decoding-1.2.1.json")
    names = {one["decoding_type_in_yaml"]: name for name, one in facts.items() if _is_decoding(one)}
    known = facts["decoding_type"]["from_dict_keys"] if of == V12 else TAGS_11
    return {tag: names.get(tag, "DecodingBaseConfig") for tag in known}


def _is_decoding(one: Any) -> bool:
    return isinstance(one, dict) and "decoding_type_in_yaml" in one


def _between() -> dict[str, Any]:
    """1.3.0rc12: the 1.4 schema without what came later, with what 1.2.1 had and only 1.4 dropped."""
    made: dict[str, Any] = copy.deepcopy(load("serve-config-1.4.json"))
    walked = _walked(V12)
    for name in decodings(RC12).values():
        properties = made["$defs"][name]["properties"]
        for key in LATER_DECODING:
            properties.pop(key, None)
    for name, keys in LATER.items():
        for key in keys:
            del (made["$defs"][name] if name else made)["properties"][key]
    made["properties"]["cuda_graph_config"] = walked["properties"]["cuda_graph_config"]
    made["$defs"]["MoeConfig"]["properties"]["backend"]["enum"].append("WIDEEP")
    pairs = [(made, walked)]
    pairs += [(made["$defs"][name], one) for name, one in walked["$defs"].items() if name in made["$defs"]]
    pairs += [(made["$defs"]["Eagle3DecodingConfig"], walked["$defs"]["EagleDecodingConfig"])]
    for new, old in pairs:
        for key, field in old["properties"].items():
            new["properties"].setdefault(key, copy.deepcopy(field))
    for name, one in walked["$defs"].items():
        made["$defs"].setdefault(name, copy.deepcopy(one))
    return made


def _walked(of: str) -> dict[str, Any]:
    """A schema out of the facts of 1.2.1, without what 1.1 lacked where it is that."""
    facts = load("decoding-1.2.1.json")
    defs = {
        name: _object(one["fields"], facts)
        for name, one in facts.items()
        if isinstance(one, dict) and "fields" in one
    }
    base = defs["DecodingBaseConfig"]["properties"]
    base["speculative_model_dir"] = base["speculative_model"]
    if of == SPARK:
        del base["speculative_model"], base["allow_advanced_sampling"]
        del defs["KvCacheConfig"]["properties"]["max_gpu_total_bytes"]
    for name, one in facts.items():
        if _is_decoding(one):
            defs[name]["properties"] |= {**base, "decoding_type": {"const": one["decoding_type_in_yaml"]}}
            defs[name]["required"] = one.get("required", [])
    made = _object({**facts["TorchLlmArgs"]["base_fields"], **facts["TorchLlmArgs"]["torch_fields"]}, facts)
    del made["properties"]["quant_config"]  # a property of the class, not a field
    made["properties"]["_mpi_session"] = made["properties"].pop("mpi_session")
    if of == SPARK:
        del made["properties"]["env_overrides"]
    return {**made, "$defs": defs}


def _object(fields: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: _field(field, facts) for name, field in fields.items()},
    }


def _field(field: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    kept = {
        key: field[key]
        for key in field
        if key in ("type", "enum", "items", "minimum", "maximum", "exclusiveMinimum")
    }
    if "known_values" in field:
        kept["enum"] = field["known_values"]
    name = field.get("class")
    if name in facts and "fields" in facts[name]:
        reference = {"$ref": f"#/$defs/{name}"}
        others = [{"type": kind} for kind in ("null", "string") if kind in field["type"]]
        return {"anyOf": [reference, *others]} if others else reference
    return kept
