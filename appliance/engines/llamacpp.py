"""llama.cpp, embedded: xllamacpp's server behind `llamacpp_program.py`. Serves anywhere, on the CPU.

Names and texts below were read from the live engine of the pinned version.
"""

import json
from pathlib import PurePosixPath
from typing import Any

from appliance.catalog.stack import RuntimeName, Stack
from appliance.core.errors import ConfigFault
from appliance.engines.base import Death, Engine, Launch, Pair, Place
from appliance.supervise.plan import CounterTable, Phase

VERSION = "2026.10.11549"
PROGRAM = "llamacpp_program.py"
SETTINGS = "llamacpp.json"
# How often a waiting thread looks before it sleeps. libgomp's own 300000 made the engine 5 to 100 times slower
# on cores shared with other work, none at all (OMP_WAIT_POLICY=passive) up to 3 times slower on free ones.
SPINS = "1000"


class LlamaCpp:
    """The embedded engine's tables."""

    name = "llamacpp"
    formats: tuple[str, ...] = ("gguf",)
    runtimes: tuple[RuntimeName, ...] = ("docker", "process")
    gpu = False
    health_path = "/health"
    chat_path = "/v1/chat/completions"
    local_modules: tuple[str, ...] = ("xllamacpp",)
    counters: CounterTable | None = CounterTable(
        path="/metrics",
        format="prometheus",
        names={
            "generated": "llamacpp:tokens_predicted_total",
            "steps": "llamacpp:spec_decode_num_drafts_total",
            "drafted": "llamacpp:spec_decode_num_draft_tokens_total",
            "accepted": "llamacpp:spec_decode_num_accepted_tokens_total",
            "accepted_per_position": "llamacpp:spec_decode_num_accepted_tokens_per_pos_total",
            # Tokens are counted when a request ends; decode calls while it runs.
            "progress": "llamacpp:n_decode_total",
            "active": "llamacpp:requests_processing",
        },
    )
    phases: tuple[Phase, ...] = (
        Phase(r"load_model: loading model '(?:.*/)?(.+)'", r"loading \1"),
        Phase(r"loading draft model '(?:.*/)?(.+)'", r"loading the draft \1"),
        Phase(r"load_model: initializing, n_slots = (\d+), n_ctx_slot = (\d+)", r"preparing \1 x \2 tokens"),
        Phase(r"srv +init: model loaded", "loaded"),
    )
    deaths: tuple[Death, ...] = (
        Death(
            r"couldn't bind HTTP server socket.*port: \d+",
            "the port is taken by another program",
            "choose another port with --set serve.port=…, or end the other program",
        ),
        Death(
            r"failed to open GGUF file .*\(No such file or directory\)",
            "a model file is not there",
            "`spark-spec models list` says what is missing; the next `spark-spec up` gets it",
        ),
        Death(
            r"failed to open GGUF file .*\(Permission denied\)",
            "a model file may not be read by the engine's user",
            "make the models folder readable: chmod -R a+rX <models folder>",
        ),
        Death(
            r"invalid magic|failed to read magic|model is corrupted or incomplete",
            "a model file is damaged",
            "`spark-spec models verify` names it; the next `spark-spec up` gets it anew",
        ),
        Death(
            r"n_seq_max must be <= \d+",
            "the engine cannot work on so many requests at once",
            "lower serve.max_batch_size to 256 or less",
        ),
        Death(
            r"the target and draft vocabs are not compatible",
            "the draft has another tokenizer than the target",
            "choose a draft made for this target, or --no-spec",
        ),
        Death(
            r"insufficient memory|failed to allocate|bad_alloc|Cannot allocate memory|\bSIGKILL\b",
            "there is not enough memory",
            "lower serve.max_seq_len or serve.max_batch_size, or end other programs",
        ),
        Death(
            r"\bSIGILL\b|Illegal instruction",
            "the processor lacks an instruction that this build of the engine uses",
            "run it on another machine, or build xllamacpp for this one (pip install --no-binary xllamacpp)",
        ),
        Death(
            r"No module named 'xllamacpp'",
            "the embedded engine is not installed in this Python",
            "pip install 'spark-spec[local]'",
        ),
        Death(
            r"llamacpp_program: (unknown )?parameter",
            "this version of the engine does not know a parameter of ours",
            f"install the version this appliance was made for: pip install xllamacpp=={VERSION}",
        ),
    )

    def version(self, stack: Stack) -> str:
        return stack.engine.version or VERSION

    def check(self, stack: Stack, pair: Pair) -> tuple[str, ...]:
        del pair
        if stack.engine.version not in (None, VERSION):
            raise ConfigFault(
                f"there is no llama.cpp {stack.engine.version} here",
                f"the one in this appliance is {VERSION}",
                "leave engine.version out",
            )
        if stack.serve.max_seq_len is None:
            raise ConfigFault(
                "serve.max_seq_len is not set",
                "this engine makes room for a context of that length",
                "set it",
            )
        return ()

    def launch(self, stack: Stack, pair: Pair, place: Place) -> Launch:
        del pair
        settings = json.dumps(_settings(stack, place), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        return Launch(
            argv=(place.python, str(PurePosixPath(place.programs) / PROGRAM), SETTINGS),
            env={"GOMP_SPINCOUNT": SPINS},
            files={SETTINGS: settings},
        )


def _settings(stack: Stack, place: Place) -> dict[str, Any]:
    """Parameters of xllamacpp's CommonParams by dotted name."""
    threads, slots = stack.llamacpp.threads, stack.serve.max_batch_size
    assert stack.serve.max_seq_len is not None, "check refuses such a stack"
    settings: dict[str, Any] = {
        "model.path": place.target,
        "model_alias": [stack.serve.name],
        "hostnames": [place.host],
        "port": place.port,
        # The context is split evenly over the slots.
        "n_ctx": stack.serve.max_seq_len * slots,
        "n_parallel": slots,
        "endpoint_metrics": True,
        # The program asks it whether speculation is on.
        "endpoint_slots": True,
        "ui": False,
        # A page in the owner's browser, from anywhere, must not reach the engine.
        "cors_origins": "localhost",
        # What was asked for, or a failure: the engine must neither shrink the context nor fetch anything.
        "fit_params": False,
        "offline": True,
        # Up to 8 GiB of old prompts would otherwise be kept beside the KV cache.
        "cache_ram_mib": 0,
    }
    if stack.draft.method == "draft-target":
        settings |= {
            "speculative.types": ["DRAFT_SIMPLE"],
            "speculative.draft.mparams.path": place.draft,
            "speculative.draft.n_max": stack.draft.k,
        }
    if threads is not None:
        settings |= {"cpuparams.n_threads": threads, "speculative.draft.cpuparams.n_threads": threads}
    return settings


ENGINE: Engine = LlamaCpp()
