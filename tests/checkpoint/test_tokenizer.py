"""Two vocabularies are the same where their tokens are, whatever else their files say."""

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.checkpoint.tokenizer import Tokenizer, compare, read_tokenizer
from appliance.core.errors import ConfigFault
from tests.checkpoint.made import vocabulary


def written(folder: Path, model: Any, added: Any = (), **more: Any) -> Tokenizer:
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps({"model": model, "added_tokens": added, **more}))
    found = read_tokenizer(folder)
    assert found is not None
    return found


BPE = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}


def test_a_file_is_read(tmp_path: Path) -> None:
    found = written(tmp_path, BPE, [{"id": 3, "content": "<end>", "special": True}])
    assert (found.kind, found.tokens, found.added) == ("BPE", {0: "a", 1: "b", 2: "ab"}, {3: "<end>"})
    assert found.size == 4


def test_how_merges_are_written_and_what_frames_a_chat_changes_nothing(tmp_path: Path) -> None:
    one = written(tmp_path / "one", BPE)
    other = written(tmp_path / "other", {**BPE, "merges": [["a", "b"]]}, chat_template="{{ messages }}")
    assert one.digest == other.digest
    assert written(tmp_path / "third", {**BPE, "merges": ["b a"]}).digest != one.digest


def test_a_list_of_tokens_with_scores(tmp_path: Path) -> None:
    found = written(tmp_path, {"type": "Unigram", "vocab": [["<unk>", 0.0], ["a", -1.5]]})
    assert found.tokens == {0: "<unk>", 1: "a"}


def test_no_file_no_vocabulary(tmp_path: Path) -> None:
    assert read_tokenizer(tmp_path) is None


def test_an_added_token_that_stands_in_the_vocabulary_too_is_an_added_one(tmp_path: Path) -> None:
    found = written(tmp_path, BPE, [{"id": 2, "content": "ab"}])
    assert (found.tokens, found.added) == ({0: "a", 1: "b"}, {2: "ab"})


def test_the_same_words_agree_and_tokens_added_at_the_end_do_not_matter() -> None:
    told = compare(vocabulary("a b c"), vocabulary("a b c", {3: "<tool>"}))
    assert (told.common, told.differing, told.added, told.share, told.sizes) == (3, 0, (), 1.0, (3, 4))


def test_other_words_differ() -> None:
    told = compare(vocabulary("a b c d"), vocabulary("a x y z"))
    assert (told.common, told.differing, told.share) == (4, 3, 0.25)


def test_special_tokens_of_other_names_are_told() -> None:
    told = compare(vocabulary("a b", {2: "<end>", 3: "<pad>"}), vocabulary("a b", {2: "<end>", 3: "<spare>"}))
    assert (told.differing, told.added) == (0, (3,))


def test_nothing_in_common_is_no_agreement() -> None:
    assert compare(vocabulary(""), vocabulary("a")).share == 0.0


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"model": {"type": "BPE"}}',
        '{"model": {"vocab": "a b"}}',
        '{"model": {"vocab": {"a": "0"}}}',
        '{"model": {"vocab": {"a": -1}}}',
        '{"model": {"vocab": [["a"], []]}}',
        '{"model": {"vocab": [1]}}',
        '{"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 1}]}',
        '{"model": {"vocab": {"a": 0}}, "added_tokens": ["<end>"]}',
        '{"model": {"vocab": {"a": 0}}, "added_tokens": 7}',
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ConfigFault) as caught:
        read_tokenizer(tmp_path)
    assert str(tmp_path / "tokenizer.json") in caught.value.what
