"""The size of a checkpoint's weights comes from the headers of its files; none of the weights is read."""

import json
import os
import struct
import tracemalloc
from pathlib import Path

import pytest

from appliance.checkpoint.weights import read_header, read_weights
from appliance.core.errors import ConfigFault, MachineFault
from tests.checkpoint.made import GIB, sparse
from tests.fakes.hub_cache import safetensors


def index(folder: Path, places: object, total: object = None) -> None:
    data = {"metadata": {"total_size": total}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(data))


def read_so_far() -> int:
    """Bytes that this process has asked the kernel for (proc(5), io)."""
    told = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(told["rchar"])


def test_a_file_s_tensors_are_known_by_name_and_shape(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(safetensors({"fc.weight": (4, 12), "d2t": (8,)}))
    found = read_weights(tmp_path)
    assert found is not None
    assert (found.bytes, found.shapes) == (2 * (48 + 8), {"fc.weight": (4, 12), "d2t": (8,)})
    assert found.source == "1 header"


def test_sixty_gigabytes_are_measured_without_being_read(tmp_path: Path) -> None:
    for number in range(15):
        sparse(tmp_path / f"model-{number:05d}.safetensors", 4 * GIB, f"layer.{number}")
    index(tmp_path, {f"layer.{number}": f"model-{number:05d}.safetensors" for number in range(15)})
    before = read_so_far()
    found = read_weights(tmp_path)
    assert read_so_far() - before < 1 << 20
    assert found is not None and found.bytes == 60 * GIB and len(found.shapes) == 15


def test_the_memory_it_takes_does_not_grow_with_the_weights(tmp_path: Path) -> None:
    peaks = []
    for size in (GIB // 2, 8 * GIB):
        folder = tmp_path / str(size)
        folder.mkdir()
        sparse(folder / "model.safetensors", size)
        tracemalloc.start()
        read_weights(folder)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(peaks) < 1 << 20


def test_an_index_says_which_files_count(tmp_path: Path) -> None:
    for name in ("a", "b", "consolidated"):
        sparse(tmp_path / f"{name}.safetensors", GIB, f"{name}.weight")
    index(tmp_path, {"a.weight": "a.safetensors", "b.weight": "b.safetensors"})
    found = read_weights(tmp_path)
    assert found is not None and found.bytes == 2 * GIB and found.source == "2 headers"


def test_where_a_shard_is_missing_the_index_may_still_know(tmp_path: Path) -> None:
    index(tmp_path, {"a.weight": "a.safetensors"}, 7 * GIB)
    found = read_weights(tmp_path)
    assert found is not None and found.bytes == 7 * GIB and "not all files are here" in found.source
    index(tmp_path, {"a.weight": "a.safetensors"}, "many")
    assert read_weights(tmp_path) is None


def test_without_an_index_the_usual_file_counts_else_all(tmp_path: Path) -> None:
    sparse(tmp_path / "one.safetensors", GIB)
    sparse(tmp_path / "two.safetensors", GIB)
    found = read_weights(tmp_path)
    assert found is not None and found.bytes == 2 * GIB
    sparse(tmp_path / "model.safetensors", 3 * GIB)
    found = read_weights(tmp_path)
    assert found is not None and found.bytes == 3 * GIB


def test_of_pickled_weights_only_the_size_is_known(tmp_path: Path) -> None:
    assert read_weights(tmp_path) is None
    with (tmp_path / "pytorch_model.bin").open("wb") as stream:
        stream.truncate(GIB)
    found = read_weights(tmp_path)
    assert found is not None and (found.bytes, dict(found.shapes)) == (GIB, {})


def header(data: object, more: bytes = b"") -> bytes:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return struct.pack("<Q", len(raw)) + raw + more


def entry(first: object, last: object, shape: object = (1,)) -> bytes:
    return header({"w": {"dtype": "U8", "shape": shape, "data_offsets": [first, last]}}, b"abcd")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1234567",
        struct.pack("<Q", 0) + b"{}",
        struct.pack("<Q", 10) + b"{}",
        struct.pack("<Q", 2**63),
        header(b"not json"),
        header(b"\xff\xfe"),
        header(b"[" * 100_000),
        header([]),
        header({"w": 1}),
        header({"w": {"shape": [1]}}),
        entry(4, 0),
        entry(-1, 4),
        entry(0, 5),
        entry(0, "4"),
        entry(0, 4, "1"),
        entry(0, 4, [-1]),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(ConfigFault) as caught:
        read_weights(tmp_path)
    assert str(path) in caught.value.what and caught.value.why and caught.value.fix


def test_a_header_longer_than_safetensors_allows_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", (100 << 20) + 1))
        stream.truncate(GIB)
    before = read_so_far()
    with pytest.raises(ConfigFault):
        read_header(path)
    assert read_so_far() - before < 1 << 20


@pytest.mark.parametrize(
    "places", [None, [], {"w": 1}, {"w": "../other.safetensors"}, {"w": ""}, {"w": "/etc/passwd"}]
)
def test_an_index_that_names_no_files_of_the_folder_is_refused(tmp_path: Path, places: object) -> None:
    index(tmp_path, places)
    with pytest.raises(ConfigFault) as caught:
        read_weights(tmp_path)
    assert "model.safetensors.index.json" in caught.value.what


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.safetensors"
    os.mkfifo(pipe)
    with pytest.raises(ConfigFault):
        read_header(pipe)


def test_what_the_machine_does_not_give_is_its_fault(tmp_path: Path) -> None:
    loop = tmp_path / "loop.safetensors"
    loop.symlink_to(loop)
    with pytest.raises(MachineFault) as caught:
        read_header(loop)
    assert str(loop) in caught.value.what
