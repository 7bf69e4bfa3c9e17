"""heads: the table as people see it, and all facts as JSON."""

import json
from pathlib import Path

from tests.conftest import Cli

GOLDEN = Path(__file__).with_name("heads.txt")


def test_the_table_is_as_checked_in(cli: Cli) -> None:
    """A change of it is seen, and is meant: `spark-spec heads > tests/cli/heads.txt`."""
    done = cli("heads")
    assert done.returncode == 0, done.stderr
    assert done.stdout == GOLDEN.read_text(encoding="utf-8")


def test_what_no_source_says_is_unknown_in_the_table_and_null_in_json(cli: Cli) -> None:
    row = next(line for line in cli("heads").stdout.splitlines() if line.startswith("lmsys-llama-3.3-70b"))
    assert row.split()[-3:] == ["unknown"] * 3  # K, layers, licence
    told = next(one for one in json.loads(cli("heads", "--json").stdout) if one["id"] == row.split()[0])
    assert (told["k"], told["k_most"], told["layers"], told["license"], told["bytes"]) == (
        None,
        None,
        {},
        None,
        None,
    )


def test_json_gives_every_fact_with_its_source(cli: Cli) -> None:
    done = cli("heads", "--json")
    told = next(one for one in json.loads(done.stdout) if one["id"] == "gpt-oss-120b-eagle3-v3")
    assert told["repository"] == "nvidia/gpt-oss-120b-Eagle3-v3"
    assert told["target"] == "gpt-oss-120b"
    assert told["engines"] == ["trtllm", "vllm"]
    assert told["layers"] == {"trtllm": [23, 29, 35], "vllm": [24, 30, 36]}
    assert (told["k"], told["k_most"]) == (1, 3)
    assert told["license"] == "nvidia-open-model-license and Apache-2.0"
    assert told["revision"] is None
    assert set(told["sources"]) == {"license", "files", "engines", "layers", "k", "k_most"}
    assert told["notes"]


def test_heads_explains_itself_with_an_example(cli: Cli) -> None:
    text = cli("heads", "--help").stdout
    assert "spark-spec heads" in text
    assert "unknown" in text
