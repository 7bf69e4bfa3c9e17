"""Which of an engine's parsers reads a target's tool calls."""

import re
from dataclasses import dataclass

from appliance.catalog.stack import Stack
from appliance.core.errors import ConfigFault
from appliance.engines.base import Pair


@dataclass(frozen=True)
class ToolParsers:
    """An engine's names of its parsers, for the targets that are known."""

    harmony: str
    llama3: str

    def of(self, pair: Pair) -> str | None:
        """The parser for a target; None where it is not known."""
        if pair.target.chat == "harmony":
            return self.harmony
        return self.llama3 if re.search(r"\bllama-3\b", pair.target.name, re.I) else None

    def check(self, section: str, stack: Stack, pair: Pair) -> None:
        """Raises ConfigFault where tools are offered, and neither is the parser known nor named in the section."""
        if stack.offers.tools and not (self.of(pair) or getattr(stack, section).get("tool_call_parser")):
            raise ConfigFault(
                f"tools cannot be offered with {pair.target.id}",
                "which parser reads its tool calls is not known here",
                f"set {section}.tool_call_parser, or offers.tools=false",
            )
