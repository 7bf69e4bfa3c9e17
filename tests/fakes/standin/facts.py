"""The raw facts about the engines, and the words in which an engine refuses."""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any


class Refused(Exception):
    """The engine would not start. Its text is the end of the engine's traceback; `code` its exit code."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


def folder() -> Path:
    """Where the facts lie: beside the program in an image, beside the repository otherwise."""
    here = Path(__file__).resolve()
    beside = here.parent / "facts"
    default = beside if beside.is_dir() else here.parents[3].parent / "shared" / "facts"
    return Path(os.environ.get("STANDIN_FACTS") or default)


@cache
def load(name: str) -> Any:
    return json.loads((folder() / name).read_text(encoding="utf-8"))
