"""The docs name tests that exist, and every case that a test cites is in the table."""

import re

import pytest

from appliance.core.paths import PACKAGE

ROOT = PACKAGE.parent
PAGES = ("docs/faults.md", "docs/field-cases.md")


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_a_page_names_is_there(page: str) -> None:
    named = re.findall(r"tests/[\w/]+\.py", (ROOT / page).read_text(encoding="utf-8"))
    assert named
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_every_case_is_cited_by_the_tests_that_hold_it_and_no_other_is() -> None:
    rows = re.findall(
        r"^\| (\d+) \|", (ROOT / "docs/field-cases.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    cited = {
        number
        for path in (ROOT / "tests").rglob("test_*.py")
        for number in re.findall(r"\b[Cc]ase (\d+)\b", path.read_text(encoding="utf-8"))
    }
    assert cited <= set(rows)
    assert set(rows) - cited <= {"10"}, "its test file is all about it"
