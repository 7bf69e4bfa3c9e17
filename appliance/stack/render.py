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
from appliance.catalog.entries import Entry, HubSource
from appliance.catalog.stack import Stack
from appliance.core.errors import ConfigFault
from appliance.core.template import Variable, render_yaml
from appliance.engines.base import CONTAINER_HARMONY, Launch, Place
from appliance.images.versions import ImageName, own
from appliance.machine.facts import Machine
from appliance.models.harmony import HARMONY
from appliance.models.place import place
from appliance.stack.check import check, pair_of
from appliance.supervise.needs import MODELS
from appliance.supervise.plan import File, Limits, Plan, Snapshot

SCHEMA = 2
CONTAINER_PORT = 8000
CONTAINER_MODELS = "/models"
CONTAINER_HUB = "/hub"
CONTAINER_PROGRAMS = "/opt/spark-spec/programs"
CONTAINER_CONFIG = "/etc/spark-spec"
CONTAINER_STATE = "/var/lib/spark-spec"
UNSET_DIGEST = "0" * 64


@dataclass(frozen=True)
class Rendered:
    """A rendered stack: file texts by relative path, and the digest that names this content."""

    name: str
    digest: str
    image: str | None
    files: Mapping[str, str]


def stack_models(stack: Stack) -> tuple[Entry, ...]:
    """The models a stack needs, target first. Raises ConfigFault on one the catalog does not have."""
    pair = pair_of(stack)
    return (pair.target, pair.draft) if pair.draft else (pair.target,)


def stack_image(stack: Stack) -> ImageName:
    """The image that serves a stack: its own, or the one named in its settings."""
    version = engines.get(stack.engine.name).version(stack)
    return (
        ImageName(stack.image)
        if stack.image
        else own(f"serve-{stack.engine.name}", version, stack.docker.base)
    )


def needs_harmony(stack: Stack) -> bool:
    """Whether the engine needs the vocabulary of the harmony format beside the model's own files."""
    return pair_of(stack).target.chat == "harmony"


def render(stack: Stack, machine: Machine, name: str) -> Rendered:
    """All files of a stack for a machine. Raises ConfigFault where such a stack cannot be.

    The digest is taken over the files as rendered without it, then written into them.
    """
    check(stack)
    _check_runtime(stack, machine)
    blank = _files(stack, machine, name, UNSET_DIGEST)
    digest = hashlib.sha256(json.dumps(blank, sort_keys=True).encode()).hexdigest()
    files = _files(stack, machine, name, digest)
    image = stack_image(stack).reference if machine.runtime == "docker" else None
    files["manifest.json"] = _manifest(stack, machine, name, digest, image, files)
    return Rendered(name, digest, image, files)


def _check_runtime(stack: Stack, machine: Machine) -> None:
    runtimes = engines.get(stack.engine.name).runtimes
    if machine.runtime not in runtimes:
        raise ConfigFault(
            f"{stack.engine.name} does not run as a {machine.runtime} here",
            "its program lies in a container image",
            f"leave --runtime out, or use --runtime {runtimes[0]}; without Docker: spark-spec up demo",
        )


def _files(stack: Stack, machine: Machine, name: str, digest: str) -> dict[str, str]:
    engine = engines.get(stack.engine.name)
    here = _place(stack, machine)
    launch = engine.launch(stack, pair_of(stack), here)
    files = {f"engine/{file}": text for file, text in launch.files.items()}
    files["engine/supervise.json"] = _plan(stack, machine, launch, here, name, digest).to_json()
    if machine.runtime == "docker":
        files["compose.yaml"] = render_yaml("compose/compose.yaml.j2", _compose(stack, machine, name, digest))
    return files


