"""Memory is what the kernel says; the page cache that files have of it can be seen and given back."""

import os
from pathlib import Path

import pytest

from appliance.core.errors import MachineFault
from appliance.machine.memory import Memory, cached_bytes, give_back, parse_meminfo, read_memory

MEMINFO = "MemTotal:       125500000 kB\nMemFree:  1000 kB\nMemAvailable:  2000 kB\nHugePages_Total:   0\n"


def test_what_the_kernel_says() -> None:
    assert parse_meminfo(MEMINFO) == Memory(125_500_000 * 1024, 2000 * 1024, 1000 * 1024)
    here = read_memory()
    assert 0 < here.free <= here.total and 0 < here.available <= here.total


@pytest.mark.parametrize("text", ["", "MemTotal: 1 kB\nMemFree: 1 kB\n", MEMINFO.replace("kB", "MB")])
def test_a_kernel_that_does_not_say_it_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "meminfo").write_text(text)
    with pytest.raises(MachineFault) as caught:
        read_memory(tmp_path / "meminfo")
    assert caught.value.code == 4 and str(tmp_path) in caught.value.fix
    with pytest.raises(MachineFault):
        read_memory(tmp_path / "nothing")


def in_cache(path: Path) -> Path:
    """Skips where the file system keeps no page cache that can be dropped, as a RAM disk does."""
    path.write_bytes(os.urandom(8 << 20))
    give_back([path])
    if cached_bytes(path) != 0:
        pytest.skip(f"{path.parent} lies on no disk")
    path.read_bytes()
    return path


def test_a_file_that_was_read_lies_in_the_page_cache_and_is_given_back(tmp_path: Path) -> None:
    path = in_cache(tmp_path / "weights")
    assert cached_bytes(path) == 8 << 20
    give_back([path])
    assert cached_bytes(path) == 0


def test_what_was_just_written_is_given_back_too(tmp_path: Path) -> None:
    path = in_cache(tmp_path / "weights")
    content = os.urandom(4 << 20)
    path.write_bytes(content)
    give_back([path])
    assert cached_bytes(path) == 0
    assert path.read_bytes() == content


def test_only_the_files_that_are_meant_go(tmp_path: Path) -> None:
    mine, other = in_cache(tmp_path / "mine"), in_cache(tmp_path / "other")
    give_back([mine])
    assert (cached_bytes(mine), cached_bytes(other)) == (0, 8 << 20)


def test_a_large_file_with_nothing_in_memory_is_looked_at_by_parts(tmp_path: Path) -> None:
    with (tmp_path / "weights").open("wb") as stream:
        stream.truncate((5 << 30) + 12_345)
        stream.seek(3 << 30)
        stream.write(b"x" * 4096)
    found = cached_bytes(tmp_path / "weights")
    assert found is not None and 4096 <= found < 16 << 20


def test_an_empty_file_has_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert cached_bytes(tmp_path / "empty") == 0


def test_what_cannot_be_opened_is_not_known_and_left_alone(tmp_path: Path) -> None:
    assert cached_bytes(tmp_path / "nothing") is None
    give_back([tmp_path / "nothing", tmp_path])


def test_of_another_s_file_the_kernel_says_nothing_of_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs").write_bytes(b"x" * 4096)
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    monkeypatch.setattr("os.access", lambda *_: False)
    assert cached_bytes(tmp_path / "theirs") is None
