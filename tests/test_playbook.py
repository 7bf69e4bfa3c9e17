"""docs/from-the-playbook.md tells the truth: of the playbook, and of what is rendered here."""

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.pages import ROOT, Row, parsed, read, rows, sections, spans

PAGE = "docs/from-the-playbook.md"
SECTIONS = sections(PAGE)
HEAD = {"the playbook", "ours", "in", "why"}
TABLES = {name: rows(text) for name, text in SECTIONS.items() if set((rows(text) or [{}])[0]) >= HEAD}
PLAYBOOK = ROOT.parent / "shared" / "reference" / "dgx-spark-speculative-decoding-playbook.txt"
BOTH, FIRST, SECOND = "docker run, in both examples", "Example 1: Eagle3", "Example 2: draft-target"
AROUND = "Before, after and when it fails"

needs_playbook = pytest.mark.skipif(
    not (ROOT.parent / "shared").is_dir(), reason="the playbook's text lies in ../shared, which is not here"
)


# What the page says of ours.


def flat(tree: object, path: str = "") -> dict[str, object]:
    """Dotted keys of a config."""
    if not isinstance(tree, dict):
        return {path: tree}
    return {
        key: value for name, inner in tree.items() for key, value in flat(inner, f"{path}.{name}").items()
    }


def dotted(text: str) -> dict[str, str]:
    """`a.b: value` of each leaf, as one writes it."""
    return {key[1:]: json.dumps(value).strip('"') for key, value in flat(yaml.safe_load(text)).items()}


def said(name: str, folder: Path) -> str:
    """A rendered file as the page quotes it: white space is one space, a config's keys also dotted."""
    path = ROOT / name if "/" in name else next(folder.rglob(name))
    text = path.read_text(encoding="utf-8")
    lines = [f"{key}: {value}" for key, value in dotted(text).items()] if name.endswith(".yml") else []
    return " ".join("\n".join([text, *lines]).split())


def folders(section: str) -> list[Path]:
    """The rendered folders that a section is about."""
    line = re.search(r"^The files are in (.+)\.$", SECTIONS[section], re.MULTILINE)
    assert line, section
    return [ROOT / folder for folder in spans(line[1])]


CLAIMS = [(section, row) for section, table in TABLES.items() for row in table]


@pytest.mark.parametrize(
    ("section", "row"), CLAIMS, ids=[f"{section[:12]}: {row['the playbook'][:50]}" for section, row in CLAIMS]
)
def test_what_it_says_of_ours_is_in_the_rendered_files(section: str, row: Row) -> None:
    where, told = row["in"], spans(row["ours"])
    assert row["why"]
    if where == "left to you":
        assert not told
    elif where == "nowhere":
        name = re.search(r"[A-Za-z_]{4,}", spans(row["the playbook"])[0])
        assert name and not told
        for folder in folders(section):
            texts = [path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()]
            assert not re.search(rf"\b{name[0]}\b", "\n".join(texts)), folder
    elif where == "command line":
        assert told
        for command in told:
            parsed(command)
    else:
        assert told and spans(where), row
        for folder in folders(section):
            text = " ".join(said(name, folder) for name in spans(where))
            assert [one for one in told if one not in text] == [], folder


@pytest.mark.parametrize("section", [FIRST, SECOND])
def test_each_key_of_our_config_is_explained(section: str) -> None:
    (folder,) = folders(section)
    config = dotted(next(folder.rglob("*.yml")).read_text(encoding="utf-8"))
    explained = {one for row in TABLES[section] for one in spans(row["ours"])}
    assert {f"{key}: {value}" for key, value in config.items()} <= explained


# What the page says of the playbook.


@dataclass(frozen=True)
class Example:
    """One of the playbook's two `docker run`: every part of it, as the page quotes it."""

    docker: tuple[str, ...]
    inside: tuple[str, ...]
    config: dict[str, str]


def example(number: int) -> Example:
    text = re.split(r"^Example \d: ", PLAYBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)[number]
    block = text[text.index("docker run \\\n") : text.index("\n\nStep 2")]
    head, _, body = block.partition("bash -c")
    written = re.search(r"^ *(cat .*)\n((?:.*\n)*?)EOF\n", body, re.MULTILINE)
    assert written
    body = re.sub(r"^#.*$", "", body.replace(written[0], "\n"), flags=re.MULTILINE).replace("\\\n", " ")
    commands = [one.strip(" '\"") for one in re.split(r"&&|\n", body)]
    inside = [part for one in commands if one for part in parts(shlex.split(one))]
    config = dotted(written[2])
    docker = [*parts(shlex.split(head.replace("\\\n", " "))), "bash -c"]
    told = [written[1], *(f"{key}: {value}" for key, value in config.items())]
    return Example(tuple(docker), (*inside, *told), config)


