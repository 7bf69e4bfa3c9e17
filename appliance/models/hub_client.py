"""The hub, by its own library: what it lists, and its files into the cache.

The library downloads, retries and resumes within one run; it needs no more from us than limits. What it does not do
(sizes and hashes compared, orphans, room, one fetch at a time) is in hub_pull.
"""

import ipaddress
import logging
import os
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from appliance.core.errors import FetchFault
from appliance.core.secrets import default_secrets, load
from appliance.models.hub_faults import SOURCES, Unreachable, explain
from appliance.models.hub_files import Algorithm, HubFile, Listing, named_hash, safe
from appliance.models.record import CHUNK

TOKEN = "HF_TOKEN"
PUBLIC = "https://huggingface.co"
ANSWER_S = 15.0  # for the list of a repository's files
TRIES = 4
MOST_WAIT_S = 330  # that the hub may ask for: its window of requests is 300 s


def endpoint() -> str:
    """The hub's address: HF_ENDPOINT, else the public one."""
    return (os.environ.get("HF_ENDPOINT") or PUBLIC).rstrip("/")


def offline() -> bool:
    """Whether the user forbade the network to the hub's library (its own variable)."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def page(repo: str) -> str:
    """A repository's page, for a person."""
    return f"{endpoint()}/{repo}"


def listing(repo: str, revision: str | None, folder: Path) -> Listing:
    """What the hub says of a revision; None: of its current one. `folder` is the cache, for messages.

    Raises Unreachable where it does not answer or may not be asked, FetchFault where it refuses, MachineFault.
    """
    if offline():
        raise Unreachable(f"{repo} cannot be fetched", "HF_HUB_OFFLINE forbids to ask the hub",
                          "unset HF_HUB_OFFLINE where there is a network")  # fmt: skip
    hub = _library()
    api = hub.HfApi(endpoint=endpoint(), token=token() or False)
    try:
        info = _patiently(
            lambda: api.model_info(repo, revision=revision, files_metadata=True, timeout=ANSWER_S)
        )
        return _listing(repo, info)
    except failures() as error:
        raise explain(error, repo, page(repo), folder) from error


def failures() -> tuple[type[BaseException], ...]:
    """The errors that the library raises: its own, which are OSErrors, its transport's, and those of odd answers."""
    answered: type[BaseException] = _library().errors.HfHubHTTPError
    transport = next(kind for kind in answered.__mro__ if kind.__name__ == "HTTPError")
    return (OSError, ValueError, transport)


def download(repo: str, revision: str, file: HubFile, hub: Path, moved: Callable[[int], None]) -> None:
    """Fetch one file into the cache. `moved` hears of each piece's bytes; what it raises ends the transfer. Raises
    the library's errors: `failures`, put in words by `hub_faults.explain`."""
    _library().hf_hub_download(
        repo, file.path, revision=revision, cache_dir=hub, endpoint=endpoint(), token=token() or False,
        tqdm_class=_bar(moved),
    )  # fmt: skip


def token() -> str | None:
    """The user's token: the environment's or the hub's own login, else our secrets file's. Raises ConfigFault."""
    path = default_secrets()
    kept = load(path).get(TOKEN) if path else None
    known: str | None = _library().get_token()
    return known or kept


def _listing(repo: str, info: Any) -> Listing:
    revision = str(info.sha)
    if named_hash(revision) is None:
        raise FetchFault(f"the hub names no revision of {repo}", "its answer has none",
                         "see what HF_ENDPOINT names: it is no model hub")  # fmt: skip
    card = info.card_data or {}
    license_ = card.get("license_name") or card.get("license")
    gated = None if info.gated is None else bool(info.gated)
    files = tuple(_file(repo, one) for one in info.siblings or ())
    return Listing(repo, revision, files, str(license_) if license_ else None, gated)


def _file(repo: str, sibling: Any) -> HubFile:
    algorithm: Algorithm = "sha256" if sibling.lfs else "git-sha1"
    digest = sibling.lfs.sha256 if sibling.lfs else sibling.blob_id
    if sibling.size is None or named_hash(str(digest)) is None:
        raise FetchFault(f"the hub's list of {repo} is not whole", f"{safe(sibling.rfilename)} has no size or hash",
                         "see what HF_ENDPOINT names: a copy of the hub has to give both")  # fmt: skip
    return HubFile(safe(sibling.rfilename), int(sibling.size), algorithm, digest)


