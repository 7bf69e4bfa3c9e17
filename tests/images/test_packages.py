"""Package managers' own files, read."""

import io

from appliance.images.packages import (
    Distribution,
    Package,
    debian,
    distribution,
    found,
    program,
    python,
    reader,
)

STATUS = b"""Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u13
Description: the C library
 Package: not-one

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: half
Status: install ok unpacked
"""


def test_what_is_installed_of_debian() -> None:
    assert debian(io.BytesIO(STATUS)) == (Package("deb", "libc6", "2.36-9+deb12u13", "amd64"),)


def test_an_image_without_dpkg_has_a_file_a_package() -> None:
    one = b"Package: base-files\nVersion: 12.4\nArchitecture: arm64\n"
    assert debian(io.BytesIO(one)) == (Package("deb", "base-files", "12.4", "arm64"),)


def test_a_python_distribution_names_itself_in_its_head_alone() -> None:
    told = (
        b"Metadata-Version: 2.4\nName: xllamacpp\nVersion: 2026.10\nLicense-Expression: MIT\n\nName: text\n"
    )
    assert python(io.BytesIO(told)) == (Package("pypi", "xllamacpp", "2026.10", license="MIT"),)
    assert python(io.BytesIO(b"Version: 1\n\n")) == ()


def test_our_own_program() -> None:
    assert program(io.BytesIO(b'"""x"""\n\n__version__ = "0.1.0"\n'))[0].version == "0.1.0"
    assert program(io.BytesIO(b"")) == ()


def test_the_operating_system() -> None:
    assert distribution(io.BytesIO(b'# x\nID=debian\nVERSION_ID="12"\n')) == Distribution("debian", "12")
    assert distribution(io.BytesIO(b"")) == Distribution("linux", "")


def test_only_what_tells_of_packages_is_read() -> None:
    assert reader("var/lib/dpkg/status") is debian and reader("var/lib/dpkg/status.d/base") is debian
    assert reader("var/lib/dpkg/status.d/base.md5sums") is None and reader("var/lib/dpkg/status-old") is None
    assert reader("opt/spark-spec/site/click-8.dist-info/METADATA") is python
    assert (
        reader("opt/spark-spec/site/click-8.dist-info/RECORD") is None
        and reader("usr/share/METADATA") is None
    )
    assert reader("opt/spark-spec/appliance/__init__.py") is program
    assert reader("usr/lib/os-release") is distribution


def test_each_package_counts_once_and_etc_wins() -> None:
    one = Package("pypi", "click", "8")
    files = {
        "a": (one, Package("deb", "bash", "5")), "b": (one,),
        "usr/lib/os-release": Distribution("debian", "12"), "etc/os-release": Distribution("ours", "1"),
    }  # fmt: skip
    assert found(files) == ((Package("deb", "bash", "5"), one), Distribution("ours", "1"))
