"""A model's vocabulary, and how far two of them agree. Format: tokenizer.json of the tokenizers library."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appliance.checkpoint.files import TOKENIZER_MOST, broken, parse_object, read_bytes

FILE = "tokenizer.json"


@dataclass(frozen=True)
class Tokenizer:
    """A vocabulary: what its algorithm learned (`tokens`, by id), what was added to it by hand (`added`: turn marks
    and the like), and the sha256 of the first with its merges. Chat templates are no part of it."""

    kind: str
    tokens: Mapping[int, str]
    added: Mapping[int, str]
    digest: str

    @property
    def size(self) -> int:
        """One more than its highest id."""
        return 1 + max((*self.tokens, *self.added), default=-1)


@dataclass(frozen=True)
class Agreement:
    """Two vocabularies held against each other: how many ids both have learned a token for, on how many of these
    they differ, on which ids an added token of one is another one in the other, and how long both are."""

    common: int
    differing: int
    added: tuple[int, ...]
    sizes: tuple[int, int]

    @property
    def share(self) -> float:
        """How much of what was learned is the same, 0 to 1; of nothing in common 0."""
        return (self.common - self.differing) / self.common if self.common else 0.0


def read_tokenizer(folder: Path) -> Tokenizer | None:
    """The vocabulary in a model's folder; None where it has no tokenizer.json. Raises ConfigFault where that cannot
    be, MachineFault where it cannot be read."""
    path = folder / FILE
    raw = read_bytes(path, TOKENIZER_MOST)
    if raw is None:
        return None
    data = parse_object(raw, path)
    match data.get("model"):
        case {"vocab": dict() | list() as vocab, **rest}:
            tokens = _by_id(vocab, path)
        case _:
            raise broken(path, "it has no vocabulary")
    kind = rest.get("type")
    return make(str(kind or "unknown"), tokens, _added(data.get("added_tokens"), path), rest.get("merges"))


def make(kind: str, tokens: Mapping[int, str], added: Mapping[int, str], merges: Any) -> Tokenizer:
    """A vocabulary with its digest. Added tokens that also stand among the learned ones count as added."""
    learned = {number: text for number, text in tokens.items() if number not in added}
    said = json.dumps([kind, sorted(learned.items()), _merges(merges)], ensure_ascii=True)
    return Tokenizer(kind, learned, added, hashlib.sha256(said.encode()).hexdigest())


def compare(one: Tokenizer, other: Tokenizer) -> Agreement:
    """How far two vocabularies agree, id by id."""
    apart = [
        number
        for number in (one.added.keys() & other.added.keys())
        if one.added[number] != other.added[number]
    ]
    common = one.tokens.keys() & other.tokens.keys()
    same = one.digest == other.digest
    differing = 0 if same else sum(one.tokens[number] != other.tokens[number] for number in common)
    return Agreement(len(common), differing, tuple(sorted(apart)), (one.size, other.size))


def _merges(merges: Any) -> Any:
    """Each merge in one way: older files write "a b", newer ones ["a", "b"]."""
    if not isinstance(merges, list):
        return None
    return [" ".join(map(str, one)) if isinstance(one, list) else str(one) for one in merges]


def _by_id(vocab: Any, path: Path) -> dict[int, str]:
    """Text by id: of a mapping from text to id, or of a list of [text, score] (Unigram)."""
    if isinstance(vocab, dict):
        if not all(isinstance(number, int) and number >= 0 for number in vocab.values()):
            raise broken(path, "its vocabulary has an id that is no number")
        return {number: text for text, number in vocab.items()}
    if not all(isinstance(one, list) and one and isinstance(one[0], str) for one in vocab):
        raise broken(path, "its vocabulary has an entry without a text")
    return {number: one[0] for number, one in enumerate(vocab)}


def _added(told: Any, path: Path) -> dict[int, str]:
    found: dict[int, str] = {}
    if not isinstance(told, list | None):
        raise broken(path, "its added tokens are no list")
    for one in told or ():
        match one:
            case {"id": int(number), "content": str(text)} if number >= 0:
                found[number] = text
            case _:
                raise broken(path, "one of its added tokens has no id or no text")
    return found
