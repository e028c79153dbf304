"""The choice between an inherited agent socket and this host's own socket."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from jupyter_slurm import places
from jupyter_slurm.agent.place import SOCKET_VARIABLE, socket_path
from tests.agent.home import AgentHome


def told_socket(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    path = folder / "agent.sock"
    monkeypatch.setenv(SOCKET_VARIABLE, str(path))
    return path


def test_own_socket_is_used_if_the_inherited_folder_is_missing(
    agent_home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    told_socket(monkeypatch, agent_home.folder / "not here")
    assert socket_path() == agent_home.socket


def test_inherited_socket_is_used_only_while_an_agent_listens(
    agent_home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = agent_home.folder / f"jupyter-slurm-{places.host()}-else"
    folder.mkdir()
    path = told_socket(monkeypatch, folder)
    assert socket_path() == agent_home.socket
    with socket.socket(socket.AF_UNIX) as listens:
        listens.bind(str(path))
        assert socket_path() == agent_home.socket
        listens.listen()
        assert socket_path() == path
