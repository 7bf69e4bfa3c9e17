"""The rendered files of a stack: pure text, f(Stack, Machine), the same to the byte each time.

compose.yaml            docker only
engine/supervise.json   what the supervisor is to start and watch
engine/<engine's files>
manifest.json           versions, models, and the sha256 of each file above
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from appliance import __version__, engines
from appliance.catalog.entries import Entry, load_entry
from appliance.catalog.stack import Stack
from appliance.core.errors import ConfigFault
from appliance.engines.base import Engine, Launch, Place
from appliance.images.versions import reference
from appliance.machine.facts import Machine
from appliance.models.place import place
from appliance.stack.template import render_yaml
from appliance.supervise.plan import Limits, Plan

SCHEMA = 1
CONTAINER_PORT = 8000
CONTAINER_MODELS = "/models"
CONTAINER_PROGRAMS = "/opt/spark-spec/programs"
UNSET_DIGEST = "0" * 64


@dataclass(frozen=True)
class Rendered:
    """A rendered stack: file texts by relative path, and the digest that names this content."""

    name: str
    digest: str
    image: str | None
    files: Mapping[str, str]


def stack_models(stack: Stack) -> tuple[Entry, ...]:
    """The models a stack needs, target first. Raises ConfigFault on one the catalog does not have, or one whose
    context is shorter than what is to be served."""
    wanted = [stack.target.model] + ([stack.draft.model] if stack.draft.model else [])
    entries = tuple(load_entry(model) for model in wanted)
    for entry in entries:
        if stack.serve.max_seq_len > entry.context_length:
            raise ConfigFault(
                f"serve.max_seq_len {stack.serve.max_seq_len} is more than {entry.id} can do",
                f"it was made for {entry.context_length} tokens",
                f"set serve.max_seq_len to {entry.context_length} or less",
            )
    return entries


def stack_image(stack: Stack) -> str:
    """The image that serves a stack: its own, or the one named in its settings."""
    return stack.image or reference(f"serve-{stack.engine}")


def render(stack: Stack, machine: Machine, name: str) -> Rendered:
    """All files of a stack for a machine. Raises ConfigFault where the engine cannot run such a stack.

    The digest is taken over the files as rendered without it, then written into them.
    """
    blank = _files(stack, machine, name, UNSET_DIGEST)
    digest = hashlib.sha256(json.dumps(blank, sort_keys=True).encode()).hexdigest()
    files = _files(stack, machine, name, digest)
    image = stack_image(stack) if machine.runtime == "docker" else None
    files["manifest.json"] = _manifest(stack, machine, name, digest, image, files)
    return Rendered(name, digest, image, files)


def _files(stack: Stack, machine: Machine, name: str, digest: str) -> dict[str, str]:
    engine = engines.get(stack.engine)
    here = _place(stack, machine)
    launch = engine.launch(stack, here)
    files = {f"engine/{file}": text for file, text in launch.files.items()}
    files["engine/supervise.json"] = _plan(stack, engine, launch, here, name, digest).to_json()
    if machine.runtime == "docker":
        files["compose.yaml"] = render_yaml("compose/compose.yaml.j2", _compose(stack, machine, name, digest))
    return files


def _place(stack: Stack, machine: Machine) -> Place:
    inside = machine.runtime == "docker"
    folder = CONTAINER_MODELS if inside else machine.models
    paths = [f"{folder}/{place(entry)}" for entry in stack_models(stack)]
    return Place(
        python=machine.python if not inside else "python3",
        programs=CONTAINER_PROGRAMS if inside else machine.programs,
        target=paths[0],
        draft=paths[1] if len(paths) > 1 else None,
        host="0.0.0.0" if inside else "127.0.0.1",
        port=CONTAINER_PORT if inside else stack.serve.port,
    )


def _plan(stack: Stack, engine: Engine, launch: Launch, here: Place, name: str, digest: str) -> Plan:
    return Plan(
        stack=name,
        digest=digest,
        engine=engine.name,
        argv=launch.argv,
        env=dict(launch.env),
        base_url=f"http://127.0.0.1:{here.port}",
        health_path=engine.health_path,
        chat_path=engine.chat_path,
        chat_body={
            "model": stack.serve.name,
            "messages": [{"role": "user", "content": "Say yes."}],
            "max_tokens": 1,
            "temperature": 0,
        },
        counters=engine.counters,
        phases=engine.phases,
        limits=Limits(
            restarts=stack.health.restarts, stall_s=stack.health.stall_s, wedge_s=stack.health.wedge_s
        ),
    )


def _compose(stack: Stack, machine: Machine, name: str, digest: str) -> dict[str, Any]:
    return {
        "version": __version__,
        "preset": stack.preset,
        "project": project(name, machine.home) if machine.home else name,
        "stack": name,
        "digest": digest,
        "home": machine.home,
        "image": stack_image(stack),
        "port": stack.serve.port,
        "container_port": CONTAINER_PORT,
        "models": machine.models,
        "container_models": CONTAINER_MODELS,
    }


def project(name: str, home: str) -> str:
    """The compose project of a stack that the launcher runs. The state folder is in it: two users, or two folders,
    may have stacks of one name on one Docker. (A checked-in stack is called by its own name.)"""
    return f"spark-spec-{name}-{hashlib.sha256(home.encode()).hexdigest()[:8]}"


def _manifest(
    stack: Stack, machine: Machine, name: str, digest: str, image: str | None, files: Mapping[str, str]
) -> str:
    engine = engines.get(stack.engine)
    manifest = {
        "schema": SCHEMA,
        "appliance": __version__,
        "name": name,
        "digest": digest,
        "runtime": machine.runtime,
        "engine": {"name": engine.name, "version": engine.version()},
        "image": image,
        "models": [entry.manifest() for entry in stack_models(stack)],
        "models_folder": machine.models,
        "stack": stack.model_dump(mode="json", by_alias=True),
        "files": {path: hashlib.sha256(text.encode()).hexdigest() for path, text in sorted(files.items())},
    }
    return json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
