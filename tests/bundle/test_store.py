"""The blobs of a bundle that is being written: whole or not at all, cut to size, kept by the next run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.bundle.journal import Journal
from appliance.bundle.layout import blob_path
from appliance.bundle.store import Store
from appliance.core.errors import Mismatch
from tests.bundle.small import blob, sha


def store(folder: Path, part_bytes: int = 4, seen: Journal | None = None) -> Store:
    made = Store(folder, part_bytes, seen or Journal(None))
    made.open()
    return made


def names(folder: Path) -> list[str]:
    return sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file())


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"", [b""]),
        (b"abc", [b"abc"]),
        (b"abcd", [b"abcd"]),
        (b"abcde", [b"abcd", b"e"]),
        (b"abcdefgh", [b"abcd", b"efgh"]),
    ],
)
@pytest.mark.parametrize("step", [1, 3, 100])
def test_a_content_is_cut_where_the_medium_wants_it(
    content: bytes, parts: list[bytes], step: int, tmp_path: Path
) -> None:
    made, asked = store(tmp_path), blob(content)
    made.put((content[start : start + step] for start in range(0, len(content), step)), asked)
    if len(parts) == 1:
        assert (tmp_path / blob_path(asked.sha256)).read_bytes() == content and not made.parts
    else:
        assert [(tmp_path / blob_path(asked.sha256, i)).read_bytes() for i in range(len(parts))] == parts
        assert made.parts[asked.sha256] == tuple(map(blob, parts))
    assert made.holds(asked) and len(names(tmp_path)) == len(parts)


def test_what_was_written_is_kept_by_the_next_run_and_nothing_that_was_not(tmp_path: Path) -> None:
    content = b"abcdefghij"
    store(tmp_path).put([content], blob(content))
    again = store(tmp_path)
    assert again.holds(blob(content)) and len(again.parts[sha(content)]) == 3
    (tmp_path / blob_path(sha(content), 1)).write_bytes(b"EFGH")
    assert not store(tmp_path).holds(blob(content))
    (tmp_path / blob_path(sha(content), 1)).unlink()
    assert not store(tmp_path).holds(blob(content))


def test_another_part_size_is_another_way_to_lie_there(tmp_path: Path) -> None:
    content = b"abcdefghij"
    store(tmp_path).put([content], blob(content))
    other = store(tmp_path, part_bytes=5)
    assert not other.holds(blob(content))
    other.put([content], blob(content))
    other.sweep()
    assert names(tmp_path) == [blob_path(sha(content), 0), blob_path(sha(content), 1)]


def test_an_end_in_the_middle_leaves_nothing_half(tmp_path: Path) -> None:
    def breaks() -> Iterator[bytes]:
        yield b"abcdef"
        raise KeyboardInterrupt

    made = store(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        made.put(breaks(), blob(b"abcdefgh"))
    assert names(tmp_path) == [] and not made.holds(blob(b"abcdefgh"))


def test_what_a_killed_run_left_half_is_removed(tmp_path: Path) -> None:
    made = store(tmp_path)
    (tmp_path / "blobs" / "sha256" / ".new-1-2.000").write_bytes(b"abc")
    made.open()
    assert names(tmp_path) == []


def test_a_content_that_is_not_the_expected_one_is_refused(tmp_path: Path) -> None:
    made = store(tmp_path)
    for content in (b"abcdefgx", b"abc", b"abcdefghi"):
        with pytest.raises(Mismatch, match="changed while it was read"):
            made.put([content], blob(b"abcdefgh"))
    assert names(tmp_path) == []


def test_what_the_journal_knows_is_not_read_again(tmp_path: Path) -> None:
    seen, moved = tmp_path / "seen.json", list[int]()
    content = b"abcdefghij"
    store(tmp_path / "b", seen=Journal(seen)).put([content], blob(content))
    assert store(tmp_path / "b", seen=Journal(seen)).holds(blob(content), moved.append)
    assert moved == []
    assert store(tmp_path / "b").holds(blob(content), moved.append)
    assert sum(moved) == len(content)


def test_nothing_else_stays_among_the_blobs(tmp_path: Path) -> None:
    made = store(tmp_path)
    made.put([b"abcdef"], blob(b"abcdef"))
    made.put([b"x"], blob(b"x"))
    (tmp_path / "blobs" / "sha256" / sha(b"old")).write_bytes(b"old")
    made.held.remove(sha(b"x"))
    made.sweep()
    assert names(tmp_path) == [blob_path(sha(b"abcdef"), 0), blob_path(sha(b"abcdef"), 1)]
