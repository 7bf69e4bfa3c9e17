"""Releases of a stack on this machine: staged, published by rename, numbered; one lock a stack.

<state>/stacks/<name>/lock
                      state.json       which release is meant to run, which was last seen good
                      releases/0001/   the rendered files
                      run/             the process runtime's pid, status and log
                      audit.jsonl
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from appliance.catalog.stack import RuntimeName, Stack
from appliance.core.errors import ConfigFault, MachineFault
from appliance.core.paths import write_atomic
from appliance.stack.render import SCHEMA, Rendered
from appliance.supervise.status import start_ticks

STATE_SCHEMA = 1
ORPHAN_S = 60.0


RUNTIMES: tuple[RuntimeName | None, ...] = (None, "docker", "process")


def runtime_name(raw: object) -> RuntimeName | None:
    """A runtime's name as a file has it. Raises ValueError for another word."""
    for known in RUNTIMES:
        if raw == known:
            return known
    raise ValueError(f"there is no runtime {raw!r}")


@dataclass(frozen=True)
class Release:
    """A published release: its number, folder and what its manifest says."""

    number: int
    folder: Path
    manifest: Mapping[str, Any]

    @property
    def digest(self) -> str:
        return str(self.manifest["digest"])

    @property
    def runtime(self) -> RuntimeName:
        return runtime_name(self.manifest["runtime"]) or "process"

    def stack(self) -> Stack:
        """What it runs."""
        return Stack.model_validate_json(json.dumps(self.manifest["stack"]))

    def intact(self) -> bool:
        """Whether each file is still what the manifest says."""
        return all(
            (self.folder / path).is_file()
            and hashlib.sha256((self.folder / path).read_bytes()).hexdigest() == digest
            for path, digest in self.manifest["files"].items()
        )

    @property
    def port(self) -> int:
        return int(self.manifest["stack"]["serve"]["port"])


@dataclass(frozen=True)
class State:
    """What a stack's folder remembers: the number of the release meant to run (None: down) and the runtime it is
    on, the numbers of those seen good, in the order they were last seen so, and whether a container was left on a
    Docker that did not answer."""

    current: int | None = None
    runtime: RuntimeName | None = None
    good: tuple[int, ...] = ()
    left_on_docker: bool = False


