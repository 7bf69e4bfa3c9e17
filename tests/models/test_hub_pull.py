"""A hub's model into the cache: the right bytes, once, and the truth about what was kept."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.catalog.entries import HubSource
from appliance.core.errors import FetchFault, MachineFault, Mismatch
from appliance.core.secrets import default_secrets, store
from appliance.models import folder as folders
from appliance.models import hub_client
from appliance.models.bring import bring, is_here
from appliance.models.bring import pull as pull_all
from appliance.models.hub_files import needed, read_record
from appliance.models.hub_pull import pull
from appliance.models.place import hub_folder
from tests.fakes.hub_server import REVISION, Hub, Repo, sha256
from tests.models.conftest import (
    CONFIG,
    FILES,
    REPO,
    SHARDS,
    UNNEEDED,
    Told,
    check_whole,
    hub_entry,
    paths_in,
    source_of,
)

FIRST, SECOND = SHARDS
FOLDER = hub_folder(REPO)
TOKEN = "hf_abcdefghijklmnopqrstuvwxyz$oauthtoken"


def fetched(hub: Hub) -> list[str]:
    return sorted(hub.contents())


def test_only_what_an_engine_reads_is_fetched_and_each_file_once(
    hub: Hub, tmp_path: Path, told: Told
) -> None:
    """Case 16: the repository holds three copies."""
    pull(source_of(), tmp_path, told.say, told.progress)
    check_whole(tmp_path)
    assert fetched(hub) == sorted(FILES)
    whole = sum(len(content) for content in (FILES | UNNEEDED).values())
    assert f"fetching 4 files of {REPO}" in told.text and REVISION in told.text
    assert f"the repository holds {whole / 1e6:,.1f} MB" in told.text
    size = sum(map(len, FILES.values()))
    assert told.steps[-1] == (f"downloading {REPO}", size, size)
    assert all(done < total for _, done, total in told.steps[:-1])


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("config.json", True),
        ("model.safetensors", True),
        ("original/config.json", False),
        ("README.md", False),
        ("config.JSON", False),
        ("unused.json", False),
        ("metal/model.bin", False),
        ("more/model.bin", True),
        ("more/still/model.bin", False),
    ],
)
def test_which_files_are_needed(path: str, wanted: bool) -> None:
    source = HubSource(
        kind="hub", repo=REPO, revision=None, files=("*.json", "*.safetensors", "m*/*.bin"),
        unneeded=("un*", "metal/*"), bytes=None,
    )  # fmt: skip
    assert needed(path, source) is wanted


def test_what_is_here_is_neither_fetched_nor_hashed_nor_asked_for_again(
    hub: Hub, tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    pull(source_of(), tmp_path, told.say, told.progress)
    asked = list(hub.asked)
    monkeypatch.setattr("appliance.models.hub_pull.digest_of", lambda *_: pytest.fail("hashed again"))
    pull(source_of(), tmp_path, told.say, told.progress)
    assert hub.asked == asked


def test_the_revision_is_resolved_once_and_stays(hub: Hub, tmp_path: Path, told: Told) -> None:
    """A newer one at the hub is no reason to download anew."""
    pull(source_of(), tmp_path, told.say, told.progress)
    hub.repos[REPO] = Repo({"config.json": b"{}", "model.safetensors": b"newer"}, revision="f" * 40)
    pull(source_of(), tmp_path, told.say, told.progress)
    check_whole(tmp_path)


@pytest.mark.usefixtures("hub")
def test_a_pinned_revision_is_the_one_that_is_fetched(tmp_path: Path, told: Told) -> None:
    pull(source_of(revision=REVISION), tmp_path, told.say, told.progress)
    assert (tmp_path / FOLDER / "snapshots" / REVISION / "config.json").read_bytes() == CONFIG
    assert not (tmp_path / FOLDER / "refs").exists()
    with pytest.raises(FetchFault) as caught:
        pull(source_of(revision="e" * 40), tmp_path, told.say, told.progress)
    assert "does not have this revision" in caught.value.what and "moved" in caught.value.why


# Downloads that break.


def test_a_pull_that_is_killed_at_half_is_completed_by_the_next(hub: Hub, tmp_path: Path, told: Told) -> None:
    """Case 12: completes, says what was kept, and leaves no orphan."""
    hub.fault.hold = threading.Event()
    program = (
        "import sys; from pathlib import Path; from appliance.models.hub_pull import pull\n"
        "from tests.models.conftest import source_of\n"
        "pull(source_of(), Path(sys.argv[1]), print, lambda *_: None)"
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.DEVNULL)
    assert hub.half.wait(60)
    deadline = time.monotonic() + 30
    record = None
    while time.monotonic() < deadline:  # both small files are recorded before the large ones are half there
        record = read_record(tmp_path / FOLDER, REVISION)
        if record and len(record.checked) == 2 and list(tmp_path.rglob("*.incomplete")):
            break
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.wait(10)
    assert record and sorted(record.checked) == ["config.json", "model.safetensors.index.json"]
    orphans = list(tmp_path.rglob("*.incomplete"))
    assert orphans and not is_here(hub_entry(), paths_in(tmp_path.parent))
    hub.fault.hold.set()
    before = len(hub.asked)
    pull(source_of(), tmp_path, told.say, told.progress)
    check_whole(tmp_path)
    assert "kept 2 whole files" in told.text
    again = [path for method, path in hub.asked[before:] if method == "GET" and "config.json" in path]
    assert again == []  # what was whole is not fetched again


@pytest.mark.usefixtures("hub")
def test_half_files_are_removed_and_told_but_not_those_of_a_program_at_work(
    tmp_path: Path, told: Told
) -> None:
    """Such as `hf download`, which holds the library's lock of its file."""
    blobs, locks = tmp_path / FOLDER / "blobs", tmp_path / ".locks" / FOLDER
    blobs.mkdir(parents=True)
    locks.mkdir(parents=True)
    dead, older, alive = (
        blobs / f"{digest}.incomplete" for digest in ("a" * 64 + ".0f0f0f0f", "b" * 64, "c" * 64)
    )
    for part in (dead, older, alive):
        part.write_bytes(b"x" * 1_000_000)
    removed = tmp_path / f".{FOLDER}.removed-1"  # of a `models rm` that was killed
    removed.mkdir()
    with (locks / f"{'c' * 64}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        pull(source_of(), tmp_path, told.say, told.progress)
    assert (dead.exists(), older.exists(), alive.exists()) == (False, False, True)
    assert not removed.exists()
    assert "removed 2.0 MB" in told.text and "begins anew" in told.text
    assert f"{alive.name} is left to it" in told.text


def test_a_connection_that_is_cut_is_taken_up_again(
    hub: Hub, tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1 << 14)
    hub.fault.cut = {FIRST: 1}
    pull(source_of(), tmp_path, told.say, told.progress)
    check_whole(tmp_path)
    ((path, asked),) = hub.ranges
    assert path.endswith(FIRST) and int(asked.removeprefix("bytes=").rstrip("-")) > 0


def test_an_interrupt_ends_it_soon_and_leaves_no_half_file(hub: Hub, tmp_path: Path, told: Told) -> None:
    hub.fault.slow_s = 0.02

    def interrupt(label: str, done: int, total: int) -> None:
        del label, total
        if done > 1000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull(source_of(), tmp_path, told.say, interrupt)
    assert not list(tmp_path.rglob("*.incomplete"))
    hub.fault.slow_s = 0
    pull(source_of(), tmp_path, told.say, told.progress)
    check_whole(tmp_path)


def test_two_pulls_at_once_fetch_each_file_once(hub: Hub, tmp_path: Path) -> None:
    hub.fault.hold = threading.Event()
    tolds = [Told([], []), Told([], [])]
    pulls = [
        threading.Thread(target=pull, args=(source_of(), tmp_path, told.say, told.progress)) for told in tolds
    ]
    pulls[0].start()
    assert hub.half.wait(60)
    pulls[1].start()
    deadline = time.monotonic() + 30
    while not any("waiting" in line for line in tolds[1].lines) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert "another process is getting" in tolds[1].text
    hub.fault.hold.set()
    for thread in pulls:
        thread.join(60)
    check_whole(tmp_path)
    assert fetched(hub) == sorted(FILES)


# Wrong bytes.


def test_a_file_that_comes_wrong_once_is_fetched_again(hub: Hub, tmp_path: Path, told: Told) -> None:
    hub.fault.content, hub.fault.times = {FIRST: b"\0" * len(SHARDS[FIRST])}, {FIRST: 1}
    pull(source_of(), tmp_path, told.say, told.progress)
    check_whole(tmp_path)


@pytest.mark.parametrize("content", [b"\0" * len(SHARDS[FIRST]), SHARDS[FIRST][:-1], SHARDS[FIRST] + b"\0" * 781],
                         ids=["content", "short", "oversize"])  # fmt: skip
def test_a_file_that_is_not_what_the_hub_says_is_named_and_not_kept(
    content: bytes, hub: Hub, tmp_path: Path, told: Told
) -> None:
    hub.fault.content = {FIRST: content}
    with pytest.raises(Mismatch) as caught:
        pull(source_of(), tmp_path, told.say, told.progress)
    assert caught.value.code == 9 and FIRST in caught.value.what
    assert not (tmp_path / FOLDER / "snapshots" / REVISION / FIRST).exists()
    assert not (tmp_path / FOLDER / "blobs" / sha256(SHARDS[FIRST])).exists()
    hub.fault.content = {}
    pull(source_of(), tmp_path, told.say, told.progress)
    check_whole(tmp_path)


def test_a_small_file_is_compared_too(hub: Hub, tmp_path: Path, told: Told) -> None:
    hub.fault.content = {"config.json": b"<" * len(CONFIG)}
    with pytest.raises(Mismatch, match="is not what the hub says"):
        pull(source_of(), tmp_path, told.say, told.progress)


@pytest.mark.parametrize("extra", [b"", b"\0" * 781], ids=["same size", "too large"])
def test_a_download_by_other_means_is_compared_and_only_its_bad_file_replaced(
    extra: bytes, hub: Hub, tmp_path: Path, told: Told
) -> None:
    """Such as a shard that is too large after an interruption (MiaAI dual#30)."""
    pull(source_of(), tmp_path, told.say, told.progress)
    shutil.rmtree(tmp_path / FOLDER / ".spark-spec")
    blob = (tmp_path / FOLDER / "snapshots" / REVISION / SECOND).resolve()
    blob.write_bytes(b"\0" * len(SHARDS[SECOND]) + extra)
    hub.asked.clear()
    pull(source_of(), tmp_path, told.say, told.progress)
    check_whole(tmp_path)
    assert fetched(hub) == [SECOND]
    assert f"{SECOND} of {REPO} has" in told.text and "kept 3 whole files" in told.text


@pytest.mark.usefixtures("hub")
def test_contents_in_the_librarys_shared_store_are_brought_into_the_folder(
    tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container sees the model's folder alone; the store lies beside it."""
    pull(source_of(), tmp_path, told.say, told.progress)
    blob = tmp_path / FOLDER / "blobs" / sha256(SHARDS[FIRST])
    shared = tmp_path / "blobs" / "ab" / ("ab" + "0" * 62)
    shared.parent.mkdir(parents=True)
    blob.rename(shared)
    blob.symlink_to(os.path.relpath(shared, blob.parent))
    assert not is_here(hub_entry(), paths_in(tmp_path).model_copy(update={"hub": tmp_path}))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    pull(source_of(), tmp_path, told.say, told.progress)
    assert not blob.is_symlink() and blob.samefile(shared)
    check_whole(tmp_path)


# The machine.


def test_a_disk_that_is_too_small_is_refused_with_both_numbers(
    hub: Hub, tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 15: before a byte is fetched, and for all of a preset's models together."""
    hub.repos["org/head"] = hub.repos[REPO]
    size = sum(map(len, FILES.values()))
    paths = paths_in(tmp_path)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(folders.shutil, "disk_usage", lambda _: usage._replace(free=size + 1000))
    with pytest.raises(MachineFault) as caught:
        bring([hub_entry(), hub_entry("org/head")], paths, told.say)
    assert caught.value.code == 4 and "org/model and org/head" in caught.value.what
    assert (
        f"{2 * size / 1e6:,.1f} MB are needed and {(size + 1000) / 1e6:,.1f} MB are free" in caught.value.why
    )
    assert fetched(hub) == []
    bring([hub_entry()], paths, told.say)
    check_whole(paths.hub)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(folder)], check=False,
                          capture_output=True)  # fmt: skip
    if done.returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.usefixtures("hub")
def test_a_disk_that_becomes_full_is_told_and_what_is_whole_is_kept(
    small_disk: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 15, where another program takes the room meanwhile."""
    monkeypatch.setattr("appliance.models.hub_pull.check_room", lambda *_: None)
    with pytest.raises(MachineFault) as caught:
        pull(source_of(), small_disk / "hub", told.say, told.progress)
    assert "the disk became full" in caught.value.what and str(small_disk) in caught.value.why
    assert not list(small_disk.rglob("*.incomplete"))
    record = read_record(small_disk / "hub" / FOLDER, REVISION)
    assert record and len(record.checked) < len(FILES)
    snapshot = small_disk / "hub" / FOLDER / "snapshots" / REVISION
    assert all((snapshot / path).read_bytes() == FILES[path] for path in record.checked)


FOREIGN = """
import json, os, sys
from pathlib import Path
from appliance.core.errors import MachineFault
from appliance.models.hub_pull import pull
from tests.models.conftest import source_of
import huggingface_hub.errors
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    pull(source_of(), Path(sys.argv[1]), print, lambda *_: None)
except MachineFault as fault:
    print(json.dumps([fault.what, fault.why, fault.fix]))
"""


@pytest.mark.parametrize("part", ["", "blobs", "snapshots/" + REVISION])
def test_a_cache_that_belongs_to_another_user_stops_it_before_the_hub_is_asked(part: str, hub: Hub) -> None:
    """Case 11: a container that ran as root left it."""
    import tempfile

    cache = Path(tempfile.mkdtemp(prefix="cache-"))  # pytest's own folders let no other user in
    refused = cache / FOLDER / part
    try:
        cache.chmod(0o777)
        refused.mkdir(parents=True)
        for folder in (cache / FOLDER, *(cache / FOLDER).rglob("*")):
            folder.chmod(0o555 if folder == refused else 0o777)
        if os.geteuid() != 0:
            pytest.skip("only root can make another user's folder")
        done = subprocess.run([sys.executable, "-c", FOREIGN, str(cache)], capture_output=True, text=True,
                              timeout=60, check=True)  # fmt: skip
    finally:
        shutil.rmtree(cache)
    what, why, fix = json.loads(done.stdout)
    assert what == f"{refused} cannot be written" and "belongs to root" in why
    assert fix.startswith(f"sudo chown -R nobody {refused}")
    assert hub.asked == []


# Who may fetch.


@pytest.mark.parametrize("where", ["environment", "secrets"])
def test_a_token_goes_to_the_hub_and_nowhere_else(
    where: str, hub: Hub, tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.fault.token, hub.fault.gated = TOKEN, True
    if where == "environment":
        monkeypatch.setenv("HF_TOKEN", TOKEN)
    else:
        path = default_secrets()
        assert path
        store(path, "HF_TOKEN", TOKEN)
    cache = tmp_path / "cache"
    pull(source_of(), cache, told.say, told.progress)
    check_whole(cache)
    storage = [sent for path, sent in hub.tokens if path.startswith("/cdn/")]
    assert storage and set(storage) == {None}
    assert {sent for path, sent in hub.tokens if "/resolve/" in path} == {f"Bearer {TOKEN}"}
    written = b"".join(path.read_bytes() for path in cache.rglob("*") if path.is_file())
    assert TOKEN.encode() not in written and TOKEN not in told.text


@pytest.mark.parametrize("token", [None, "hf_of_somebody_else"])
def test_a_gated_model_says_where_its_terms_are_and_where_a_token_is_looked_for(
    token: str | None, hub: Hub, tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.fault.token, hub.fault.gated = TOKEN, True
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(FetchFault) as caught:
        pull(source_of(), tmp_path, told.say, told.progress)
    fault = caught.value
    assert fault.code == 5 and "terms" in fault.why and f"{hub.address}/{REPO}" in fault.fix
    assert "HF_TOKEN" in fault.fix and "spark-spec secrets set" in fault.fix
    assert "hf_of" not in f"{fault.what}{fault.why}{fault.fix}"


@pytest.mark.usefixtures("hub")
def test_a_repository_that_is_not_shown_is_told_apart_from_a_network_that_is_down(
    tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FetchFault) as caught:
        pull(source_of("org/absent"), tmp_path, told.say, told.progress)
    assert "does not show org/absent" in caught.value.what and "401" in caught.value.why
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(FetchFault) as caught:
        pull(source_of(), tmp_path, told.say, told.progress)
    assert "127.0.0.1:9 does not answer" in caught.value.why


# A hub that is busy, or leads elsewhere.


@pytest.mark.parametrize("path", ["api", "config.json", f"cdn:{FIRST}"])
def test_a_busy_hub_is_asked_again_after_as_long_as_it_wishes(
    path: str, hub: Hub, tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    hub.fault.status, hub.fault.repeat = {path: (429, {"Retry-After": "7"})}, 2
    pull(source_of(), tmp_path, told.say, told.progress)
    check_whole(tmp_path)
    assert any(7 <= seconds <= 8 for seconds in slept)


@pytest.mark.parametrize("path", ["api", "config.json"])
def test_a_hub_that_stays_busy_is_given_up(
    path: str, hub: Hub, tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    hub.fault.status = {path: (429, {"Retry-After": "7"})}
    with pytest.raises(FetchFault) as caught:
        pull(source_of(), tmp_path, told.say, told.progress)
    assert "no more for now" in caught.value.what
    assert len(hub.asked) < 40


@pytest.mark.parametrize("path", ["api", "config.json", f"cdn:{FIRST}"])
def test_a_wait_without_end_is_refused(path: str, hub: Hub, tmp_path: Path, told: Told) -> None:
    hub.fault.status = {path: (429, {"Retry-After": "86400"})}
    with pytest.raises(FetchFault) as caught:
        pull(source_of(), tmp_path, told.say, told.progress)
    assert "86400 s" in caught.value.why


def test_a_redirect_to_another_host_in_the_clear_is_refused(hub: Hub, tmp_path: Path, told: Told) -> None:
    hub.fault.redirect = "http://storage.example"
    with pytest.raises(FetchFault) as caught:
        pull(source_of(), tmp_path, told.say, told.progress)
    assert "not trusted" in caught.value.what and "http://storage.example" in caught.value.why


@pytest.mark.parametrize(
    ("hub_at", "leads_to", "followed"),
    [
        ("https://hub.example", "https://storage.example/x", True),
        ("https://hub.example", "http://hub.example/x", False),
        ("http://hub.example", "http://hub.example:81/x", True),
        ("http://hub.example", "http://127.0.0.1/x", False),
        ("http://127.0.0.1:80", "http://127.0.0.2/x", True),
    ],
)
def test_where_a_redirect_may_lead(
    hub_at: str, leads_to: str, followed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import SimpleNamespace
    from urllib.parse import urlsplit

    monkeypatch.setenv("HF_ENDPOINT", hub_at)
    url = urlsplit(leads_to)
    request = SimpleNamespace(url=SimpleNamespace(scheme=url.scheme, host=url.hostname))
    if followed:
        hub_client._check_request(request)
    else:
        with pytest.raises(FetchFault):
            hub_client._check_request(request)


@pytest.mark.parametrize("path", ["../../evil.json", "/etc/evil.json", "a/../../b.json", "bad\nname.json"])
def test_a_list_with_a_path_that_leads_out_is_refused(
    path: str, hub: Hub, tmp_path: Path, told: Told
) -> None:
    hub.repos[REPO].files = FILES | {path: b"{}"}
    with pytest.raises(FetchFault, match="lists a file called"):
        pull(source_of(), tmp_path, told.say, told.progress)


def test_a_repository_without_what_an_engine_reads_is_told(hub: Hub, tmp_path: Path, told: Told) -> None:
    hub.repos[REPO].files = {"README.md": b"soon"}
    with pytest.raises(FetchFault, match="none of the files"):
        pull(source_of(), tmp_path, told.say, told.progress)


# All models of a preset.


def test_up_fetches_what_is_missing_and_asks_nothing_of_what_is_here(
    hub: Hub, tmp_path: Path, told: Told
) -> None:
    paths = paths_in(tmp_path)
    bring([hub_entry()], paths, told.say)
    check_whole(paths.hub)
    hub.asked.clear()
    bring([hub_entry()], paths, told.say)
    assert hub.asked == []


@pytest.mark.usefixtures("hub")
def test_a_file_that_changed_since_it_was_checked_is_not_here(tmp_path: Path, told: Told) -> None:
    paths = paths_in(tmp_path)
    bring([hub_entry()], paths, told.say)
    (paths.hub / FOLDER / "snapshots" / REVISION / FIRST).resolve().write_bytes(b"\0" * len(SHARDS[FIRST]))
    assert not is_here(hub_entry(), paths)
    bring([hub_entry()], paths, told.say)
    check_whole(paths.hub)


@pytest.mark.usefixtures("hub")
def test_without_a_hub_what_is_here_by_other_means_is_used_and_that_is_said(
    tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = paths_in(tmp_path)
    bring([hub_entry()], paths, told.say)
    shutil.rmtree(paths.hub / FOLDER / ".spark-spec")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    pull_all([hub_entry()], paths, told.say)
    assert "was not compared with the hub" in told.text
