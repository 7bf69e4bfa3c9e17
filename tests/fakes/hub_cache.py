"""Model folders as the Hugging Face library keeps them: blobs, refs, and snapshots that are links into blobs."""

import hashlib
import json
import os
import struct
from pathlib import Path
from typing import Any

REVISION = "0123456789abcdef0123456789abcdef01234567"
TOKENIZER = {"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}

GPT_OSS_120B: dict[str, Any] = {
    "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "attention_bias": True, "head_dim": 64,
    "hidden_size": 2880, "intermediate_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8,
    "num_hidden_layers": 36, "num_local_experts": 128, "num_experts_per_tok": 4, "experts_per_token": 4,
    "layer_types": ["sliding_attention", "full_attention"] * 18, "sliding_window": 128, "vocab_size": 201088,
    "max_position_embeddings": 131072, "initial_context_length": 4096, "rms_norm_eps": 1e-05, "rope_theta": 150000,
    "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                     "original_max_position_embeddings": 4096, "truncate": False},
    "tie_word_embeddings": False, "hidden_act": "silu", "torch_dtype": "bfloat16", "eos_token_id": 200002,
    "pad_token_id": 199999, "quantization_config": {
        "quant_method": "mxfp4",
        "modules_to_not_convert": [
            "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]},
}  # fmt: skip
EAGLE3_HEAD: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "attention_bias": False, "head_dim": 64,
    "hidden_size": 2880, "intermediate_size": 17280, "num_attention_heads": 64, "num_key_value_heads": 8,
    "num_hidden_layers": 1, "vocab_size": 201088, "draft_vocab_size": 201088, "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-05, "rope_theta": 150000, "hidden_act": "silu", "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 17, 32], "use_aux_hidden_state": True,
                     "use_input_layernorm_in_first_layer": True, "use_last_layernorm": True,
                     "use_mtp_layernorm": False},
}  # fmt: skip
_LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": False, "head_dim": 128,
    "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072, "rms_norm_eps": 1e-05,
    "rope_theta": 500000.0, "hidden_act": "silu", "torch_dtype": "bfloat16", "tie_word_embeddings": False,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 8192},
    "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009],
    "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"],
                            "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"}},
}  # fmt: skip
LLAMA_33_70B_FP4: dict[str, Any] = {
    **_LLAMA, "hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64, "num_hidden_layers": 80,
}  # fmt: skip
LLAMA_31_8B_FP4: dict[str, Any] = {
    **_LLAMA, "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32,
}  # fmt: skip


def make(
    folder: Path, repo: str, *, config: dict[str, Any], revision: str = REVISION,
    files: dict[str, bytes] | None = None, ref: str = "main", standin: dict[str, Any] | None = None,
) -> Path:  # fmt: skip
    """Write a repository into the cache `folder` (that is HF_HOME/hub); the path of its snapshot.

    It has a config, a tokenizer, its config, and one small weight file; `files` adds or replaces files by their
    path; `standin` becomes the stand-in's standin.json.
    """
    root = folder / f"models--{repo.replace('/', '--')}"
    contents: dict[str, bytes] = {
        "config.json": _json(config),
        "generation_config.json": _json({"eos_token_id": config.get("eos_token_id")}),
        "tokenizer.json": _json(TOKENIZER),
        "tokenizer_config.json": _json({"tokenizer_class": "PreTrainedTokenizerFast"}),
        "model.safetensors": safetensors({"model.embed_tokens.weight": (4, 8), "lm_head.weight": (4, 8)}),
        **(files or {}),
        **({"standin.json": _json(standin)} if standin is not None else {}),
    }
    (root / "refs").mkdir(parents=True, exist_ok=True)
    (root / "refs" / ref).write_text(revision)
    (root / "blobs").mkdir(exist_ok=True)
    snapshot = root / "snapshots" / revision
    for name, content in contents.items():
        blob = root / "blobs" / hashlib.sha256(content).hexdigest()
        blob.write_bytes(content)
        link = snapshot / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    return snapshot


def safetensors(shapes: dict[str, tuple[int, ...]]) -> bytes:
    """A real safetensors file of bfloat16 zeros: header length, JSON header, data."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + 2 * _product(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [start, end]}
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    return struct.pack("<Q", len(raw)) + raw + bytes(end)


def _product(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
