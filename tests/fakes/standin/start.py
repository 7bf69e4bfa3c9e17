"""The way from a checked command line to an engine that serves. The same for all three."""

import os
import signal
import time
from collections.abc import Sequence
from typing import NoReturn

from standin.engine import Engine
from standin.life import bind, complain, end_on_signals, pace, reset_for, say
from standin.llama import Llama
from standin.server import Server, serve

STALL_AT = "stall"


def run(
    engine: Engine,
    host: str,
    port: int,
    *,
    loading: Sequence[str],
    loaded: Sequence[str],
    at_ready: Sequence[str],
    code: int,
) -> NoReturn:
    """Load, listen, start, serve. `code` is the exit code at SIGTERM. OSError if the port is taken."""
    plan = engine.plan
    end_on_signals(code, lambda: engine.llama.kill() if engine.llama else None)
    bound = bind(host, port)
    for line in pace(loading, plan.refused_s / 2):
        say(line)
        if plan.stall_while_loading:
            wait_for_ever()
    if plan.die_while_loading is not None:
        complain(plan.die_while_loading.get("line", ""))
        os._exit(int(plan.die_while_loading.get("code", 1)))
    engine.llama = Llama(engine.draft_len)
    engine.llama.wait()
    for line in pace(loaded, plan.refused_s / 2):
        say(line)
    bound.listen(128)
    reset_for(bound, plan.reset_s)
    serve(Server(bound, engine))
    time.sleep(plan.starting_s)
    engine.ready = True
    for line in at_ready:
        complain(line)
    while engine.llama.child.poll() is None:
        time.sleep(0.5)
    complain("standin: llama.cpp ended: " + b"".join(engine.llama.tail).decode(errors="replace"))
    os._exit(1)


def wait_for_ever() -> NoReturn:
    while True:
        signal.pause()
