"""Read what `images lock` keeps: the digest of a base from its registry, and an engine's options out of its image."""

import json
import secrets
from pathlib import Path
from typing import Any

from appliance.catalog.lock import LockedBase, LockedEngine
from appliance.catalog.stack import GpuAccess
from appliance.core.errors import MachineFault, SparkSpecError
from appliance.core.talk import Talk
from appliance.core.text import one_line
from appliance.images import options_inside
from appliance.images.faults import fault, registry_of
from appliance.images.local import digests_here
from appliance.images.login import logged_in
from appliance.machine.command import CommandFailed, run
from appliance.machine.docker import sdk

ASK_S = 60
INSIDE_S = 300.0  # importing an engine reads gigabytes of libraries
GPU = {
    "none": (),
    "cdi": ("--device", "nvidia.com/gpu=all"),
    "runtime": ("--runtime", "nvidia", "--env", "NVIDIA_VISIBLE_DEVICES=all"),
    "devices": ("--gpus", "all"),
}


def read_base(reference: str, platform: str, talk: Talk) -> LockedBase:
    """The digest of NAME:TAG, as its registry has it now; where none can be asked, as it had it when the image that is
    here was pulled, for `platform` alone. Raises FetchFault or MachineFault where neither tells."""
    talk.say(f"asking {registry_of(reference)} for the digest of {reference}")
    try:
        return _from_registry(reference)
    except SparkSpecError as error:
        here = digests_here(reference)
        if not here:
            raise
        talk.say(f"{error.what}: {error.why}; the image that is here was pulled as {here[0]}")
        return LockedBase(digest=here[0], platforms=(platform,))


def _from_registry(reference: str) -> LockedBase:
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    client = sdk(ASK_S)
    try:
        told: dict[str, Any] = client.api.inspect_distribution(reference)  # type: ignore[no-untyped-call]
    except (DockerException, RequestException) as error:
        words = str(getattr(error, "explanation", None) or error)
        raise fault("looked up", reference, words, logged_in(registry_of(reference))) from None
    finally:
        client.close()
    there = {f"{one['os']}/{one['architecture']}" for one in told.get("Platforms") or ()}
    return LockedBase(
        digest=told["Descriptor"]["digest"], platforms=tuple(sorted(there - {"unknown/unknown"}))
    )


def read_engine(engine: str, image: str, gpu: GpuAccess, talk: Talk) -> LockedEngine:
    """What the engine in an image that is here takes. It is asked in a container without network, that can write
    nowhere and is gone afterwards. Raises MachineFault with the image's own words where it does not tell."""
    name = f"spark-spec-options-{secrets.token_hex(6)}"
    argv = [
        *("docker", "run", "--rm", "--name", name, "--network", "none", "--read-only", "--tmpfs", "/tmp"),
        *("--env", "HOME=/tmp", "--entrypoint", "python3", *GPU[gpu], image),
        *("-c", Path(options_inside.__file__).read_text(encoding="utf-8"), engine),
    ]
    talk.command(" ".join([*argv[:-2], "(what asks for the options)", engine]))
    talk.phase(f"asking {engine} in {image} for what it takes")
    try:
        lines = run(argv, quiet_s=INSIDE_S, each=lambda _: None)
    except CommandFailed as error:
        raise MachineFault(
            f"the options of {engine} could not be read out of {image}",
            f"{error.reason}: {error.words(4)}",
            "an engine that cannot be loaded without a GPU is asked with one: --set docker.gpu=auto, on such a machine",
        ) from None
    finally:
        _gone(name)
    return _told(engine, image, lines)


def _told(engine: str, image: str, lines: list[str]) -> LockedEngine:
    said = next((line for line in reversed(lines) if line.startswith(options_inside.MARK)), "")
    try:
        content = json.loads(said.removeprefix(options_inside.MARK))
        return LockedEngine(version=content["version"], image=image, options=content["options"])
    except (ValueError, LookupError, TypeError):
        raise MachineFault(
            f"the options of {engine} could not be read out of {image}",
            f"its last words: {one_line(' '.join(lines[-2:]))[:200] or 'none'}",
            "see that the image is the engine's own",
        ) from None


def _gone(name: str) -> None:
    """The container outlives a docker command that was ended."""
    try:
        run(["docker", "rm", "--force", name], quiet_s=30, each=lambda _: None, leash=False)
    except CommandFailed:
        return  # it is gone, as it should be