def _patiently(ask: Callable[[], Any]) -> Any:
    """Ask again where the hub is busy, after as long as it wishes: the library does so for files only."""
    from huggingface_hub.errors import HfHubHTTPError

    for left in reversed(range(TRIES)):
        try:
            return ask()
        except HfHubHTTPError as error:
            if not left or error.response.status_code not in (429, 500, 502, 503, 504):
                raise
            time.sleep(_asked_wait(error.response) or 1)
    raise AssertionError("unreachable")


def _asked_wait(response: Any) -> int | None:
    """Seconds that an answer asks to wait for."""
    from huggingface_hub.utils._http import parse_ratelimit_headers

    limit = parse_ratelimit_headers(response.headers)
    if limit is not None and limit.remaining == 0:
        return limit.reset_in_seconds
    text = response.headers.get("retry-after", "").strip()
    return int(text) if text.isdigit() else None


def _check_request(request: Any) -> None:
    """Nothing is fetched in the clear, but from a hub that the user named so: redirects are followed to https, or
    to the same host, or from this machine to itself. Raises FetchFault."""
    own, url = urlsplit(endpoint()), request.url
    if url.scheme == "https":
        return
    near = url.host == own.hostname or (_loopback(url.host) and _loopback(own.hostname or ""))
    if not (near and own.scheme == url.scheme == "http"):
        raise FetchFault(
            "the hub led to an address that is not trusted",
            f"{url.scheme}://{url.host} is neither https nor the hub's own host",
            "see what lies between here and the hub (HF_ENDPOINT, HTTPS_PROXY)",
        )


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_response(response: Any) -> None:
    """The library waits as long as it is asked to: here that gets an end. Raises FetchFault."""
    wait = _asked_wait(response) if response.status_code in (429, 503) else None
    if wait is not None and wait > MOST_WAIT_S:
        raise FetchFault(
            "the hub gives nothing more for now",
            f"it asks to wait for {wait} s",
            f"run again then: what is whole is kept; an account may ask more often, and {SOURCES}",
        )


_READY = threading.Lock()
_made: list[Any] = []


def _library() -> Any:
    """The hub's library, quiet, with our limits. Any: its two major versions stand on two kinds of httpx."""
    with _READY:
        if not _made:
            import huggingface_hub
            from huggingface_hub import constants
            from huggingface_hub.utils import logging as talk
            from huggingface_hub.utils._http import default_client_factory

            def client() -> Any:
                made: Any = default_client_factory()
                hooks = made.event_hooks
                made.event_hooks = {
                    "request": [*hooks["request"], _check_request],
                    "response": [*hooks["response"], _check_response],
                }
                made.timeout = 60.0
                return made

            huggingface_hub.set_client_factory(client)
            talk.set_verbosity(logging.ERROR)
            warnings.filterwarnings("ignore", module=r"huggingface_hub\.")
            # Its own 10 MB are copied thrice, out of the processor's caches; and a cut connection loses a chunk.
            constants.DOWNLOAD_CHUNK_SIZE = CHUNK
            # Its store that several repositories share lies beside the model's folder, which is all that an
            # engine's container sees.
            constants.HF_HUB_DISABLE_SHARED_BLOBS = True
            constants.HF_HUB_DISABLE_TELEMETRY = True  # it would ask the hub who may be running us
            _made.append(huggingface_hub)
    return _made[0]


def _bar(moved: Callable[[int], None]) -> type:
    """What the library takes for a progress bar, with tqdm's manners."""

    class Bar:
        total, n = 0, 0

        def __init__(self, *_: Any, **__: Any) -> None: ...

        def __enter__(self) -> "Bar":
            return self

        def __exit__(self, *_: object) -> None: ...

        def update(self, count: float | None = 1) -> None:
            moved(int(count or 0))

        def ignore(self, *_: Any, **__: Any) -> None: ...

        update_transfer = set_postfix_str = set_transfer_postfix_str = refresh = close = ignore

    return Bar
