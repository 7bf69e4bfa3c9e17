"""The harmony vocabulary is found wanting before anything is loaded, with the command that gets it (case 20)."""

import hashlib
import os
import shlex
import threading
import urllib.request
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from appliance.catalog.entries import load_entry
from appliance.core.errors import FetchFault, MachineFault, Mismatch
from appliance.models import harmony
from appliance.models.harmony import HARMONY, check_harmony
from appliance.models.harmony_get import bring_harmony
from tests.engines.served import FACTS, with_facts

CONTENT = {name: f"IQ== {number}\n".encode() for number, name in enumerate(HARMONY)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files as they should be; the hashes are those of small stand-ins."""
    monkeypatch.setattr(
        harmony, "HARMONY", {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}
    )
    there = tmp_path / "my harmony"
    there.mkdir()
    for name, content in CONTENT.items():
        (there / name).write_bytes(content)
    return there


@with_facts
def test_the_hashes_are_the_facts() -> None:
    facts = (FACTS / "trtllm.md").read_text(encoding="utf-8")
    assert set(HARMONY) == {"o200k_base.tiktoken", "cl100k_base.tiktoken"}
    assert all(f"{name} {sha256}" in facts for name, sha256 in HARMONY.items())


def test_a_whole_vocabulary_is_accepted(folder: Path) -> None:
    check_harmony(folder)


@pytest.mark.parametrize("name", CONTENT)
def test_a_file_that_is_not_there_is_fetched_by_the_command(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(FetchFault) as caught:
        check_harmony(folder)
    assert caught.value.code == 5 and str(folder / name) in caught.value.what
    command = shlex.split(caught.value.fix.partition("    (")[0])
    assert command[:4] == ["mkdir", "-p", str(folder), "&&"]
    assert command[4:8] == ["curl", "-fL", "-o", str(folder / name)] and command[8].endswith(f"/{name}")
    assert "without network" in caught.value.fix and "paths.harmony" in caught.value.fix


def test_a_folder_that_is_the_wrong_one_names_the_first_file_it_lacks(folder: Path) -> None:
    for wrong in (folder.parent, folder / "nowhere"):
        with pytest.raises(FetchFault, match=rf"{wrong}/o200k_base\.tiktoken is not there"):
            check_harmony(wrong)


@pytest.mark.parametrize(
    "content", [b"", b"<html>blocked by the proxy</html>", CONTENT["cl100k_base.tiktoken"]]
)
def test_another_content_is_a_mismatch(folder: Path, content: bytes) -> None:
    (folder / "o200k_base.tiktoken").write_bytes(content)
    with pytest.raises(Mismatch) as caught:
        check_harmony(folder)
    assert caught.value.code == 9
    assert hashlib.sha256(content).hexdigest() in caught.value.why and "curl -fL" in caught.value.fix


def test_what_cannot_be_read_is_the_machine_s_fault(folder: Path) -> None:
    (folder / "o200k_base.tiktoken").unlink()
    (folder / "o200k_base.tiktoken").mkdir()
    with pytest.raises(MachineFault) as caught:
        check_harmony(folder)
    assert caught.value.code == 4 and "no ordinary file" in caught.value.why
    (folder / "plain").write_text("")
    with pytest.raises(MachineFault):
        check_harmony(folder / "plain")


@pytest.mark.parametrize("name", list(HARMONY))
def test_a_pipe_in_its_place_is_not_waited_for(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(MachineFault, match="cannot be read"):
        check_harmony(folder)


@pytest.mark.parametrize("name", list(HARMONY))
def test_each_file_is_compared_and_one_without_end_is_not_read(folder: Path, name: str) -> None:
    with (folder / name).open("r+b") as stream:
        stream.truncate(1 << 30)
    with pytest.raises(Mismatch, match=name):
        check_harmony(folder)


def test_who_speaks_harmony_is_written_in_the_catalog() -> None:
    assert load_entry("gpt-oss-120b").chat == "harmony"
    assert load_entry("llama-3.3-70b-instruct-fp4").chat is None


# Fetching it.


@pytest.fixture
def published(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the vocabulary is published: the folder's files, served."""
    served = tmp_path / "published"
    folder.rename(served)
    handler = partial(Quiet, directory=str(served))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    monkeypatch.setattr(harmony, "ADDRESS", f"http://127.0.0.1:{server.server_address[1]}")
    yield served
    server.shutdown()
    server.server_close()
    thread.join(5)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


class Elsewhere(Quiet):
    """Leads to another host, in the clear."""

    def do_GET(self) -> None:
        self.send_response(302)
        self.send_header("Location", f"http://storage.example{self.path}")
        self.send_header("Content-Length", "0")
        self.end_headers()


def silent(*_: object) -> None:
    """Nobody listens."""


@pytest.mark.parametrize("first", [None, b"<html>blocked by the proxy</html>"])
def test_it_is_fetched_and_compared(first: bytes | None, published: Path, folder: Path) -> None:
    del published
    if first is not None:
        folder.mkdir()
        (folder / "o200k_base.tiktoken").write_bytes(first)
    bring_harmony(folder, silent, silent)
    check_harmony(folder)
    assert {path.name for path in folder.iterdir() if path.name[0] != "."} == set(CONTENT)
    assert all((folder / name).stat().st_mode & 0o777 == 0o644 for name in CONTENT)


def test_what_is_here_is_not_fetched(published: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bring_harmony(folder, silent, silent)
    published.rename(published.with_name("gone"))
    monkeypatch.setattr(urllib.request, "build_opener", lambda *_: pytest.fail("it fetched"))
    bring_harmony(folder, silent, silent)


def test_another_content_is_never_put_in_its_place(published: Path, folder: Path) -> None:
    (published / "cl100k_base.tiktoken").write_bytes(b"IQ== 7\n")
    with pytest.raises(Mismatch) as caught:
        bring_harmony(folder, silent, silent)
    assert "cl100k_base.tiktoken is not the harmony vocabulary" in caught.value.what
    assert not (folder / "cl100k_base.tiktoken").exists() and not list(folder.glob(".*.part"))


@pytest.mark.parametrize("how", ["forbidden", "unreachable", "refused"])
def test_where_it_cannot_be_fetched_the_command_is_told_as_before(
    how: str, published: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "forbidden":
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    elif how == "unreachable":
        monkeypatch.setattr(harmony, "ADDRESS", "http://127.0.0.1:9")
    else:
        (published / "o200k_base.tiktoken").unlink()
    with pytest.raises(FetchFault) as caught:
        bring_harmony(folder, silent, silent)
    assert "o200k_base.tiktoken is not there" in caught.value.what and "curl -fL" in caught.value.fix
    assert ("127.0.0.1" in caught.value.why) == (how != "forbidden")


@pytest.mark.usefixtures("published")
def test_a_redirect_to_another_host_in_the_clear_is_not_followed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    monkeypatch.setattr(harmony, "ADDRESS", f"http://127.0.0.1:{server.server_address[1]}")
    try:
        with pytest.raises(FetchFault, match="is not there") as caught:
            bring_harmony(folder, silent, silent)
    finally:
        server.shutdown()
        server.server_close()
    assert "http://storage.example" in caught.value.why
