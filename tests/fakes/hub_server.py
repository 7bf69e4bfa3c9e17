"""A model hub on this machine: as much of its API as its library uses, and the faults that hubs and networks have.

GET  /api/models/ORG/NAME[/revision/REV][?blobs=true]      what a repository holds
GET  /api/models/ORG/NAME/tree/REV[/FOLDER][?recursive=…]  the same as a tree
HEAD /ORG/NAME/resolve/REV/PATH                            a file's etag, size and commit; a redirect for large ones
GET  /cdn/...                                              its content, with Range
"""

import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

REVISION = "0123456789abcdef0123456789abcdef01234567"
PIECE = 1 << 16
LARGE = (".safetensors", ".bin", ".gguf")  # what the hub keeps in its large-file storage


@dataclass
class Fault:
    """What goes wrong. Paths are those of files in the repository."""

    cut: dict[str, int] = field(default_factory=dict)  # times to cut the connection at half of what was asked
    content: dict[str, bytes] = field(default_factory=dict)  # served instead; listed as it should be
    times: dict[str, int] = field(
        default_factory=dict
    )  # how often `content` is served so; ever, if not named
    status: dict[str, tuple[int, dict[str, str]]] = field(
        default_factory=dict
    )  # of the first requests to a path
    repeat: int = 1_000_000  # how often a `status` is given
    gated: bool = False
    token: str | None = None  # who has not this one is refused
    gone: bool = False  # the revision was moved
    redirect: str | None = None  # large files lie there instead of on our own /cdn
    slow_s: float = 0.0  # between two pieces of a content
    hold: threading.Event | None = None  # contents stop at half until it is set


@dataclass
class Repo:
    """One repository with one revision, `main`."""

    files: dict[str, bytes]
    revision: str = REVISION
    license: str | None = "apache-2.0"
    gated: bool | str = False


@dataclass
class Hub:
    """The hub's repositories and faults, and what was asked of it."""

    repos: dict[str, Repo] = field(default_factory=dict)
    fault: Fault = field(default_factory=Fault)
    asked: list[tuple[str, str]] = field(default_factory=list)  # method and path, in order
    tokens: list[tuple[str, str | None]] = field(
        default_factory=list
    )  # path, and the authorization that came along
    ranges: list[tuple[str, str]] = field(default_factory=list)
    sent: int = 0  # bytes of contents
    half: threading.Event = field(default_factory=threading.Event)  # set when a held content is at half
    lock: threading.Lock = field(default_factory=threading.Lock)
    address: str = ""
    storage: str = ""  # the address of the contents of large files: as with the public hub, another host

    def contents(self) -> list[str]:
        """The paths of the files whose content was asked for."""
        return [
            path.split("/", 5)[5]
            for method, path in self.asked
            if method == "GET" and path.startswith("/cdn/")
        ] + [path.split("/", 5)[5] for method, path in self.asked if method == "GET" and "/resolve/" in path]


