"""The open connections of one client, one a request, so that all of them can be cut at once.

The standard library's http.client, because a read here needs an end of its own each time: long until the first
token, short between chunks. It also costs least per chunk, so a benchmark measures the engine, not the client.
No connection is used twice: llama.cpp closes one after a stream although it announced to keep it, and the next
request on it is lost about every fifth time. No proxy is used: endpoints are on loopback or behind the gateway.
"""

import socket
import threading
from contextlib import suppress
from http.client import HTTPConnection, HTTPSConnection


class Connections:
    """Connections to one host, handed out to any thread."""

    def __init__(self, host: str, port: int, *, tls: bool, connect_s: float) -> None:
        self._kind = HTTPSConnection if tls else HTTPConnection
        self._host, self._port, self._connect_s = host, port, connect_s
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._closed = False

    def open(self) -> tuple[HTTPConnection, socket.socket]:
        """A connection that stands, and its socket. Raises OSError."""
        connection = self._kind(self._host, self._port, timeout=self._connect_s)
        try:
            connection.connect()
            with self._lock:
                if self._closed:
                    raise ConnectionAbortedError("this client is closed")
                self._open.add(connection.sock)
        except BaseException:
            connection.close()
            raise
        return connection, connection.sock

    def done(self, connection: HTTPConnection, sock: socket.socket) -> None:
        """Close a connection, whatever state it is in."""
        with self._lock:
            self._open.discard(sock)
        connection.close()

    def close(self) -> None:
        """Cut what is open, in whichever thread it is read, and open nothing more."""
        with self._lock:
            self._closed = True
            for sock in self._open:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
