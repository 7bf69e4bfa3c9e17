"""Server-sent events, as the OpenAI API uses them: bytes in, JSON objects out. Pure.

The format: https://html.spec.whatwg.org/multipage/server-sent-events.html. Lines are split at the bytes LF and
CR LF, never by str.splitlines, which also splits inside JSON strings (U+2028, U+0085).
"""

import json
from typing import Any

from appliance.client.errors import SEE_LOGS, BrokenAnswer

MOST_BYTES = 16 * 1024 * 1024
IGNORED = (b"event", b"id", b"retry")
DONE = b"[DONE]"


class Events:
    """Feed it the body as it comes; it hands back the events that are complete. `done` after `[DONE]`."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self.done = False

    def feed(self, piece: bytes) -> list[dict[str, Any]]:
        """The JSON objects of all events that this piece completes, none after `[DONE]`.

        Raises BrokenAnswer for what is not an event stream of JSON objects.
        """
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > MOST_BYTES:
            raise malformed(f"one line of more than {MOST_BYTES} bytes")
        found: list[dict[str, Any]] = []
        for line in lines:
            event = self._line(line.removesuffix(b"\r"))
            if self.done:
                break
            if event is not None:
                found.append(event)
        return found

    def _line(self, line: bytes) -> dict[str, Any] | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"error":  # how some servers put an error into a stream
            return {"error": parse(value)}
        elif name and name not in IGNORED:  # an empty name is a comment: a keep-alive
            raise malformed(f"a line that is no event: {excerpt(line)}")
        return None

    def _dispatch(self) -> dict[str, Any] | None:
        if not self._data:
            return None
        data, self._data = b"\n".join(self._data), []
        if data.strip() == DONE:
            self.done = True
            return None
        event = parse(data)
        if not isinstance(event, dict):
            raise malformed(f"an event that is no JSON object: {excerpt(data)}")
        return event


def parse(data: bytes) -> Any:
    """JSON from the wire. Raises BrokenAnswer."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise malformed(f"not JSON: {excerpt(data)}") from None


def malformed(why: str) -> BrokenAnswer:
    return BrokenAnswer("the answer is malformed", why, SEE_LOGS)


def excerpt(data: bytes | str, most: int = 200) -> str:
    """The beginning of foreign text, safe to print: no control characters, no line breaks."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    clean = "".join(one if one.isprintable() else " " for one in text[: most + 1]).strip()
    return clean if len(text) <= most else clean[:most] + "…"
