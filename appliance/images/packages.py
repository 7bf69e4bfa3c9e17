"""What is installed in an image, as its own package managers wrote it down: Debian's dpkg, and Python's installers;
and our own program, which none of them knows.

Sources: dpkg(1), var/lib/dpkg/status; images without dpkg have a file a package in var/lib/dpkg/status.d; Python's core
metadata, *.dist-info/METADATA; os-release(5).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from posixpath import basename, dirname
from shlex import split
from typing import IO

LARGEST_HEADER = 1 << 20
PROGRAM = "opt/spark-spec/appliance/__init__.py"
STATUS, STATUS_FOLDER = "var/lib/dpkg/status", "var/lib/dpkg/status.d"
OS_RELEASE = ("etc/os-release", "usr/lib/os-release")


@dataclass(frozen=True, order=True)
class Package:
    """An installed package; `kind` is its purl type, `architecture` and `license` are empty where it says none."""

    kind: str
    name: str
    version: str
    architecture: str = ""
    license: str = ""


@dataclass(frozen=True)
class Distribution:
    """What an image says of its operating system, such as debian 12."""

    id: str
    version: str


Read = tuple[Package, ...] | Distribution


def reader(path: str) -> Callable[[IO[bytes]], Read] | None:
    """What reads a file of an image, where it is one that tells of packages; for `layers.contents`."""
    if path == STATUS or (dirname(path) == STATUS_FOLDER and not path.endswith(".md5sums")):
        return debian
    if basename(path) == "METADATA" and dirname(path).endswith(".dist-info"):
        return python
    if path == PROGRAM:
        return program
    return distribution if path in OS_RELEASE else None


def debian(status: IO[bytes]) -> tuple[Package, ...]:
    """The installed packages of a dpkg status file; a file of status.d has no Status, and all of it is installed."""
    return tuple(
        Package("deb", one["package"], one["version"], one.get("architecture", ""))
        for one in _stanzas(status)
        if {"package", "version"} <= one.keys()
        and one.get("status", "installed").split()[-1:] == ["installed"]
    )


def python(metadata: IO[bytes]) -> tuple[Package, ...]:
    """The distribution of a METADATA file; none where that names none."""
    lines: list[bytes] = []
    for line in iter(lambda: metadata.readline(LARGEST_HEADER), b""):
        if not line.strip() or len(lines) > 10_000:
            break
        lines.append(line)
    told = BytesHeaderParser().parsebytes(b"".join(lines))
    name, version = (str(told.get(key) or "").strip() for key in ("Name", "Version"))
    return (
        (Package("pypi", name, version, license=str(told.get("License-Expression") or "").strip()),)
        if name
        else ()
    )


def program(module: IO[bytes]) -> tuple[Package, ...]:
    """Our program, by its package's __init__.py."""
    told = re.search(rb'^__version__ = "([^"]+)"', module.read(LARGEST_HEADER), re.MULTILINE)
    return (Package("generic", "spark-spec", told[1].decode(), license="Apache-2.0"),) if told else ()


def distribution(release: IO[bytes]) -> Distribution:
    """The operating system of an os-release file."""
    told: dict[str, str] = {}
    for line in release.read(LARGEST_HEADER).decode(errors="replace").splitlines():
        key, equals, value = line.partition("=")
        if equals and not key.startswith("#"):
            told[key.strip()] = _unquoted(value)
    return Distribution(told.get("ID", "linux"), told.get("VERSION_ID", ""))


def found(files: Mapping[str, Read]) -> tuple[tuple[Package, ...], Distribution | None]:
    """All packages, each once and in order, and the operating system, of what `reader` read."""
    packages = {one for read in files.values() if isinstance(read, tuple) for one in read}
    systems = [files[path] for path in OS_RELEASE if path in files]
    system = next((one for one in systems if isinstance(one, Distribution)), None)
    return tuple(sorted(packages)), system


def _stanzas(status: IO[bytes]) -> Iterator[dict[str, str]]:
    """The paragraphs of a control file, keys in lower case, without the lines that continue a field."""
    one: dict[str, str] = {}
    for raw in status:
        line = raw.decode(errors="replace").rstrip("\n")
        if not line.strip():
            if one:
                yield one
            one = {}
        elif not line[0].isspace():
            key, _, value = line.partition(":")
            one[key.lower()] = value.strip()
    if one:
        yield one


def _unquoted(value: str) -> str:
    try:
        return " ".join(split(value))
    except ValueError:
        return value.strip()
