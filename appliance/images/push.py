"""Push an image of ours to one's own registry: bytes are counted, silence has an end, no name of it stays behind."""

from collections.abc import Iterator
from typing import Any

from appliance.core.talk import Talk
from appliance.images.faults import fault, registry_of
from appliance.images.local import find, tag, untag
from appliance.images.login import logged_in
from appliance.machine.docker import sdk

QUIET_S = 120  # docker compresses each layer before it sends it


def push(reference: str, registry: str, talk: Talk) -> str:
    """Push an image that is here to `registry` (HOST[:PORT]/PATH). Returns REGISTRY/REFERENCE@DIGEST.

    Raises FetchFault where the registry does not take it, or nothing moves for two minutes; MachineFault.
    """
    remote = f"{registry}/{reference}"
    had = find(remote)
    tag(reference, remote, talk)
    try:
        return f"{remote}@{_pushed(remote, talk)}"
    finally:
        if had is None:
            untag(remote, talk)


def _pushed(remote: str, talk: Talk) -> str:
    """The digest that the registry gave the image."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    talk.command(f"docker push {remote}")
    client = sdk(QUIET_S)
    sent: dict[str, tuple[int, int]] = {}
    digest = ""
    try:
        for event in _events(client.api, remote):
            if "error" in event:
                raise fault("pushed", remote, str(event["error"]), logged_in(registry_of(remote)))
            digest = (event.get("aux") or {}).get("Digest", digest)
            if _counted(event, sent):
                talk.progress(
                    remote, sum(done for done, _ in sent.values()), sum(total for _, total in sent.values())
                )
    except (DockerException, RequestException) as error:
        words = str(getattr(error, "explanation", None) or error)
        raise fault("pushed", remote, words, logged_in(registry_of(remote))) from None
    finally:
        client.close()
    if not digest:
        raise fault("pushed", remote, "docker ended without a digest", None)
    return digest


def _events(api: Any, remote: str) -> Iterator[dict[str, Any]]:
    repository, _, name = remote.rpartition(":")
    events: Iterator[dict[str, Any]] = api.push(repository, tag=name, stream=True, decode=True)
    return events


def _counted(event: dict[str, Any], sent: dict[str, tuple[int, int]]) -> bool:
    """Keep a layer's bytes (sent, total) as the engine tells them; its total is a guess that what is sent can pass."""
    detail, layer = event.get("progressDetail") or {}, event.get("id", "")
    if event.get("status") == "Pushing" and detail.get("total"):
        sent[layer] = (min(detail["current"], detail["total"]), detail["total"])
        return True
    if event.get("status") == "Pushed" and layer in sent:
        sent[layer] = (sent[layer][1], sent[layer][1])
        return True
    return False
