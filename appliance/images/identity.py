"""What makes two images the same: platform, content and how they run. Ids and sizes differ between docker's stores."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from appliance.core.text import shown
from appliance.images.local import BASE_LABEL

# In an image's config: what it is called here. Docker and OCI use the same keys (docker image inspect; the OCI image
# specification's config.md, with docker's Healthcheck).
_SINGLE = {"User": "user", "WorkingDir": "working folder", "StopSignal": "stop signal"}
_LISTS = {"Entrypoint": "entry point", "Cmd": "command"}
_SETS = {"Volumes": "volume", "ExposedPorts": "port"}


@dataclass(frozen=True)
class Identity:
    """An image by its content: the platform, such as linux/arm64; the sha256 of each uncompressed layer from the base
    up; and the settings it runs with, by a name for people, such as `user` or `env PATH`."""

    platform: str
    layers: tuple[str, ...]
    settings: Mapping[str, str]


def identity(facts: Mapping[str, Any]) -> Identity:
    """The identity in what `docker image inspect` says of an image, or in an image's own config JSON.

    Raises ValueError where they are neither.
    """
    try:
        if "RootFS" in facts:
            place, layers, config = facts, facts["RootFS"]["Layers"], facts["Config"]
        else:
            place, layers, config = (
                {name.capitalize(): facts[name] for name in ("os", "architecture")},
                facts["rootfs"]["diff_ids"],
                facts.get("config"),
            )
        platform = f"{place['Os']}/{place['Architecture']}"
        return Identity(platform, tuple(map(str, layers)), dict(_settings(config or {})))
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"these are no facts of an image: {error!r}") from None


def differences(expected: Identity, found: Identity) -> tuple[str, ...]:
    """How an image differs from what is expected, one line each; none where they are the same."""
    told = []
    if found.platform != expected.platform:
        told.append(f"platform: {found.platform}, expected {expected.platform}")
    told += _layers(expected.layers, found.layers)
    for name in sorted({*expected.settings, *found.settings}):
        was, now = expected.settings.get(name), found.settings.get(name)
        if was != now:
            told.append(f"{name}: {_said(now)}, expected {_said(was)}")
    return tuple(told)


def _settings(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is empty is not told apart from what is absent: docker and builders write either."""
    for key, name in _SINGLE.items():
        if value := config.get(key):
            yield name, str(value)
    for key, name in _LISTS.items():
        if value := config.get(key):
            yield name, json.dumps(value)
    for key, name in _SETS.items():
        for one in config.get(key) or ():
            yield f"{name} {one}", "declared"
    for line in config.get("Env") or ():
        variable, _, value = line.partition("=")
        yield f"env {variable}", value
    for label, value in (config.get("Labels") or {}).items():
        if label != BASE_LABEL:  # an id
            yield f"label {label}", str(value)
    for key, value in (config.get("Healthcheck") or {}).items():
        if value:
            yield f"health check {key}", json.dumps(value)


def _layers(expected: tuple[str, ...], found: tuple[str, ...]) -> Iterator[str]:
    """Layers stand on one another, so the first that differs tells all."""
    same = 0
    for was, now in zip(expected, found, strict=False):
        if was != now:
            break
        same += 1
    if same < min(len(expected), len(found)):
        yield f"layers: layer {same + 1} is {found[same]}, expected {expected[same]}"
    elif len(expected) != len(found):
        added = len(found) - len(expected)
        yield f"layers: {len(found)}, expected {len(expected)}: {abs(added)} {'added' if added > 0 else 'missing'}"


def _said(value: str | None) -> str:
    return "absent" if value is None else shown(value)
