"""Connections of one client, kept alive between requests and shared by its threads.

The standard library's http.client, because a read here needs an end of its own each time: long until the first
token, short between chunks. It also costs least per chunk, so a benchmark measures the engine, not the client.
It never uses a proxy: endpoints are on loopback or behind the gateway.
"""

import select
import threading
import time
from http.client import HTTPConnection, HTTPSConnection

KEEP_S = (
    2.0  # less than servers keep an idle connection (llama.cpp: 5 s), so that none closes under a request
)


class Connections:
    """A pool for one host. As many connections as there are requests at one time; idle ones die young."""

    def __init__(self, host: str, port: int, *, tls: bool, connect_s: float) -> None:
        self._kind = HTTPSConnection if tls else HTTPConnection
        self._host, self._port, self._connect_s = host, port, connect_s
        self._lock = threading.Lock()
        self._idle: list[tuple[float, HTTPConnection]] = []

    def borrow(self) -> HTTPConnection:
        """A connected connection, for the caller alone until given back or closed. Raises OSError."""
        while True:
            with self._lock:
                if not self._idle:
                    break
                since, connection = self._idle.pop()
            if time.monotonic() - since < KEEP_S and quiet(connection):
                return connection
            connection.close()
        connection = self._kind(self._host, self._port, timeout=self._connect_s)
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        return connection

    def give_back(self, connection: HTTPConnection) -> None:
        """Keep a connection whose answer was read to its end."""
        if connection.sock is None:  # the server asked to close it
            return
        with self._lock:
            self._idle.append((time.monotonic(), connection))

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()


def quiet(connection: HTTPConnection) -> bool:
    """Whether an idle connection is still usable: one with something to read was closed by the server."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return not poll.poll(0)
