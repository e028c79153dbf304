"""Checks that reject other users as peers, even if a folder's permissions allow access."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jupyter_slurm.errors import AgentError
from tests.agent.home import AgentHome

NOBODY = 65534
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")


@contextmanager
def nobody() -> Iterator[None]:
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@as_root
def test_agent_disconnects_another_user(agent_home: AgentHome) -> None:
    agent_home.client().check()
    for folder in (agent_home.folder, agent_home.socket.parent.parent, agent_home.socket.parent):
        folder.chmod(0o711)
    agent_home.socket.chmod(0o666)
    with socket.socket(socket.AF_UNIX) as stranger:
        with nobody():
            stranger.connect(str(agent_home.socket))
        try:
            stranger.sendall(b"GET /v1/hello HTTP/1.1\r\nHost: agent\r\n\r\n")
            answer = stranger.recv(1)
        except ConnectionError:
            answer = b""
    assert answer == b""
    assert f"refused a connection of uid {NOBODY}" in agent_home.log.read_text()
    agent_home.socket.parent.chmod(0o700)
    agent_home.client().check()


@as_root
def test_client_rejects_a_socket_served_by_another_user(agent_home: AgentHome) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(agent_home.socket))
        with nobody():
            listener.listen()
        with pytest.raises(AgentError, match=f"Another user .uid {NOBODY}. serves"):
            agent_home.client().check()


@as_root
def test_client_rejects_a_folder_of_another_user(agent_home: AgentHome) -> None:
    os.chown(agent_home.socket.parent, NOBODY, NOBODY)
    with pytest.raises(AgentError):
        agent_home.client().check()
