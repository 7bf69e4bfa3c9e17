"""Stacks, models and a place, for the engines that run in GPU images."""

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.catalog.entries import Entry, parse_entry
from appliance.catalog.stack import EngineName, Stack
from appliance.engines.base import Pair, Place

FACTS = Path(__file__).resolve().parents[3] / "shared" / "facts"
with_facts = pytest.mark.skipif(not FACTS.is_dir(), reason="the facts are not beside the repository")

GPT, LLAMA = "openai/gpt-oss-120b", "nvidia/Llama-3.3-70B-Instruct-FP4"
HEAD, SMALL = "nvidia/gpt-oss-120b-Eagle3-v3", "nvidia/Llama-3.1-8B-Instruct-FP4"
PLACE = Place(
    python="python3",
    programs="/opt/spark-spec/programs",
    config="/etc/spark-spec",
    state="/var/lib/spark-spec",
    target="/t",
    draft="/d",
    host="0.0.0.0",
    port=8000,
)


def entry(repo: str, **facts: Any) -> Entry:
    base = {
        "name": repo,
        "license": None,
        "format": "safetensors",
        "quantization": None,
        "context_length": None,
        "source": {
            "kind": "hub",
            "repo": repo,
            "revision": None,
            "files": ["*.json", "*.safetensors"],
            "bytes": None,
        },
    }
    return parse_entry(repo.rpartition("/")[2].lower(), base | facts)


def head(layers: list[int] | None = None) -> Entry:
    told = {"vllm": layers} if layers else {}
    return entry(
        HEAD,
        head={
            "method": "eagle3",
            "target": "gpt-oss-120b",
            "engines": ["vllm"],
            "layers": told,
            "k": 1,
            "k_most": 3,
        },
    )


GPT_OSS = entry(GPT, quantization="MXFP4", chat="harmony")
LLAMA_70B = entry(LLAMA, quantization="NVFP4")
LLAMA_8B = entry(SMALL, quantization="NVFP4")
OTHER = entry("someone/Other-1B")
EAGLE3 = Pair(GPT_OSS, head())
EAGLE3_V3 = Pair(GPT_OSS, head([24, 30, 36]))
DRAFT_TARGET = Pair(LLAMA_70B, LLAMA_8B)
BASELINE = Pair(GPT_OSS, None)


def stack(engine: EngineName, pair: Pair, *, version: str | None = None, **sections: Any) -> Stack:
    """A stack like a preset's: an Eagle3 head with K=3, a draft model with K=4, or no draft."""
    draft: dict[str, Any] = {"method": "none"}
    if pair.draft:
        eagle = pair.draft.head is not None
        draft = {
            "method": "eagle3" if eagle else "draft-target",
            "model": pair.draft.id,
            "k": 3 if eagle else 4,
        }
    base = {
        "preset": "test",
        "engine": {"name": engine, "version": version},
        "target": {"model": pair.target.id},
        "draft": draft,
        "serve": {"name": pair.target.name, "max_seq_len": 8192, "max_batch_size": 2},
    }
    return Stack.model_validate(base | sections)


def flags(facts_file: str) -> set[str]:
    """Every option that the engine's real parser has, from the facts."""
    raw = json.loads((FACTS / facts_file).read_text(encoding="utf-8"))
    return {flag for group in raw["options"].values() for one in group for flag in one.get("flags", ())}
