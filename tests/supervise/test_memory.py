"""What the machine can still give is read from its kernel, and a kernel that does not say it stops nothing."""

from pathlib import Path

import pytest

from appliance.supervise import memory


@pytest.mark.parametrize(
    ("text", "available"),
    [
        (b"MemTotal:  9 kB\nMemFree:  1 kB\nMemAvailable:     2 kB\nHugePages_Total:   0\n", 2048),
        (b"MemTotal:  9 kB\nMemFree:  1 kB\n", None),
        (b"MemAvailable:  2 MB\n", None),
        (b"MemAvailable: \xff kB\n", None),
        (b"", None),
    ],
)
def test_what_is_available_is_told_or_unknown(
    text: bytes, available: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    assert memory.available() is None
    memory.MEMINFO.write_bytes(text)
    assert memory.available() == available
