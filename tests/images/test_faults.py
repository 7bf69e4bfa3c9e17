"""What registries complain of, in the words of those who had it, sorted: each with its remedy and exit code.

Cases 23 (a clock that is off) and 31 (another architecture) of the field are among them.
"""

import pytest

from appliance.core.errors import FetchFault, MachineFault, SparkSpecError
from appliance.images.faults import fault, registry_of

NGC = "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12"
OWN = "registry.example:5000/team/spark-spec/gateway:1"
DENIED = 'denied: {"errors": [{"code": "DENIED", "message": "Access Denied"}]}'
HUB_DENIED = (
    "pull access denied for no/such, repository does not exist or may require 'docker login': denied: requested "
    "access to the resource is denied"
)


@pytest.mark.parametrize(
    ("words", "logged_in", "why", "fix"),
    [
        ("unauthorized: authentication required", False, "not logged in", "docker login nvcr.io"),
        ('Head "https://x/v2/": no basic auth credentials', False, "not logged in", "$oauthtoken"),
        (
            "failed to fetch anonymous token: unexpected status: 401 Unauthorized",
            False,
            "not logged in",
            "NGC API key",
        ),
        ("unauthorized: authentication required", None, "not logged in", "docker login"),
        ("unauthorized: authentication required", True, "the login is not accepted", "docker logout nvcr.io"),
        (DENIED, True, "not entitled", "the NGC organisation"),
        (DENIED, False, "private or does not exist", "docker login nvcr.io"),
        (HUB_DENIED, False, "private or does not exist", "check the name"),
        ("unexpected status: 402 Payment Required", True, "not entitled", "$oauthtoken"),
        ("403 Forbidden", True, "not entitled", "check the name"),
    ],
)
def test_who_may_have_it(words: str, logged_in: bool | None, why: str, fix: str) -> None:
    error = fault("pulled", NGC, words, logged_in)
    assert error.code == 5
    assert why in error.why and words in error.why and fix in error.fix


@pytest.mark.parametrize(
    ("words", "kind", "why", "fix"),
    [
        ("manifest for registry.example:5000/x:1 not found: manifest unknown: manifest unknown", FetchFault,
         "nothing of this name and tag", "engine.version"),
        ("name unknown: repository name not known to registry", FetchFault, "no team/spark-spec/gateway", "name"),
        ("no matching manifest for linux/arm64/v8 in the manifest list entries", MachineFault, "architecture", "tag"),
        ("image with reference x was found but does not match the specified platform: wanted linux/arm64, actual: "
         "linux/amd64", MachineFault, "architecture", "docker rmi"),
        ("write /var/lib/docker/tmp/x: no space left on device", MachineFault, "disk", "docker system df"),
        ("tls: failed to verify certificate: x509: certificate signed by unknown authority", FetchFault,
         "does not trust", "certs.d/registry.example:5000"),
        ("x509: certificate has expired or is not yet valid: current time 2020-01-01T00:00:00Z is before 2026",
         FetchFault, "clock", "timedatectl"),
        ("http: server gave HTTP response to HTTPS client", FetchFault, "speaks HTTP", "insecure-registries"),
        ("dial tcp: lookup registry.example on 10.0.0.1:53: no such host", FetchFault, "cannot be resolved", "DNS"),
        ("dial tcp 127.0.0.1:9: connect: connection refused", FetchFault, "nothing answers", "port"),
        ("net/http: TLS handshake timeout", FetchFault, "breaks off", "again"),
        ("read tcp 10.0.0.2:4000: i/o timeout", FetchFault, "breaks off", "layers that came whole are kept"),
        ("Read timed out.", FetchFault, "breaks off", "again"),
        ("toomanyrequests: You have reached your pull rate limit", FetchFault, "no more requests", "docker login"),
        ("received unexpected HTTP status: 503 Service Unavailable", FetchFault, "fault of its own", "later"),
        ("docker-credential-gcloud not installed or not available in PATH", MachineFault, "helper", "credsStore"),
        ("something new", FetchFault, "something new", "images.registry"),
        ("", FetchFault, "no reason", "images.registry"),
    ],
)  # fmt: skip
def test_what_else_can_be_wrong(words: str, kind: type[SparkSpecError], why: str, fix: str) -> None:
    error = fault("pushed", OWN, words, False)
    assert type(error) is kind and error.what == f"the image {OWN} could not be pushed"
    assert why in error.why and words in error.why and fix in error.fix


@pytest.mark.parametrize(
    ("reference", "host"),
    [
        (NGC, "nvcr.io"),
        (OWN, "registry.example:5000"),
        ("localhost/x:1", "localhost"),
        ("lmsysorg/sglang:spark", "docker.io"),
        ("python:3.11", "docker.io"),
    ],
)
def test_the_registry_of_a_reference(reference: str, host: str) -> None:
    assert registry_of(reference) == host
