"""status.json is replaced in one step, or not at all."""

from pathlib import Path

import pytest

from appliance.supervise import status
from appliance.supervise.status import STARTING, Status

SHOWN = Status("demo", "0" * 64, 1, 1, None, STARTING, "starting", 0.0, 0.0, 0.0, 1)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    status.write(tmp_path, SHOWN)
    assert status.read(tmp_path) == SHOWN


@pytest.mark.parametrize("step", ["write_text", "replace"])
def test_a_write_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(path: Path, *_: object, **__: object) -> None:
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, step, full)
    with pytest.raises(OSError, match="No space"):
        status.write(tmp_path, SHOWN)
    assert list(tmp_path.iterdir()) == []


def test_cleaning_spares_the_status_and_the_lock(tmp_path: Path) -> None:
    status.write(tmp_path, SHOWN)
    (tmp_path / "supervisor.lock").touch()
    (tmp_path / ".status.json.17").touch()
    status.clean(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["status.json", "supervisor.lock"]
