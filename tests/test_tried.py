"""docs/tried.md names all there is, each with one of four words, and claims no run that no test makes."""

import re

import pytest

from appliance.catalog.preset import names
from appliance.images.versions import dockerfile, versions
from tests.pages import ROOT, Row, read, rows, sections, spans

PAGE = "docs/tried.md"
SECTIONS = sections(PAGE)
WORDS = ("run", "walked", "rendered", "read")
# What a test must mention to have come so far; what was only read needs none.
TESTS = {"run": r"tests/(docker|lifecycle|engines)/", "walked": r"tests/docker/test_engines\.py"}


def table(section: str) -> list[Row]:
    return rows(SECTIONS[section])


def named(section: str, column: str) -> list[str]:
    return [name for row in table(section) for name in spans(row[column])]


@pytest.mark.parametrize("section", ["Presets", "Images", "Engines"])
def test_each_row_has_one_of_the_four_words(section: str) -> None:
    assert {row["how far"] for row in table(section)} <= set(WORDS)


def test_the_four_words_are_explained_first() -> None:
    assert re.findall(r"^- \*\*(\w+)\*\*:", read(PAGE), re.MULTILINE) == list(WORDS)


def test_every_preset_is_named_once() -> None:
    assert sorted(named("Presets", "preset")) == names()


def test_every_image_of_ours_and_every_base_is_named_once() -> None:
    made, bases = versions().images, versions().bases.values()
    assert sorted(named("Images", "image")) == sorted([*made, *(base.public for base in bases)])
    folders = {path.parent.name for path in (ROOT / "images").glob("*/Dockerfile")}
    assert folders == {dockerfile(name).parent.name for name in made}


@pytest.mark.parametrize("row", table("Presets"), ids=lambda row: row["preset"].strip("`"))
def test_the_tests_it_names_are_about_that_preset(row: Row) -> None:
    """A preset that is said to have been run or walked is named where that is done."""
    (preset,) = spans(row["preset"])
    files = re.findall(r"tests/[\w/]+\.py", row["in"])
    assert files
    assert re.search(TESTS.get(row["how far"], ""), row["in"])
    for file in files:
        text = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"\b{preset}\b(?!-)", text), file


@pytest.mark.parametrize("preset", [row["preset"].strip("`") for row in table("Presets")])
def test_what_is_rendered_is_checked_in(preset: str) -> None:
    assert (ROOT / "compose" / preset / "compose.yaml").is_file()
