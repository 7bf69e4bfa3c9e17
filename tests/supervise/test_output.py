import os
import re
from contextlib import suppress
from pathlib import Path

import pytest

from appliance.supervise.journal import FILES, Journal, RotatedFile
from appliance.supervise.output import MAX_LINE, TAIL, Output, Splitter
from appliance.supervise.plan import Phase


def read(data: bytes, *phases: Phase, asked: tuple[str, ...] = ()) -> tuple[Output, list[str]]:
    """An Output over these bytes, read to their end, and what it copied."""
    source, sink = os.pipe()
    copied: list[str] = []
    output = Output(source, phases, asked, copied.append)
    os.write(sink, data)
    os.close(sink)
    output.drain(10)
    return output, copied


def test_lines_come_whole_however_the_bytes_arrive() -> None:
    text = "one\r\ntwo\r 10 %\r 20 %\n\nthrée".encode()
    for size in range(1, len(text)):
        splitter = Splitter()
        lines = [line for i in range(0, len(text), size) for line in splitter.feed(text[i : i + size])]
        assert lines + splitter.close() == ["one", "two", " 10 %", " 20 %", "thrée"]


def test_a_line_without_an_end_is_cut() -> None:
    splitter = Splitter()
    lines = [line for _ in range(100) for line in splitter.feed(b"x" * 1000)]
    assert sum(map(len, lines)) > 90 * 1000
    assert max(map(len, lines)) <= MAX_LINE


def test_the_tail_holds_the_last_lines_and_all_are_copied() -> None:
    output, copied = read(b"".join(b"line %d\n" % i for i in range(500)))
    assert output.tail() == tuple(f"line {i}" for i in range(500 - TAIL, 500))
    assert len(copied) == 500


def test_the_first_phase_that_matches_is_shown() -> None:
    phases = Phase(r"shard (\d+) of (?P<all>\d+)", r"loading \1/\g<all>"), Phase("shard", "other")
    assert read(b"shard 3 of 8\nnoise\n", *phases)[0].phase == "loading 3/8"
    assert read(b"noise\n", *phases)[0].phase is None


def test_a_phase_that_names_no_group_does_not_stop_the_reading() -> None:
    output, copied = read(b"shard 3\nmore\n", Phase("shard", r"\7"))
    assert (output.phase, copied) == (r"\7", ["shard 3", "more"])


def test_lines_about_what_we_ask_for_are_no_progress() -> None:
    output, copied = read(b"GET /health 503\nloading\nPOST /v1/chat 200\n", asked=("/health", "/v1/chat"))
    assert (output.moves, len(copied)) == (1, 3)


def test_a_log_is_rotated_by_size_and_its_oldest_part_dropped(tmp_path: Path) -> None:
    log = tmp_path / "log"
    file = RotatedFile(log, max_bytes=100)
    for i in range(10):
        file.write(b"%d" % i * 60)
    kept = {path.name: path.read_bytes()[:1] for path in tmp_path.iterdir()}
    assert kept == {"log": b"9", "log.1": b"8", "log.2": b"7"}
    assert len(kept) == FILES


class Broken:
    """Refuses its first writes."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.data = b""

    def write(self, data: bytes) -> None:
        if self.refusals:
            self.refusals -= 1
            raise OSError(28, "No space left on device")
        self.data += data


def test_a_sink_that_fails_costs_lines_and_says_so_once_it_works_again() -> None:
    sink = Broken(refusals=1)
    journal = Journal(sink)
    journal.line("lost")
    while sink.refusals:
        pass
    journal.line("kept")
    journal.close(10)
    assert re.fullmatch(rb"kept\nsupervise: 1 lines of log were lost\n", sink.data)


def test_a_sink_that_never_works_does_not_end_the_journal() -> None:
    journal = Journal(Broken(refusals=1000))
    for _ in range(100):
        journal.line("x")
    journal.close(10)


@pytest.mark.parametrize("text", ["caf\ufffd", "\udcff", "日本"])
def test_any_text_can_be_written(text: str) -> None:
    sink = Broken(0)
    journal = Journal(sink)
    journal.line(text)
    journal.close(10)
    with suppress(UnicodeEncodeError):
        assert sink.data == text.encode() + b"\n"
    assert sink.data.endswith(b"\n")
