"""What the supervisor asks an engine over HTTP. Each question has a time limit and a bounded answer.

Standard library only: this file also runs inside every engine image.
"""

import json
import time
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

from appliance.supervise import counters
from appliance.supervise.counters import Reading
from appliance.supervise.plan import CounterTable

MAX_ANSWER = 4 << 20
_SHOWN = 300


def fetch(base_url: str, path: str, timeout: float, body: dict[str, Any] | None = None) -> tuple[int, bytes]:
    """GET, or POST where there is a body: (HTTP status, answer). Raises OSError or HTTPException."""
    deadline = time.monotonic() + timeout
    connection = HTTPConnection(urlsplit(base_url).netloc, timeout=timeout)
    try:
        if body is None:
            connection.request("GET", path)
        else:
            sent = json.dumps(body).encode()
            connection.request("POST", path, sent, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = b""
        while chunk := response.read1(65536):
            answer += chunk
            if len(answer) > MAX_ANSWER or time.monotonic() > deadline:
                raise TimeoutError("the answer does not end")
        return response.status, answer
    finally:
        connection.close()


def health(base_url: str, path: str, timeout: float) -> bool:
    """Whether health answers 200. Refused, reset, EOF, 503: not yet."""
    try:
        return fetch(base_url, path, timeout)[0] == 200
    except (OSError, HTTPException):
        return False


def chat(base_url: str, path: str, body: dict[str, Any], timeout: float) -> tuple[bool, str]:
    """Whether a token came back through chat, and if not, why."""
    try:
        status, answer = fetch(base_url, path, timeout, body)
    except TimeoutError:
        return False, f"no answer within {timeout:g} s"
    except (OSError, HTTPException) as error:
        return False, f"{type(error).__name__}: {error}"
    if status == 200 and has_token(answer):
        return True, ""
    shown = " ".join(answer[:_SHOWN].decode("utf-8", "replace").split())
    return False, f"HTTP {status}, no token in: {shown}"


def has_token(answer: bytes) -> bool:
    """Whether a chat completion holds at least one token: content, reasoning, or a usage that counts one."""
    try:
        parsed = json.loads(answer)
    except ValueError:
        return False
    if not isinstance(parsed, dict):
        return False
    choices = parsed.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    if isinstance(message, dict):
        texts = (message.get("content"), message.get("reasoning_content"), message.get("reasoning"))
        if any(isinstance(text, str) and text for text in texts):
            return True
    usage = parsed.get("usage")
    counted = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return isinstance(counted, int) and counted >= 1


def count(base_url: str, table: CounterTable, timeout: float) -> Reading | None:
    """One reading of the engine's counters; None where it gave none."""
    try:
        status, answer = fetch(base_url, table.path, timeout)
    except (OSError, HTTPException):
        return None
    return counters.read(table, answer.decode("utf-8", "replace")) if status == 200 else None
