"""The harmony vocabulary from where its makers publish it, each file compared before it takes its place."""

import contextlib
import hashlib
import os
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from appliance.core.errors import FetchFault, Mismatch, SparkSpecError
from appliance.models import harmony
from appliance.models.ensure import Progress, Say
from appliance.models.folder import check_writable, make, only_one
from appliance.models.harmony import check_harmony
from appliance.models.hub_client import offline
from appliance.models.hub_faults import explain
from appliance.models.record import CHUNK

WHAT = "the harmony vocabulary"
LARGEST = 32 << 20  # bytes of a file; the larger one has 3.6 million
SILENCE_S = 20.0  # of the server


def bring_harmony(folder: Path, say: Say, progress: Progress) -> None:
    """See to it that the vocabulary is here and right, by its hashes. Where it cannot be fetched, raises what
    `check_harmony` does, with the reason; else MachineFault, FetchFault, or Mismatch where the server gives another."""
    try:
        return check_harmony(folder)
    except (FetchFault, Mismatch) as lacking:
        if offline():
            raise
        fault = lacking
    check_writable(folder, folder)
    make(folder)
    with only_one(folder / "vocabulary", say):
        for name, sha256 in harmony.HARMONY.items():
            if not _right(folder / name, sha256):
                try:
                    _fetch(folder / name, sha256, progress)
                except FetchFault as unreachable:
                    raise type(fault)(
                        fault.what, f"{fault.why}; {unreachable.why}", fault.fix
                    ) from unreachable
    say(f"{WHAT} is in {folder}")


def _right(file: Path, sha256: str) -> bool:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() == sha256
    except OSError:
        return False


def _fetch(file: Path, sha256: str, progress: Progress) -> None:
    """One file, compared before it takes its place. Raises SparkSpecError."""
    fresh = file.with_name(f".{file.name}.part")
    try:
        with fresh.open("wb") as out, _answer(f"{harmony.ADDRESS}/{file.name}") as answer:
            os.fchmod(out.fileno(), 0o644)  # whatever the umask: the engine's user is another one
            digest = hashlib.sha256()
            total, done = int(answer.headers.get("Content-Length") or 0), 0
            while done <= LARGEST and (piece := answer.read(CHUNK)):
                out.write(piece)
                digest.update(piece)
                done += len(piece)
                progress(f"downloading {file.name}", done, max(total, done))
        if digest.hexdigest() != sha256:
            raise Mismatch(
                f"{harmony.ADDRESS}/{file.name} is not {WHAT}",
                f"its sha256 is {digest.hexdigest()}, not {sha256}",
                "see what lies between here and there: a proxy may have answered; or copy the file from elsewhere",
            )
        fresh.replace(file)
    except (OSError, HTTPException) as error:
        known = explain(error, WHAT, harmony.ADDRESS, file.parent)
        if isinstance(known, SparkSpecError):
            raise known from error
        raise FetchFault(
            f"{WHAT} cannot be fetched", f"{harmony.ADDRESS} answered: {error}", "run again later"
        ) from error
    finally:
        fresh.unlink(missing_ok=True)


@contextlib.contextmanager
def _answer(address: str) -> Iterator[Any]:
    """The server's answer, after redirects to https, or to its own host. Raises OSError, HTTPException, FetchFault."""
    with urllib.request.build_opener(_Careful()).open(address, timeout=SILENCE_S) as answer:
        yield answer


class _Careful(urllib.request.HTTPRedirectHandler):
    """Never from https to http, nor from one host's http to another's."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        to, own = urlsplit(newurl), urlsplit(req.full_url)
        if to.scheme != "https" and (to.scheme, to.hostname) != (own.scheme, own.hostname):
            raise FetchFault(
                f"{WHAT} cannot be fetched",
                f"{own.hostname} led to {to.scheme}://{to.hostname}, which is neither https nor its own host",
                "see what lies between here and there",
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)
