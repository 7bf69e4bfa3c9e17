"""One request and its body, each read with an end; however it is left, the server sees it at once."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import BadStatusLine, HTTPConnection, HTTPException, HTTPResponse

from appliance.client.connections import Connections
from appliance.client.errors import SEE_LOGS, BrokenAnswer, NotReachable, Silent
from appliance.client.sse import excerpt

PIECE = 65536


class Body:
    """The body of an answer whose status line has come.

    `sent_at` is when the request went out, once the connection stood, by time.perf_counter; `deadline` is the
    end of the patience it was sent with, by time.monotonic.
    """

    def __init__(self, sock: socket.socket, response: HTTPResponse, sent_at: float, deadline: float) -> None:
        self._sock = sock  # http.client forgets it as soon as the server says `Connection: close`
        self._response = response
        self.sent_at = sent_at
        self.deadline = deadline
        self.status = response.status

    def header(self, name: str) -> str:
        return self._response.headers.get(name, "")

    def read(self, deadline: float) -> bytes:
        """What comes next; empty at the end. Waits until `deadline` (monotonic seconds) at most.

        Raises Silent; BrokenAnswer where the connection ends before the body does.
        """
        try:
            self._sock.settimeout(_left(deadline))
            piece = self._response.read1(PIECE)
        except TimeoutError:
            raise Silent(
                "the answer stopped coming", "nothing came for longer than allowed", SEE_LOGS
            ) from None
        except (HTTPException, OSError, ValueError) as error:
            raise cut(type(error).__name__) from None
        if not piece and self._response.length:
            raise cut(f"{self._response.length} bytes are missing")
        return piece

    def whole(self, deadline: float, most: int) -> bytes:
        """All of it, up to `most` bytes; `deadline` is for the whole."""
        pieces: list[bytes] = []
        while sum(map(len, pieces)) < most and (piece := self.read(deadline)):
            pieces.append(piece)
        return b"".join(pieces)[:most]

    def close(self) -> None:
        self._response.close()


@contextmanager
def exchange(
    connections: Connections,
    method: str,
    path: str,
    payload: bytes | None,
    headers: dict[str, str],
    patience_s: float,
) -> Iterator[Body]:
    """Send a request and hand over the body of its answer, which begins within `patience_s`.

    Raises NotReachable, Silent, BrokenAnswer.
    """
    try:
        connection, sock = connections.open()
    except OSError as error:
        raise unreachable(error) from None
    try:
        body = _send(connection, sock, method, path, payload, headers, patience_s)
        try:
            yield body
        finally:
            body.close()
    finally:
        connections.done(connection, sock)


def _send(
    connection: HTTPConnection,
    sock: socket.socket,
    method: str,
    path: str,
    payload: bytes | None,
    headers: dict[str, str],
    patience_s: float,
) -> Body:
    try:
        sent_at = time.perf_counter()
        deadline = time.monotonic() + patience_s
        connection.request(method, path, body=payload, headers=headers | {"Connection": "close"})
        sock.settimeout(_left(deadline))
        return Body(sock, connection.getresponse(), sent_at, deadline)
    except TimeoutError:
        raise Silent("no answer began", "the server took the request and stayed silent", SEE_LOGS) from None
    except OSError as error:  # among them RemoteDisconnected: closed without a word
        raise unreachable(error) from None
    except BadStatusLine as error:
        raise BrokenAnswer(
            "this is no HTTP server", excerpt(str(error)), "check the address and the port"
        ) from None
    except HTTPException as error:
        raise BrokenAnswer("the answer is malformed", type(error).__name__, SEE_LOGS) from None


def unreachable(error: OSError) -> NotReachable:
    words = error.strerror or str(error) or type(error).__name__
    return NotReachable("the endpoint does not answer", words.lower())


def cut(why: str) -> BrokenAnswer:
    return BrokenAnswer("the answer is cut off", f"the connection ended in the middle: {why}", SEE_LOGS)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
