"""Layers are put on one another as the OCI specification has it, in whatever order and packing they come."""

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from typing import IO

import pytest
import zstandard

from appliance.core.errors import MachineFault
from appliance.images.export import SavedFile
from appliance.images.layers import contents

LINK = "->"


def tar(**files: str) -> bytes:
    """A layer. `__` in a name is a slash; a content `->x` makes a symbolic link, `=>x` a hard one, `/` a folder."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for word, content in files.items():
            member = tarfile.TarInfo("./" + word.replace("__", "/").replace("wh_", ".wh."))
            if content == "/":
                member.type = tarfile.DIRTYPE
            elif content.startswith(("->", "=>")):
                member.type = tarfile.SYMTYPE if content.startswith("->") else tarfile.LNKTYPE
                member.linkname = content[2:]
            else:
                member.size = len(content)
            archive.addfile(member, io.BytesIO(content.encode()))
    return stream.getvalue()


def image(*layers: bytes, backwards: bool = False) -> list[SavedFile]:
    """The files of a saved image with these layers, from the base up."""
    files = {f"blobs/sha256/{number}": layer for number, layer in enumerate(layers)}
    config = json.dumps({"os": "linux"}).encode()
    manifest = json.dumps([{"Config": "blobs/sha256/c", "Layers": list(files)}]).encode()
    files |= {"blobs/sha256/c": config, "index.json": b"{}", "manifest.json": manifest}
    names = sorted(files, reverse=backwards)
    return [SavedFile(name, len(files[name]), io.BytesIO(files[name])) for name in names]


def text(path: str) -> Callable[[IO[bytes]], str] | None:
    """A reader of all files that are called `a` or `b`."""
    return (lambda stream: stream.read().decode()) if path.rpartition("/")[2] in ("a", "b") else None


def test_a_layer_adds_and_replaces() -> None:
    below, above = tar(a="1", x__a="2", x__other="-"), tar(x__a="3", y__b="4")
    assert contents(image(below, above), text).files == {"a": "1", "x/a": "3", "y/b": "4"}


@pytest.mark.parametrize(
    ("above", "left"),
    [
        ({"x__wh_a": ""}, {"a", "x/b", "x/y/a"}),
        ({"wh_x": ""}, {"a"}),
        ({"x__wh_.wh..opq": ""}, {"a"}),
        ({"x__wh_.wh..opq": "", "x__b": "new"}, {"a", "x/b"}),
        ({"x": "->y"}, {"a"}),
        ({"x__y": "/"}, {"a", "x/a", "x/b", "x/y/a"}),
        ({"wh_.wh..opq": ""}, set()),
    ],
)
def test_a_layer_takes_away(above: dict[str, str], left: set[str]) -> None:
    below = tar(a="1", x__a="2", x__b="3", x__y__a="4")
    assert set(contents(image(below, tar(**above)), text).files) == left


def test_a_hard_link_is_the_file_it_stands_for() -> None:
    assert contents(image(tar(a="1", x__b="=>./a")), text).files == {"a": "1", "x/b": "1"}


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.ZstdCompressor().compress])
def test_however_a_layer_is_packed(pack: Callable[[bytes], bytes]) -> None:
    read = contents(image(pack(tar(a="1")), pack(tar(b="2"))), text)
    assert read.files == {"a": "1", "b": "2"} and read.config == {"os": "linux"}


def test_in_whatever_order_they_come_and_one_content_twice() -> None:
    layers = [tar(a="1"), tar(a="2"), tar(wh_a="", b="3")]
    assert contents(image(*layers, backwards=True), text).files == {"b": "3"}
    files = image(*layers[:2])
    files.insert(0, SavedFile("blobs/sha256/1", 0, io.BytesIO(), same_as="blobs/sha256/0"))
    twice = [file for file in files if file.path != "blobs/sha256/1" or file.same_as]
    assert contents(twice, text).files == {"a": "1"}


def test_an_empty_layer_says_nothing() -> None:
    assert contents(image(tar(a="1"), tar()), text).files == {"a": "1"}


def test_a_save_whose_files_do_not_fit_its_manifest_is_refused() -> None:
    files = [file for file in image(tar(a="1")) if file.path != "blobs/sha256/c"]
    with pytest.raises(MachineFault):
        contents(files, text)