def parts(words: list[str]) -> list[str]:
    """The command, each of its options with its value, and what follows them."""
    at = next((index for index, word in enumerate(words) if word.startswith("-")), len(words))
    found, rest = [" ".join(words[:at])], words[at:]
    while rest:
        word = rest.pop(0)
        valued = word.startswith("-") and "=" not in word and rest and not rest[0].startswith("-")
        found.append(f"{word} {rest.pop(0)}" if valued else word)
    return found


def quoted(*names: str) -> set[str]:
    return {one for name in names for row in TABLES[name] for one in spans(row["the playbook"])}


@needs_playbook
def test_the_playbook_is_read_whole() -> None:
    """Or the checks below would pass on an empty list."""
    first = example(1)
    assert first.docker == (
        "docker run", "-v $HOME/.cache/huggingface/:/root/.cache/huggingface/", "--rm", "-it",
        "--ulimit memlock=-1", "--ulimit stack=67108864", "--gpus=all", "--ipc=host", "--network host",
        "nvcr.io/nvidia/tensorrt-llm/release:spark-single-gpu-dev", "bash -c",
    )  # fmt: skip
    assert first.inside[:3] == (
        "hf download openai/gpt-oss-120b", "hf download nvidia/gpt-oss-120b-Eagle3",
        "--local-dir /opt/gpt-oss-120b-Eagle3/",
    )  # fmt: skip
    assert "--kv_cache_free_gpu_memory_fraction 0.95" in first.inside
    assert len(first.inside) == 18 and len(example(2).inside) == 16


@needs_playbook
@pytest.mark.parametrize(("number", "section"), [(1, FIRST), (2, SECOND)])
def test_each_part_of_both_examples_has_its_row(number: int, section: str) -> None:
    this = example(number)
    assert set(this.docker) - quoted(BOTH) == set()
    assert set(this.inside) - quoted(section) == set()


@needs_playbook
def test_each_step_around_the_examples_has_its_row() -> None:
    text = PLAYBOOK.read_text(encoding="utf-8")
    needed = re.findall(
        r"^  ([a-z].*)$", text[text.index("Prerequisites") : text.index("Time & risk")], re.MULTILINE
    )
    cleanup = re.findall(r"^(?:## )?((?:docker|rm) .*)$", text[text.index("\nCleanup\n") :], re.MULTILINE)
    asked = re.findall(r'^(curl .*) \\$|^  (-H .*) \\$|^    "(\w+)": ', text, re.MULTILINE)
    wanted = {*needed, *cleanup, *("".join(one) for one in asked)}
    troubles = re.findall(r"^(?!Symptom)(.+?)\t", text, re.MULTILINE)
    assert len(needed) == 2 and len(cleanup) == 3 and len(troubles) == 4
    assert {*wanted, *troubles} - quoted(AROUND) == set()


@needs_playbook
@pytest.mark.parametrize(("number", "preset"), [(1, "eagle3-original"), (2, "draft-target-original")])
def test_the_originals_are_the_playbook_key_by_key(number: int, preset: str) -> None:
    """And hold nothing besides, but the switch that has the engine count; only folders are our own."""
    told = example(number)
    ours = dotted(next((ROOT / "compose" / preset).rglob("*.yml")).read_text(encoding="utf-8"))
    flags = dict(one[2:].split(" ") for one in told.inside if one.startswith("--"))
    theirs = {
        **told.config,
        "max_batch_size": flags["max_batch_size"],
        "kv_cache_config.free_gpu_memory_fraction": flags["kv_cache_free_gpu_memory_fraction"],
        "enable_iter_perf_stats": "true",
    }
    folder = "speculative_config.speculative_model_dir"
    assert Path(theirs.pop(folder)).name == Path(ours.pop(folder)).name
    assert ours == theirs
    section = f"Key by key: {preset}"
    assert {f"{key}: {value}" for key, value in told.config.items()} <= quoted(section)
    assert {f"{key}: {value}" for key, value in ours.items()} <= {
        one for row in TABLES[section] for one in spans(row["ours"])
    }


@needs_playbook
def test_no_sentence_is_the_playbook_s_own() -> None:
    """Its commands are quoted, its prose is not: no eight words in a row outside of code."""

    def eights(text: str) -> set[tuple[str, ...]]:
        words = re.findall(r"[a-z0-9]+", text.lower())
        return set(zip(*(words[start:] for start in range(8)), strict=False))

    prose = re.sub(r"`[^`]*`", " . ", read(PAGE))
    assert eights(prose) & eights(PLAYBOOK.read_text(encoding="utf-8")) == set()