def _place(stack: Stack, machine: Machine) -> Place:
    inside = machine.runtime == "docker"
    paths = [_path(entry, machine) for entry in stack_models(stack)]
    return Place(
        python=machine.python if not inside else "python3",
        programs=CONTAINER_PROGRAMS if inside else machine.programs,
        config=CONTAINER_CONFIG,
        state=CONTAINER_STATE,
        target=paths[0],
        draft=paths[1] if len(paths) > 1 else None,
        host="0.0.0.0" if inside else "127.0.0.1",
        port=CONTAINER_PORT if inside else stack.serve.port,
    )


def _path(entry: Entry, machine: Machine) -> str:
    if isinstance(entry.source, HubSource):
        return f"{CONTAINER_STATE}/{MODELS}/{entry.source.repo}"  # laid out by the supervisor
    return f"{CONTAINER_MODELS if machine.runtime == 'docker' else machine.models}/{place(entry)}"


def _plan(stack: Stack, machine: Machine, launch: Launch, here: Place, name: str, digest: str) -> Plan:
    engine = engines.get(stack.engine.name)
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
        snapshots=tuple(
            Snapshot(
                entry.source.repo,
                f"{CONTAINER_HUB}/{place(entry)}",
                entry.source.revision or machine.revisions.get(entry.source.repo),
            )
            for entry in stack_models(stack)
            if isinstance(entry.source, HubSource)
        ),
        files=tuple(
            File(f"{CONTAINER_HARMONY}/{file}", sha256, "a vocabulary of the harmony format")
            for file, sha256 in (HARMONY.items() if needs_harmony(stack) else ())
        ),
        limits=Limits(
            restarts=stack.health.restarts,
            stall_s=stack.health.stall_s,
            wedge_s=stack.health.wedge_s,
            memory_floor=int(stack.health.memory_floor_gib * 2**30),
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
        "image": stack_image(stack).reference,
        "user": stack.docker.user,
        "gpu": machine.gpu if engines.get(stack.engine.name).gpu else "none",
        "port": stack.serve.port,
        "container_port": CONTAINER_PORT,
        "mounts": _mounts(stack, machine),
    }


def _mounts(stack: Stack, machine: Machine) -> list[tuple[str, str]]:
    """(folder on the host, folder in the container), all read-only: what the engine reads, and nothing beside it.
    A hub's model is mounted as a whole, because its snapshots are links into its blobs."""
    mounts: dict[str, str] = {}
    for entry in stack_models(stack):
        if isinstance(entry.source, HubSource):
            mounts[f"{CONTAINER_HUB}/{place(entry)}"] = _below(machine.hub, place(entry))
        else:
            mounts[CONTAINER_MODELS] = machine.models
    if needs_harmony(stack):
        mounts[CONTAINER_HARMONY] = machine.harmony
    return [(source, target) for target, source in mounts.items()]


def _below(folder: str, name: str) -> str:
    return Variable(f"{folder}/{name}") if isinstance(folder, Variable) else f"{folder}/{name}"


def project(name: str, home: str) -> str:
    """The compose project of a stack that the launcher runs. The state folder is in it: two users, or two folders,
    may have stacks of one name on one Docker. (A checked-in stack is called by its own name.)"""
    return f"spark-spec-{name}-{hashlib.sha256(home.encode()).hexdigest()[:8]}"


def _manifest(
    stack: Stack, machine: Machine, name: str, digest: str, image: str | None, files: Mapping[str, str]
) -> str:
    engine = engines.get(stack.engine.name)
    manifest = {
        "schema": SCHEMA,
        "appliance": __version__,
        "name": name,
        "digest": digest,
        "runtime": machine.runtime,
        "engine": {"name": engine.name, "version": engine.version(stack)},
        "image": image,
        "models": [entry.manifest() for entry in stack_models(stack)],
        "machine": {
            "folders": machine.folders,
            "gpu": machine.gpu,
            "revisions": dict(machine.revisions),
        },
        "stack": stack.model_dump(mode="json", by_alias=True),
        "files": {path: hashlib.sha256(text.encode()).hexdigest() for path, text in sorted(files.items())},
    }
    return json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
