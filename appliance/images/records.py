"""The identity of each image of ours as it was when it was built or pulled here: what `images verify` compares with.

    <state>/images/<reference, percent-encoded>@<os>-<architecture>.json

The name of an image fixes what we put into it, but not what apt or a moved tag of its base brought that day: so the
record is of the image that came out, and building or pulling it anew replaces it.
"""

import json
from dataclasses import asdict
from pathlib import Path
from urllib.parse import quote

from appliance.core.errors import MachineFault
from appliance.core.paths import write_atomic
from appliance.images.identity import Identity, identity
from appliance.images.local import inspect, unlike

SCHEMA = 1


def identity_here(reference: str) -> Identity | None:
    """The identity of an image of this engine; None where it has none of that name. Raises MachineFault."""
    facts = inspect(reference)
    if facts is None:
        return None
    try:
        return identity(facts)
    except ValueError:
        raise unlike(reference, json.dumps(facts)) from None


def record(state: Path, reference: str) -> None:
    """Keep the identity of an image of this engine. Raises MachineFault where it is gone or that cannot be written."""
    found = identity_here(reference)
    if found is None:
        raise MachineFault(
            f"the image {reference} is gone", "docker does not know it any more", "get it anew"
        )
    path = path_of(state, reference, found.platform)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps({"schema": SCHEMA, **asdict(found)}, indent=1, sort_keys=True) + "\n")
    except OSError as error:
        raise MachineFault(
            f"the record of the image {reference} cannot be written", str(error),
            "give the state folder to yourself (chown), or set paths.state to a folder of yours",
        ) from None  # fmt: skip


def recorded(state: Path, reference: str, platform: str) -> Identity | None:
    """The recorded identity of an image for a platform, None without one. Raises MachineFault where it is damaged."""
    path = path_of(state, reference, platform)
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        if said.pop("schema") != SCHEMA:
            raise ValueError("another schema")
        return Identity(said["platform"], tuple(said["layers"]), dict(said["settings"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise MachineFault(
            f"the record of the image {reference} cannot be read", f"{path}: {error}",
            f"remove both and build anew: rm '{path}' && docker rmi {reference}",
        ) from None  # fmt: skip


def path_of(state: Path, reference: str, platform: str) -> Path:
    """Where an image's record is."""
    return state / "images" / f"{quote(reference, safe='')}@{platform.replace('/', '-')}.json"
