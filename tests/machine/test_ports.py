"""Ports: free, or whose."""

import os
import socket
import subprocess
import sys

import pytest

from appliance.machine.ports import holder, is_free


def test_a_port_nobody_holds_is_free(free_port: int) -> None:
    assert is_free(free_port)


def test_a_taken_port_is_not_free_and_its_holder_is_named(free_port: int) -> None:
    with socket.create_server(("127.0.0.1", free_port)):
        assert not is_free(free_port)
        seen = holder(free_port)
    assert seen.pid == os.getpid()
    assert "python" in (seen.command or "")


def test_a_port_taken_on_all_addresses_is_not_free(free_port: int) -> None:
    with socket.create_server(("0.0.0.0", free_port)):
        assert not is_free(free_port)


def test_a_port_that_was_just_given_up_is_free(free_port: int) -> None:
    with socket.create_server(("127.0.0.1", free_port)) as server:
        one = socket.create_connection(("127.0.0.1", free_port))
        other, _ = server.accept()
        other.close()
        one.close()
    assert is_free(free_port)


LISTEN = (
    "import socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); print(); sys.stdin.read()"
)


@pytest.mark.parametrize("word", ["x = 1\n\ty = 2", "long " * 200, "\x1b[31mred\r\n"])
def test_a_holder_is_told_on_one_short_line(free_port: int, word: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-uc", LISTEN, str(free_port), word], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        seen = holder(free_port)
        child.kill()
    assert seen.pid == child.pid
    assert seen.command is not None and seen.command.isprintable() and len(seen.command) <= 120
    assert "python" in seen.command and "  " not in seen.command


def test_of_a_port_that_is_bound_only_no_more_is_said_than_is_known(free_port: int) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", free_port))
        assert not is_free(free_port)
        seen = holder(free_port)
    assert seen.pid is None and not seen.listening
    assert "without listening" in seen.words() and "user" not in seen.words()
