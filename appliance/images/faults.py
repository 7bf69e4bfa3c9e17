"""What a registry, or docker on its behalf, complains of: sorted, with what to do.

The words are those of Docker 20 to 28, of Debian's docker-registry, and of NVIDIA's as people report them. Several
registries answer the same, "denied", for an image that is not there and for one that is another's: then both are said.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from appliance.core.errors import FetchFault, MachineFault, SparkSpecError
from appliance.core.text import one_line

NGC = "nvcr.io"


@dataclass(frozen=True)
class Asked:
    """What was asked of a registry: `doing` it ("pulled"); `logged_in` is None where that could not be found out."""

    doing: str
    reference: str
    logged_in: bool | None

    @property
    def host(self) -> str:
        """The registry's name."""
        return registry_of(self.reference)


def registry_of(reference: str) -> str:
    """The name of a reference's registry; that of docker's own for one that names none."""
    first, slash, _ = reference.partition("/")
    return first if slash and re.search(r"[.:]|^localhost$", first) else "docker.io"


Sorted = tuple[type[SparkSpecError], str, str]  # the class, in short what it is, what to do


def fault(doing: str, reference: str, words: str, logged_in: bool | None) -> SparkSpecError:
    """The error for a person. `words` are docker's own, which stand in it too."""
    asked, said = (
        Asked(doing, reference, logged_in),
        one_line(words.strip() or "docker gives no reason")[:500],
    )
    for pattern, answer in _TABLE:
        if re.search(pattern, words, re.IGNORECASE):
            kind, short, fix = answer(asked)
            return kind(f"the image {reference} could not be {doing}", f"{short}: {said}", fix)
    return FetchFault(f"the image {reference} could not be {doing}", said, _another_registry(asked))


def _another_registry(asked: Asked) -> str:
    return f"see what {asked.host} is, or name a registry that has it: --set images.registry=HOST[:PORT]/PATH"


def _login(asked: Asked) -> str:
    user = " (user name $oauthtoken, password an NGC API key)" if asked.host == NGC else ""
    return f"docker login {asked.host}{user}"


def _again(asked: Asked) -> str:
    return f"docker logout {asked.host}, then {_login(asked)}: the login that is kept here is not accepted (any more)"


def _unauthorized(asked: Asked) -> Sorted:
    if asked.logged_in:
        return FetchFault, "the login is not accepted", _again(asked)
    return FetchFault, "not logged in", _login(asked)


def _denied(asked: Asked) -> Sorted:
    if not asked.logged_in:
        return (FetchFault, "not logged in, and it is private or does not exist (this registry says the same of both)",
                f"check the name, then {_login(asked)}")  # fmt: skip
    who = (
        "the NGC organisation of this key is entitled to it"
        if asked.host == NGC
        else "this account may have it"
    )
    return (FetchFault, "logged in, but not entitled to it, or it does not exist (this registry says the same of both)",
            f"check the name, and that {who}")  # fmt: skip


def _unpaid(asked: Asked) -> Sorted:
    return FetchFault, "the account is not entitled to it", f"log in as one that is: {_login(asked)}"


def _no_name(asked: Asked) -> Sorted:
    name = asked.reference.partition("/")[2].partition("@")[0].rpartition(":")[0]
    return FetchFault, f"there is no {name or asked.reference} in this registry", "check the name"


def _always(kind: type[SparkSpecError], short: str, fix: str) -> Callable[[Asked], Sorted]:
    """The same answer whatever was asked; {host} stands for the registry."""
    return lambda asked: (kind, short.format(host=asked.host), fix.format(host=asked.host))


# The first that fits: what is certain before what may mean two things.
_TABLE: tuple[tuple[str, Callable[[Asked], Sorted]], ...] = (
    (r"no space left on device", _always(
        MachineFault, "the disk of docker is full",
        "free some: docker system df shows what images and build caches take")),
    (r"no matching manifest for|does not match the specified platform", _always(
        MachineFault, "it is not there for this machine's architecture",
        "name an image or a tag that is; one that is here for another architecture goes with docker rmi")),
    (r"docker-credential-\S+ not installed|credentials? store error|error getting credentials", _always(
        MachineFault, "the helper that keeps docker's logins does not work",
        "install it, or take credsStore out of ~/.docker/config.json and log in again")),
    (r"certificate has expired or is not yet valid", _always(
        FetchFault, "a certificate's time does not fit this machine's clock",
        "check the clock first: timedatectl; if it is right, the certificate of {host} has expired")),
    (r"certificate signed by unknown authority|x509: |tls: ", _always(
        FetchFault, "docker does not trust the certificate of {host}",
        "put its CA into /etc/docker/certs.d/{host}/ca.crt, or a proxy's into the host's bundle and restart docker")),
    (r"server gave HTTP response to HTTPS client", _always(
        FetchFault, "{host} speaks HTTP, and docker asks by HTTPS",
        'give it TLS, or name it in "insecure-registries" of /etc/docker/daemon.json and restart docker')),
    (r"no such host|server misbehaving|name resolution", _always(
        FetchFault, "the name {host} cannot be resolved",
        "check the network and its DNS; on a closed network set images.registry, or import a bundle")),
    (r"connection refused", _always(
        FetchFault, "nothing answers at {host}", "check its address and port, and that it runs")),
    (r"i/o timeout|timed? ?out|deadline exceeded|network is unreachable|no route to host"
     r"|connection reset|unexpected EOF|TLS handshake", _always(
        FetchFault, "the network breaks off, or does not answer",
        "run this again: layers that came whole are kept; behind a proxy, docker's own has to be set")),
    (r"toomanyrequests|too many requests|\b429\b|rate limit", _always(
        FetchFault, "{host} takes no more requests for now", "wait, or log in: docker login {host}")),
    (r"payment required|\b402\b", _unpaid),
    (r"access denied|\bdenied\b|forbidden|\b403\b|insufficient_scope", _denied),
    (r"unauthorized|authentication required|no basic auth credentials|authorization required|\b401\b", _unauthorized),
    (r"name unknown|NAME_UNKNOWN|repository .*not found|repository name not known", _no_name),
    (r"manifest unknown|manifest for .* not found|not found|\b404\b", _always(
        FetchFault, "the registry has nothing of this name and tag",
        "check the name, and the tag (engine.version is the tag of an engine's image)")),
    (r"unexpected HTTP status:? 5\d\d|\b50[0234]\b|internal server error|bad gateway|service unavailable", _always(
        FetchFault, "{host} has a fault of its own",
        "try again later, or name another registry: --set images.registry=HOST[:PORT]/PATH")),
)  # fmt: skip
