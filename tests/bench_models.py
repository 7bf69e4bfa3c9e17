"""Figures of models: hashing against sha256sum, a pull against plain downloads, and the memory of both."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from appliance.catalog.entries import HubSource
from appliance.models.hub_client import listing
from appliance.models.hub_files import HubFile, Record, write_record
from appliance.models.hub_pull import pull
from appliance.models.hub_shelf import set_main
from appliance.models.hub_verify import verify
from appliance.models.place import hub_folder
from tests.fakes.hub_server import REVISION

REPO = "org/model"
SOURCE = HubSource(kind="hub", repo=REPO, revision=None, files=("*.json", "*.safetensors"), bytes=None)
SHARD, SHARDS, ROUNDS = 256 << 20, 4, 5
# Between two pieces of 64 KiB on each of four connections: about 1 Gbit/s in all.
LINE_S = 0.002
SERVER = """
import os, sys
from tests.fakes.hub_server import Fault, Hub, Repo, serve
files = {f"{n}.safetensors": os.urandom(1 << 20) * (int(sys.argv[1]) >> 20) for n in range(int(sys.argv[2]))}
with serve(Hub({"org/model": Repo(files | {"config.json": b"{}"})}, Fault(slow_s=float(sys.argv[3])))) as hub:
    print(hub.address, hub.storage, flush=True)
    sys.stdin.read()
"""
VERIFY = """
import re, sys
from pathlib import Path
from appliance.core.errors import Mismatch
from appliance.models.hub_verify import verify
from tests.bench_models import SOURCE
try:
    verify(SOURCE, Path(sys.argv[1]), lambda *_: None)
except Mismatch:
    pass  # the sparse file is no model
print(1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]))
"""

Report = Callable[[str, str, str], None]


def seconds(run: Callable[[], object]) -> float:
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def laid(hub: Path, files: dict[str, HubFile]) -> None:
    """A record of files that lie in the snapshot already."""
    folder = hub / hub_folder(REPO)
    set_main(folder, REVISION)
    write_record(folder, Record(REPO, REVISION, "folder", tuple(files.values()), {}))


def hashing(report: Report, work: Path) -> None:
    """The same files, in the page cache: by us, and by as many sha256sum as there are processors."""
    snapshot = work / "hub" / hub_folder(REPO) / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    files, paths = {}, []
    for number in range(SHARDS):
        path = snapshot / f"{number}.safetensors"
        path.write_bytes(os.urandom(1 << 20) * (SHARD >> 20))
        digest = subprocess.run(
            ["sha256sum", str(path)], check=True, capture_output=True, text=True
        ).stdout.split()[0]
        files[path.name] = HubFile(path.name, SHARD, "sha256", digest)
        paths.append(str(path))
    laid(work / "hub", files)
    theirs_words = ["xargs", "-n1", f"-P{os.cpu_count()}", "sha256sum"]
    ours, theirs = [], []
    for _ in range(ROUNDS):  # interleaved: both see the same noise
        ours.append(seconds(lambda: verify(SOURCE, work / "hub", lambda *_: None)))
        theirs.append(
            seconds(
                lambda: subprocess.run(
                    theirs_words, input="\n".join(paths), text=True, check=True, capture_output=True
                )
            )
        )
    ratio = statistics.median(one / other for one, other in zip(ours, theirs, strict=True))
    report("models verify against sha256sum of the same bytes, side by side", f"{ratio:.2f}", "<= 1.1")
    shutil.rmtree(work / "hub")


def pulling(report: Report, work: Path) -> None:
    """Our pull, hashes and all, against plain parallel downloads of the same files from the same server."""
    report(
        "models pull against plain parallel downloads, at 1 Gbit/s",
        f"{_ratio(work, LINE_S, 3):.2f}",
        "<= 1.2",
    )
    report("  the same where server, network and disk are this machine's processors", f"{_ratio(work, 0, ROUNDS):.2f}",
           "none")  # fmt: skip


def _ratio(work: Path, slow_s: float, rounds: int) -> float:
    words = [sys.executable, "-c", SERVER, str(SHARD), str(SHARDS), str(slow_s)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout and server.stdin
        address, storage = server.stdout.readline().split()
        os.environ["HF_ENDPOINT"] = address
        listing(REPO, None, work)  # the server hashes its files once

        def get(number: int) -> None:
            url = f"{storage}/cdn/{REPO}/{REVISION}/{number}.safetensors"
            with (
                urllib.request.urlopen(url, timeout=60) as answer,
                (work / f"{number}.plain").open("wb") as out,
            ):
                shutil.copyfileobj(answer, out, 1 << 20)

        def plain() -> None:
            with ThreadPoolExecutor(SHARDS) as pool:
                list(pool.map(get, range(SHARDS)))

        ratios = []
        for _ in range(rounds):
            ours = seconds(lambda: pull(SOURCE, work / "hub", lambda _: None, lambda *_: None))
            ratios.append(ours / seconds(plain))
            for path in (work / "hub", *(work / f"{number}.plain" for number in range(SHARDS))):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        server.stdin.close()
    return statistics.median(ratios)


def memory(report: Report, work: Path) -> None:
    """Of a verify, over sparse files of both sizes."""
    peaks = []
    for size in (1 << 29, 8 << 30):
        hub = work / f"sparse-{size}"
        path = hub / hub_folder(REPO) / "snapshots" / REVISION / "0.safetensors"
        path.parent.mkdir(parents=True)
        with path.open("wb") as out:
            out.truncate(size)
        laid(hub, {path.name: HubFile(path.name, size, "sha256", "0" * 64)})
        done = subprocess.run(
            [sys.executable, "-c", VERIFY, str(hub)], check=True, capture_output=True, text=True
        )
        peaks.append(json.loads(done.stdout))
    shown = " and ".join(f"{peak / 1e6:.0f}" for peak in peaks)
    report("memory of models verify over 0.5 and 8 GiB", f"{shown} MB", "equal")


def measure(report: Report) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for figure in (hashing, pulling, memory):
            figure(report, Path(folder))
