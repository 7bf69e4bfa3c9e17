"""The user's lock: absent it locks nothing, what is in it is strict, and it wins."""

from pathlib import Path

import pytest

from appliance.catalog.lock import Lock, LockedBase, LockedEngine, engine_key, lock_path, locked, write
from appliance.core.errors import ConfigFault

DIGEST = "sha256:" + "ab" * 32


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "spark-spec"


def test_without_a_file_nothing_is_locked() -> None:
    assert locked() == Lock()


def test_what_is_written_is_read(config: Path) -> None:
    lock = Lock(
        bases={"nvcr.io/x:1": LockedBase(digest=DIGEST, platforms=("linux/arm64",))},
        engines={
            engine_key("vllm", "26.05"): LockedEngine(version="0.30", image="x:1", options={"type": "object"})
        },
    )
    locked()
    assert write(lock) == config / "images.lock.json" == lock_path()
    assert locked() == lock


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"schema_version": 2}',
        '{"bases": {"x:1": {"digest": "sha256:12", "platforms": []}}}',
        '{"bases": {"x:1": {"digest": null, "platforms": []}}}',
        '{"digests": {}}',
    ],
)
def test_a_file_that_is_off_is_refused(text: str, config: Path) -> None:
    config.mkdir()
    (config / "images.lock.json").write_text(text)
    with pytest.raises(ConfigFault) as caught:
        locked()
    assert "images.lock.json" in caught.value.what and "images lock" in caught.value.fix


def test_without_a_home_nothing_is_locked_and_nothing_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "nowhere")
    assert locked() == Lock()
    with pytest.raises(ConfigFault):
        write(Lock())
