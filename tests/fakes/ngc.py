"""NVIDIA's registry, as far as it turns people away: its answers as they report them.

GET /v2/             401, with the realm of its token service
GET /proxy_auth      a token, for a login that is known; else 401, or 403 where a repository takes no stranger
HEAD|GET /v2/…       401 without a token; for a login without the entitlement DENIED, 402, or 404
"""

import contextlib
import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

USER, KEY = "$oauthtoken", "nvapi-0000"
TOKEN = "a-token"
ENTITLED = "nvidia/free"  # a repository whose tags nobody knows
ANSWERS = {  # by repository, for one who is logged in
    "nvidia/internal": (403, "DENIED", "Access Denied"),
    "nvidia/licensed": (402, "DENIED", "Payment Required"),
    ENTITLED: (404, "MANIFEST_UNKNOWN", "manifest unknown"),
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        host = self.headers["Host"]
        if url.path == "/proxy_auth":
            login = "Basic " + b64encode(f"{USER}:{KEY}".encode()).decode()
            known = self.headers.get("Authorization") == login
            self._answer(200 if known else 401, {"token": TOKEN} if known else {})
        elif self.headers.get("Authorization") != f"Bearer {TOKEN}":
            realm = f'Bearer realm="http://{host}/proxy_auth"'
            self._answer(401, {"errors": [{"code": "UNAUTHORIZED"}]}, {"WWW-Authenticate": realm})
        elif url.path == "/v2/":
            self._answer(200, {})
        else:
            repository = url.path.removeprefix("/v2/").rpartition("/manifests/")[0]
            status, code, message = ANSWERS[repository]
            self._answer(status, {"errors": [{"code": code, "message": message}]})

    do_HEAD = do_GET

    def _answer(self, status: int, content: object, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@contextlib.contextmanager
def ngc() -> Iterator[str]:
    """Serve it; yields its 127.0.0.1:PORT, where docker takes HTTP."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
