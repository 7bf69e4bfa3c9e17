"""Pull an image: its bytes are counted as they come, and silence has an end."""

from typing import Any

from appliance.core.errors import SparkSpecError
from appliance.core.talk import Talk
from appliance.images.faults import fault, registry_of
from appliance.images.login import logged_in
from appliance.machine.docker import sdk

QUIET_S = 60


def pull(reference: str, platform: str, talk: Talk) -> None:
    """Pull one image for a platform, such as linux/arm64.

    Raises FetchFault where it cannot be had, or nothing comes for a minute; MachineFault where docker fails, its disk
    is full, or the image is not there for the platform.
    """
    from docker.errors import DockerException
    from docker.utils import parse_repository_tag
    from requests.exceptions import RequestException

    talk.command(f"docker pull --platform {platform} {reference}")
    repository, tag = parse_repository_tag(reference)
    client = sdk(QUIET_S)
    layers: dict[str, tuple[int, int]] = {}
    try:
        for event in client.api.pull(
            repository, tag=tag or None, platform=platform, stream=True, decode=True
        ):
            if "error" in event:
                raise _fault(reference, str(event["error"]))
            _count(event, layers)
            if layers:
                talk.progress(reference, sum(done for done, _ in layers.values()), _total(layers))
    except (DockerException, RequestException) as error:
        raise _fault(reference, str(getattr(error, "explanation", None) or error)) from None
    finally:
        client.close()


def _count(event: dict[str, Any], layers: dict[str, tuple[int, int]]) -> None:
    """Keep each layer's bytes (done, total) as the engine's events tell them."""
    detail, layer = event.get("progressDetail") or {}, event.get("id", "")
    if event.get("status") == "Downloading" and "total" in detail:
        layers[layer] = (detail["current"], detail["total"])
    elif event.get("status") == "Download complete" and layer in layers:
        layers[layer] = (layers[layer][1], layers[layer][1])


def _total(layers: dict[str, tuple[int, int]]) -> int:
    return sum(total for _, total in layers.values())


def _fault(reference: str, words: str) -> SparkSpecError:
    return fault("pulled", reference, words, logged_in(registry_of(reference)))
