"""Ports: free, or whose."""

import os
import socket

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
