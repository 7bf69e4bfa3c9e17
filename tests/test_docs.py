"""The docs name tests that exist, every case that a test cites is in the table, and what they show is so."""

import os
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from appliance.catalog.preset import names
from appliance.core.errors import ConfigFault
from appliance.stack.check import check
from appliance.stack.resolve import resolve
from tests.pages import (
    ROOT,
    Block,
    Row,
    blocks,
    check_on_a_spark,
    environment,
    read,
    rows,
    run,
    sections,
    spans,
)

PAGES = ("docs/faults.md", "docs/field-cases.md", "docs/tried.md")
SHOWN = ("docs/spark.md", "docs/engines.md", "docs/docker.md", "docs/models.md")
BLOCKS = [block for page in SHOWN for block in blocks(page)]
CITED = re.compile(r"\b[Cc]ases?(?:\.md)?,? (\d+)\b")
CASES = rows(read("docs/field-cases.md"))
REFUSED = rows(sections("docs/engines.md")["What is refused"])
WARNED = rows(sections("docs/engines.md")["Warnings"])


def files(text: str) -> list[str]:
    return re.findall(r"tests/[\w/]+\.py", text)


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_a_page_names_is_there(page: str) -> None:
    named = files(read(page))
    assert named
    assert [path for path in named if not (ROOT / path).is_file()] == []


# Cases from the field.


@cache
def cited(file: str) -> set[str]:
    return set(CITED.findall((ROOT / file).read_text(encoding="utf-8")))


@pytest.mark.parametrize("row", CASES, ids=lambda row: row["case"])
def test_every_case_is_cited_by_each_test_that_holds_it(row: Row) -> None:
    held = files(row["held by"])
    assert held
    assert [file for file in held if row["case"] not in cited(file)] == []


def test_every_case_that_a_test_cites_is_in_the_table() -> None:
    found = {number for path in (ROOT / "tests").rglob("test_*.py") for number in cited(str(path))}
    assert found <= {row["case"] for row in CASES}


# What is shown.


@pytest.mark.parametrize("page", ["docs/spark.md", "docs/engines.md"])
def test_it_shows_commands(page: str) -> None:
    assert blocks(page)


@pytest.mark.parametrize(
    "block", [one for one in BLOCKS if not one.on_a_spark], ids=lambda block: block.lines[0]
)
def test_a_block_of_commands_does_what_it_says(block: Block, home: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    done = run(block.text, environment(home), work)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("block", [one for one in BLOCKS if one.on_a_spark], ids=lambda block: block.lines[0])
def test_a_block_for_a_spark_is_what_the_program_asks_for(block: Block) -> None:
    check_on_a_spark(block)


# What engines.md says of each setting.


def warnings(words: str) -> tuple[str, ...]:
    """What is told of a preset with some `--set`, as on a command line. Raises ConfigFault."""
    preset, *rest = shlex.split(words)
    sets = [word for word in rest if word != "--set"]
    return check(resolve(preset, sets, os.environ).stack)


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row["asked for"])
def test_what_it_says_is_refused_is_refused_for_that_reason(row: Row) -> None:
    (words,) = spans(row["asked for"])
    with pytest.raises(ConfigFault) as caught:
        warnings(words)
    assert row["because"] in caught.value.why and caught.value.fix


@pytest.mark.parametrize("row", WARNED, ids=lambda row: row["warning"])
def test_each_warning_comes_with_what_it_says(row: Row) -> None:
    (words,) = spans(row["comes with"])
    assert any(row["warning"] in told for told in warnings(words))


@pytest.mark.parametrize("preset", names())
def test_every_warning_of_a_preset_is_explained(preset: str) -> None:
    explained = [row["warning"] for row in WARNED]
    assert [told for told in warnings(preset) if not any(one in told for one in explained)] == []


def test_the_defaults_it_names_are_the_engines_own() -> None:
    from appliance import engines

    for row in rows(sections("docs/engines.md")["Versions"]):
        (name,) = spans(row["engine"])
        stack = resolve("eagle3", [f"engine.name={name}", "engine.version=null"], os.environ).stack
        assert spans(row["default"]) == [engines.get(name).version(stack)]
        assert any(f"{name}-" in path.name for path in (ROOT / "appliance/engines/known").iterdir())


def test_spark_md_names_every_preset_that_needs_one() -> None:
    listed = {
        name for row in rows(sections("docs/spark.md")["Which preset"]) for name in spans(row["preset"])
    }
    assert listed == {name for name in names() if not name.startswith("demo")}
