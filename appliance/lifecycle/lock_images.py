"""Lock what presets stand on: each base by its digest, each engine by what it says it takes."""

from collections.abc import Sequence
from dataclasses import dataclass

from appliance import engines
from appliance.catalog.lock import Lock, LockedBase, LockedEngine, engine_key, locked, write
from appliance.catalog.stack import GpuAccess, Stack
from appliance.core.errors import MachineFault, SparkSpecError
from appliance.core.talk import Talk
from appliance.images.local import find
from appliance.images.lock import read_base, read_engine
from appliance.images.versions import versions
from appliance.machine.facts import platform
from appliance.machine.gpu import probe_gpu
from appliance.stack.resolve import Resolved


@dataclass(frozen=True)
class Source:
    """What a stack stands on: `base` is NAME:TAG of a public base, None where the stack names an image of its own;
    `image` the one that its engine is asked in, `engine` None where it has no options that could be read."""

    base: str | None
    image: str
    engine: str | None
    version: str
    gpu: GpuAccess


def lock_images(stacks: Sequence[Resolved], talk: Talk) -> tuple[Lock, tuple[SparkSpecError, ...]]:
    """Read and keep what can be read of each stack's base. Returns the whole lock as it is now, and what could not be
    read; that keeps what was locked of it before. Raises ConfigFault where the lock cannot be read or written."""
    before = locked()
    bases, told = dict(before.bases), dict(before.engines)
    faults: list[SparkSpecError] = []
    for source in sorted({_source(one.stack) for one in stacks}, key=str):
        try:
            if source.base:
                _keep(bases, source.base, read_base(source.base, platform(), talk), talk)
        except SparkSpecError as error:
            faults.append(error)
        try:
            if source.engine:
                _ask(source, told, talk)
        except SparkSpecError as error:
            faults.append(error)
    lock = Lock(bases=bases, engines=told)
    if lock != before:
        talk.say(f"written: {write(lock)}")
    return lock, tuple(faults)


def _source(stack: Stack) -> Source:
    engine = engines.get(stack.engine.name)
    version = engine.version(stack)
    base = versions().bases[versions().images[f"serve-{engine.name}"].base]
    public = f"{base.public}:{base.tag or version}"
    named = stack.image or stack.docker.base
    wish = stack.docker.gpu
    return Source(
        None if named else public, named or public, engine.name if engine.gpu else None, version, wish
    )


def _keep(bases: dict[str, LockedBase], name: str, read: LockedBase, talk: Talk) -> None:
    was = bases.get(name)
    if was and was.digest != read.digest:
        talk.say(f"{name} has moved: it was {was.digest}; what stands on it is built anew by the next `up`")
    bases[name] = read


def _ask(source: Source, told: dict[str, LockedEngine], talk: Talk) -> None:
    """Ask an engine for its options, where its image is here and for this machine. Raises MachineFault."""
    assert source.engine
    here = find(source.image)
    if here is None or here.platform != platform():
        state = "is not here" if here is None else f"is for {here.platform}"
        talk.say(
            f"the options of {source.engine} {source.version} are not read: the image {source.image} {state}"
        )
        return
    told[engine_key(source.engine, source.version)] = read_engine(
        source.engine, source.image, _gpu(source.gpu), talk
    )


def _gpu(wish: GpuAccess) -> GpuAccess:
    """As the machine gives it; without where it has none: most engines tell their options all the same."""
    if wish != "auto":
        return wish
    try:
        return probe_gpu()
    except MachineFault:
        return "none"