class StackFolder:
    """A stack's folder. All that changes it happens under `lock`."""

    def __init__(self, state: Path, name: str) -> None:
        self.home = state.resolve()  # containers are found again by it, so it is one text for one folder
        self.name = name
        self.folder = self.home / "stacks" / name
        self.run = self.folder / "run"
        self.held: int | None = None  # the lock's handle, while it is held

    def exists(self) -> bool:
        return (self.folder / "state.json").exists()

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """One command at a time. Raises MachineFault at once where another holds it, and says which."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise MachineFault(
                f"cannot write the state folder {self.folder}", str(error),
                "give it to yourself (chown), or set paths.state to a folder of yours",
            ) from None  # fmt: skip
        try:
            self._take(handle)
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
            self.held = handle
            for stale in self.folder.glob(".state.json.*"):  # of a write that was killed
                stale.unlink()
            yield
        finally:
            self.held = None
            os.close(handle)

    def _take(self, handle: int) -> None:
        """Lock the open file. Where its holder is dead, what it had started still works: that is waited for."""
        deadline = time.monotonic() + ORPHAN_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                holder = os.pread(handle, 32, 0).decode(errors="replace").strip()
            if holder.isdigit() and start_ticks(int(holder)) is not None:
                raise MachineFault(
                    f"the stack {self.name} is being changed by another spark-spec",
                    f"process {holder} holds its lock",
                    "wait for it to end, or end it",
                )
            if time.monotonic() > deadline:
                raise MachineFault(
                    f"the stack {self.name} is still being changed",
                    f"what a killed spark-spec started holds {self.folder / 'lock'}",
                    f"see what it is (fuser -v {self.folder / 'lock'}), and end it",
                )
            time.sleep(0.05)

    def state(self) -> State:
        """Raises ConfigFault where it is damaged, or another version wrote it."""
        path = self.folder / "state.json"
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            if raw["schema"] != STATE_SCHEMA:
                raise ValueError(f"its schema is {raw['schema']}, not {STATE_SCHEMA}")
            return State(
                None if raw["current"] is None else int(raw["current"]),
                runtime_name(raw["runtime"]),
                tuple(int(number) for number in raw["good"]),
                bool(raw["left_on_docker"]),
            )
        except FileNotFoundError:
            return State()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigFault(
                f"{path} cannot be used",
                f"{type(error).__name__}: {error}",
                "take the stack down with the spark-spec that wrote it; or end it by hand, and remove its folder",
            ) from None

    def current(self) -> Release | None:
        """The release meant to run."""
        number = self.state().current
        return None if number is None else self.release(number)

    def remember_current(self, release: Release | None) -> None:
        """Which release is meant to run; None: none is. A damaged state file is written anew."""
        try:
            state = self.state()
        except ConfigFault:
            state = State()
        runtime = release.runtime if release else None
        self._write(replace(state, current=release.number if release else None, runtime=runtime))

    def remember_good(self, number: int) -> None:
        state = self.state()
        self._write(replace(state, good=(*(other for other in state.good if other != number), number)))

    def remember_left_on_docker(self, left: bool) -> None:
        self._write(replace(self.state(), left_on_docker=left))

    def _write(self, state: State) -> None:
        write_atomic(self.folder / "state.json", json.dumps({"schema": STATE_SCHEMA, **asdict(state)}) + "\n")

    def release(self, number: int) -> Release:
        folder = self.folder / "releases" / f"{number:04d}"
        try:
            manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
            if manifest["schema"] != SCHEMA:
                raise ValueError(f"its schema is {manifest['schema']}, not {SCHEMA}")
            release = Release(number, folder, manifest)
            _ = release.digest, release.runtime, release.port, release.manifest["files"].items()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigFault(
                f"release {number} of {self.name} cannot be read",
                str(error),
                f"remove {folder}, then `up` again",
            ) from None
        return release

    def numbers(self) -> list[int]:
        """The numbers of all published releases, oldest first."""
        return sorted(int(path.name) for path in (self.folder / "releases").glob("[0-9][0-9][0-9][0-9]"))

    def releases(self) -> list[Release]:
        """All published ones that can be read, oldest first."""
        found = []
        for number in self.numbers():
            with contextlib.suppress(ConfigFault):
                found.append(self.release(number))
        return found

    def published(self, digest: str) -> Release | None:
        """The newest release of that content whose files are still as they were."""
        found = (release for release in reversed(self.releases()) if release.digest == digest)
        return next((release for release in found if release.intact()), None)

    def publish(self, staged: Path) -> Release:
        """Give a staged folder its number, by rename."""
        number = max(self.numbers(), default=0) + 1
        staged.rename(self.folder / "releases" / f"{number:04d}")
        return self.release(number)

    @contextlib.contextmanager
    def stage(self, rendered: Rendered) -> Iterator[Path]:
        """The files in a folder of their own, for validation; gone afterwards unless published."""
        releases = self.folder / "releases"
        for stale in releases.glob(".staged-*"):
            shutil.rmtree(stale) if stale.is_dir() else stale.unlink()
        staged = releases / f".staged-{os.getpid()}"
        try:
            write_files(rendered, staged)
            yield staged
        finally:
            shutil.rmtree(staged, ignore_errors=True)

    def audit(self, event: str, **facts: Any) -> None:
        """One line in audit.jsonl: when, who, what. Raises OSError."""
        line = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "uid": os.getuid(), "event": event}
        with (self.folder / "audit.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line | facts, ensure_ascii=False) + "\n")


def write_files(rendered: Rendered, folder: Path) -> None:
    """The rendered files in a folder, readable for the container's user whatever the umask."""
    for path, text in rendered.files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        target.chmod(0o644)
    for inner in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        inner.chmod(0o755)


def stack_names(state: Path) -> list[str]:
    """The stacks that a state folder knows."""
    return sorted(path.parent.name for path in (state / "stacks").glob("*/state.json"))
