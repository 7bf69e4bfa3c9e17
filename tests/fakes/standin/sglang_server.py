"""`python3 -m sglang.launch_server` and `sglang serve`: argparse with the real options, and their rules."""

import os
import sys
from typing import Any, NoReturn

from standin import hub
from standin.facts import Refused, load
from standin.life import look_at_environment, read_plan, say, set_twice, traceback
from standin.options import parser, twice
from standin.sglang_service import SgLang
from standin.start import run

PROGRAM = "/usr/local/lib/python3.12/dist-packages/sglang/launch_server.py"
EAGLES = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")


def main(prog: str = "launch_server.py") -> NoReturn:
    options = [option for group in load("sglang-serve.json")["options"].values() for option in group]
    made = parser(prog, f"{prog} [-h] --model-path MODEL_PATH [options]", options)
    parsed = vars(made.parse_args())
    look_at_environment()
    set_twice(twice(made, sys.argv[1:]))
    if parsed["api_key"]:
        say("standin: SECRET IN ARGV --api-key")
    try:
        engine = _engine(parsed)
    except Refused as refused:
        traceback(PROGRAM, str(refused))
        sys.exit(refused.code)
    host, port = parsed["host"], parsed["port"]
    try:
        run(
            engine, host, port,
            loading=["Load weight begin. avail mem=110.00 GB", "Load weight end. elapsed=12.3 s, avail mem=50.00 GB"],
            loaded=["Capture cuda graph begin. This can take up to several minutes. avail mem=20.00 GB",
                    "Capture cuda graph end. Time elapsed: 3.21 s. mem usage=0.20 GB. avail mem=19.80 GB."],
            at_ready=[f"INFO:     Started server process [{os.getpid()}]", "INFO:     Application startup complete.",
                      f"INFO:     Uvicorn running on http://{host}:{port} (Press CTRL+C to quit)",
                      "The server is fired up and ready to roll!"],
            code=0,
        )  # fmt: skip
    except OSError as error:
        traceback(PROGRAM, f"OSError: {error}")
        sys.exit(1)


def _engine(parsed: dict[str, Any]) -> SgLang:
    """Everything that the engine checks before it loads. Raises Refused."""
    name = parsed["served_model_name"] or parsed["model_path"]
    if ":" in name:
        raise Refused(f"ValueError: served_model_name cannot contain a colon (':') character. Got: {name}")
    folder = hub.resolve(parsed["model_path"], parsed["revision"])
    config = hub.read_config(folder)
    hub.read_weights(folder)
    hub.read_tokenizer(folder)
    steps = speculation(parsed, config)
    if steps and parsed["speculative_draft_model_path"]:
        draft = hub.resolve(
            parsed["speculative_draft_model_path"], parsed["speculative_draft_model_revision"]
        )
        hub.read_config(draft)
        hub.read_weights(draft)
    return SgLang([name], steps, read_plan(folder), parsed)


def speculation(parsed: dict[str, Any], config: dict[str, Any]) -> int:
    """The draft length, by the rules of the facts; 0 without. Raises Refused."""
    facts = load("sglang-serve.json")["speculative"]
    algorithm = (parsed["speculative_algorithm"] or "NONE").upper()
    if algorithm == "NONE":
        return 0
    if algorithm not in facts["algorithms"]:
        raise Refused(f"ValueError: Unknown speculative algorithm: {parsed['speculative_algorithm']}")
    steps, topk, tokens = (
        parsed[f"speculative_{name}"] for name in ("num_steps", "eagle_topk", "num_draft_tokens")
    )
    draft = parsed["speculative_draft_model_path"]
    if algorithm in EAGLES:
        if draft is None:
            raise Refused("AttributeError: 'NoneType' object has no attribute 'architectures'")
        if steps is None:
            if topk is not None or tokens is not None:
                raise Refused("AssertionError")
            name = (config.get("architectures") or ["other"])[0]
            auto = facts["auto_params"]
            steps, topk, tokens = auto[
                "STANDALONE" if algorithm == "STANDALONE" else name if name in auto else "other"
            ]
        if topk is None:
            raise Refused("TypeError: '>' not supported between instances of 'NoneType' and 'int'")
        if topk == 1 and tokens != steps + 1:
            say(
                "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when speculative_eagle_topk == 1"
            )
        elif topk > 1 and tokens is None:
            raise Refused("TypeError: unsupported operand type(s) for -: 'NoneType' and 'int'")
        if (
            topk > 1
            and (parsed["page_size"] or 1) > 1
            and parsed["attention_backend"] not in ("flashinfer", "fa3", "triton")
        ):
            raise Refused(
                "ValueError: speculative_eagle_topk > 1 with page_size > 1 is unstable and produces incorrect "
                "results for paged attention backends."
            )
        if steps < 1:
            raise Refused(f"AssertionError: speculative_num_steps must be positive: {steps}")
    elif algorithm in ("DFLASH", "DSPARK") and draft is None:
        raise Refused(
            f"ValueError: {algorithm} speculative decoding requires setting --speculative-draft-model-path."
        )
    if parsed["speculative_use_rejection_sampling"] and (algorithm not in EAGLES[:3] or topk != 1):
        raise Refused(
            "ValueError: rejection sampling needs EAGLE, EAGLE3 or NEXTN with speculative_eagle_topk 1"
        )
    if (parsed["pp_size"] or 1) > 1:
        raise Refused(f"ValueError: {algorithm} speculative decoding does not support pipeline parallelism")
    return int(steps or (tokens or 12) - 1)


if __name__ == "__main__":
    main()
