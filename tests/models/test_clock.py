"""Case 23: a clock that is years off is named as that, not as a network that fails."""

import datetime
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from appliance.core.errors import FetchFault, MachineFault
from appliance.models import harmony, hub_faults
from appliance.models.harmony_get import bring_harmony
from tests.conftest import Cli

LONG_AGO, FAR_OFF = ("20000101000000Z", "20010101000000Z"), ("20900101000000Z", "20910101000000Z")
OPENSSL = """
[ca]
default_ca = own
[own]
database = {0}/index
serial = {0}/serial
new_certs_dir = {0}
default_md = sha256
policy = any
x509_extensions = server
[any]
commonName = supplied
[server]
subjectAltName = IP:127.0.0.1
basicConstraints = critical, CA:true
[req]
distinguished_name = name
[name]
"""


def certificate(folder: Path, begin: str, end: str) -> tuple[Path, Path]:
    """A self-signed certificate of 127.0.0.1 that is valid between two times, and its key."""
    config, key, asked, made = (folder / name for name in ("cnf", "key", "csr", "crt"))
    config.write_text(OPENSSL.format(folder))
    (folder / "index").write_text("")
    (folder / "serial").write_text("01")
    for words in (
        f"req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {key} -out {asked} "
        f"-subj /CN=127.0.0.1 -config {config}",
        f"ca -batch -selfsign -notext -config {config} -in {asked} -keyfile {key} -out {made} "
        f"-startdate {begin} -enddate {end}",
    ):
        subprocess.run(["openssl", *words.split()], check=True, capture_output=True)
    return made, key


class Nothing(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture(params=[LONG_AGO, FAR_OFF], ids=["expired", "not yet valid"])
def server(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server whose certificate is trusted, but not now."""
    made, key = certificate(tmp_path, *request.param)
    monkeypatch.setenv("SSL_CERT_FILE", str(made))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Nothing)
    httpd.handle_error = lambda *_: None  # type: ignore[method-assign]
    httpd.socket = context.wrap_socket(httpd.socket, server_side=True)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{httpd.server_address[1]}"
    httpd.shutdown()
    httpd.server_close()
    thread.join(5)


def test_the_clock_is_named_for_a_model(server: str, cli: Cli, request: pytest.FixtureRequest) -> None:
    done = cli("models", "pull", "draft-target", HF_ENDPOINT=server)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    assert f"shows {today}" in done.stderr and "timedatectl set-ntp true" in done.stderr
    if "expired" in request.node.name:  # which a right clock may see too
        assert done.returncode == 5 and "the server's certificate has expired" in done.stderr
    else:
        assert done.returncode == 4 and "this machine's clock is wrong" in done.stderr


def test_the_clock_is_named_for_the_vocabulary(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harmony, "ADDRESS", server)
    with pytest.raises((MachineFault, FetchFault)) as caught:
        bring_harmony(tmp_path / "harmony", lambda _: None, lambda *_: None)
    assert "certificate" in caught.value.why and "clock" in caught.value.what + caught.value.why


@pytest.mark.parametrize(
    ("shown", "told", "fault"),
    [
        ("1970-01-01", "certificate is not yet valid", MachineFault),
        ("2025-01-01", "certificate has expired", MachineFault),
        ("2027-06-01", "certificate has expired", FetchFault),
        ("2045-01-01", "certificate has expired", MachineFault),
        ("2027-06-01", "certificate is not yet valid", MachineFault),
    ],
)
def test_whose_fault_a_date_is(
    shown: str, told: str, fault: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No right clock shows a time before this was written, nor one in the far future."""
    moment = datetime.datetime.fromisoformat(shown).replace(tzinfo=datetime.UTC).timestamp()
    monkeypatch.setattr(hub_faults.time, "time", lambda: moment)
    error = ConnectionError("down")
    error.__cause__ = ssl.SSLError(1, f"[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: {told}")
    found = hub_faults.clock(error, "the model")
    assert type(found) is fault and shown in found.why


def test_another_fault_of_tls_is_not_the_clocks() -> None:
    error = ssl.SSLError(
        1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer"
    )
    assert hub_faults.clock(error, "the model") is None
    told = hub_faults.explain(error, "the model", "https://hub.example/x", Path("/"))
    assert isinstance(told, FetchFault) and "SSL_CERT_FILE" in told.fix