@contextlib.contextmanager
def serve(hub: Hub) -> Iterator[Hub]:
    """Serve it on free ports until the block ends; its addresses go into it."""

    class Handler(_Handler):
        pass

    Handler.hub = hub
    servers = [_Server((host, 0), Handler) for host in ("127.0.0.1", "127.0.0.2")]
    hub.address, hub.storage = ("http://{}:{}".format(*server.server_address) for server in servers)
    threads = [
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        for server in servers
    ]
    for thread in threads:
        thread.start()
    try:
        yield hub
    finally:
        if hub.fault.hold is not None:
            hub.fault.hold.set()
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join(5)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no news."""


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None: ...

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        with self.hub.lock:
            self.hub.asked.append((self.command, path))
            self.hub.tokens.append((path, self.headers.get("Authorization")))
            if self.headers.get("Range"):
                self.hub.ranges.append((path, self.headers["Range"]))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if path.startswith("/api/models/"):
                self._api(path.removeprefix("/api/models/").split("/"), parse_qs(url.query))
            elif path.startswith("/cdn/"):
                _, _, org, name, _, rest = path.split("/", 5)
                self._content(f"{org}/{name}", rest)
            elif "/resolve/" in path:
                repo, _, rest = path.strip("/").partition("/resolve/")
                revision, _, file = rest.partition("/")
                self._resolve(repo, revision, file)
            else:
                self._refuse(404, "EntryNotFound")

    def _api(self, parts: list[str], query: dict[str, list[str]]) -> None:
        name, rest = "/".join(parts[:2]), parts[2:]
        repo = self._repo(name, rest[1] if rest else "main", file=None)
        if repo is None or self._planned("api"):
            return
        if rest and rest[0] == "tree":
            below = "/".join(rest[2:])
            recursive = query.get("recursive", ["false"])[0].lower() == "true"
            self._json(_tree(repo, below, recursive=recursive))
            return
        blobs = query.get("blobs", ["false"])[0].lower() == "true"
        self._json(
            {
                "_id": "0" * 24, "id": name, "modelId": name, "sha": repo.revision, "private": False,
                "gated": repo.gated, "tags": [f"license:{repo.license}"] if repo.license else [],
                "cardData": {"license": repo.license} if repo.license else {}, "downloads": 1, "likes": 0,
                "siblings": [_sibling(path, content, blobs=blobs) for path, content in repo.files.items()],
            }
        )  # fmt: skip

    def _resolve(self, name: str, revision: str, file: str) -> None:
        repo = self._repo(name, revision, file=file)
        if repo is None or self._planned(file):
            return
        if file not in repo.files:
            self._refuse(404, "EntryNotFound", {"X-Repo-Commit": repo.revision})
            return
        content = repo.files[file]
        common = {"X-Repo-Commit": repo.revision, "Accept-Ranges": "bytes"}
        if not file.endswith(LARGE):
            self._send(
                file, self.hub.fault.content.get(file, content), common | {"ETag": f'"{git_sha1(content)}"'}
            )
            return
        place = (self.hub.fault.redirect or self.hub.storage) + f"/cdn/{name}/{repo.revision}/{file}"
        self._head(
            302,
            common
            | {"Location": place, "ETag": '"of-the-redirect"', "X-Linked-ETag": f'"{sha256(content)}"',
               "X-Linked-Size": str(len(content)), "Content-Length": "0"},
        )  # fmt: skip

    def _content(self, name: str, file: str) -> None:
        if self.headers.get("Authorization"):
            self._refuse(400, "TokenSentToStorage")  # as signed addresses do
            return
        if self._planned(f"cdn:{file}"):
            return
        fault, content = self.hub.fault, self.hub.repos[name].files[file]
        if file in fault.content:
            with self.hub.lock:
                left = fault.times.get(file, 1)
                if file in fault.times:
                    fault.times[file] = left - 1
            content = fault.content[file] if left > 0 else content
        self._send(file, content, {"ETag": f'"{sha256(content)}"', "Accept-Ranges": "bytes"})

    def _send(self, file: str, content: bytes, headers: dict[str, str]) -> None:
        """A content, or the range of it that was asked for; with the faults that belong to it."""
        begin, asked = 0, self.headers.get("Range")
        if asked:
            begin = int(asked.removeprefix("bytes=").partition("-")[0])
            headers = headers | {"Content-Range": f"bytes {begin}-{len(content) - 1}/{len(content)}"}
        body = memoryview(content)[begin:]
        self._head(206 if asked else 200, headers | {"Content-Length": str(len(body))})
        if self.command == "HEAD":
            return
        with self.hub.lock:
            cut = self.hub.fault.cut.get(file, 0) > 0
            if cut:
                self.hub.fault.cut[file] -= 1
        end = len(body) // 2 if cut else len(body)
        held = self.hub.fault.hold if file.endswith(LARGE) else None
        for at in range(0, end, PIECE):
            if held is not None and at >= len(body) // 2:
                self.hub.half.set()
                held.wait(60)
            piece = body[at : min(at + PIECE, end)]
            self.wfile.write(piece)
            with self.hub.lock:
                self.hub.sent += len(piece)
            if self.hub.fault.slow_s:
                time.sleep(self.hub.fault.slow_s)
        if cut:
            self.wfile.flush()
            self.close_connection = True

    def _repo(self, name: str, revision: str, file: str | None) -> Repo | None:
        """The repository, where it may be seen; else it is refused. A gated one's list is seen by all."""
        fault, repo = self.hub.fault, self.hub.repos.get(name)
        sent = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if repo is None or (fault.token and not fault.gated and sent != fault.token):
            self._refuse(401, "RepoNotFound")
        elif fault.gone or revision not in ("main", repo.revision):
            self._refuse(404, "RevisionNotFound")
        elif fault.gated and file is not None and (not fault.token or sent != fault.token):
            self._refuse(403 if sent else 401, "GatedRepo")
        else:
            return repo
        return None

    def _planned(self, path: str) -> bool:
        """Give the status that is planned for a path, if one still is."""
        with self.hub.lock:
            planned = self.hub.fault.status.get(path)
            if planned is None or self.hub.fault.repeat <= 0:
                return False
            self.hub.fault.repeat -= 1
        self._refuse(planned[0], "Planned", planned[1])
        return True

    def _refuse(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
        self._head(status, {"X-Error-Code": code, "Content-Length": "0", **(headers or {})})

    def _json(self, data: Any) -> None:
        raw = json.dumps(data).encode()
        self._head(200, {"Content-Type": "application/json", "Content-Length": str(len(raw))})
        if self.command != "HEAD":
            self.wfile.write(raw)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


def _sibling(path: str, content: bytes, *, blobs: bool) -> dict[str, Any]:
    if not blobs:
        return {"rfilename": path}
    found: dict[str, Any] = {"rfilename": path, "size": len(content), "blobId": git_sha1(content)}
    if path.endswith(LARGE):
        found["lfs"] = {"sha256": sha256(content), "size": len(content), "pointerSize": 134}
    return found


def _tree(repo: Repo, below: str, *, recursive: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path, content in repo.files.items():
        inside = path.removeprefix(f"{below}/") if below else path
        if (below and inside == path) or (not recursive and "/" in inside):
            continue
        entry: dict[str, Any] = {
            "type": "file",
            "path": path,
            "size": len(content),
            "oid": git_sha1(content),
        }
        if path.endswith(LARGE):
            entry["lfs"] = {"oid": sha256(content), "size": len(content), "pointerSize": 134}
        found.append(entry)
    return found


@cache
def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@cache
def git_sha1(content: bytes) -> str:
    """Git's name of a content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
