"""Notices in the running cell about a lost connection, event by event."""

from __future__ import annotations

from typing import Any, cast

import pytest

from jupyter_slurm.errors import LoginNeededError, TransportError
from jupyter_slurm.kernel.answers import Answers
from jupyter_slurm.kernel.messages import Message, made
from jupyter_slurm.kernel.waiting import ConnectionNotice

NO_ROUTE = TransportError("No route found.")
NO_LINE = TransportError("The line was cut.")
LOGIN = LoginNeededError("It is closed until you log in again.")
CELL = made("execute_request", {"code": "1"}, session="s")


class Cell:
    """A stand-in for Answers that records a cell's displays."""

    def __init__(self) -> None:
        self.shown: list[tuple[bool, str]] = []
        self.ids: set[str] = set()

    def display(self, data: Any, request: Message, display_id: str, *, update: bool) -> None:
        assert request is CELL
        self.ids.add(display_id)
        self.shown.append((update, data["text/plain"]))

    def texts(self) -> list[str]:
        return [text for _, text in self.shown]


@pytest.fixture
def cell() -> Cell:
    return Cell()


@pytest.fixture
def notice(cell: Cell) -> ConnectionNotice:
    return ConnectionNotice(cast("Answers", cell))


def test_short_interruption_is_not_shown(notice: ConnectionNotice, cell: Cell) -> None:
    notice.stream_lost(NO_LINE, 0.0)
    notice.look(CELL, "arandu", 9.0)
    notice.stream_open(9.5)
    notice.look(CELL, "arandu", 30.0)
    assert cell.shown == []


def test_one_display_shows_each_change_of_the_connection(
    notice: ConnectionNotice, cell: Cell
) -> None:
    notice.cluster_reachable(NO_ROUTE, 0.0)
    notice.look(CELL, "arandu", 11.0)
    notice.look(CELL, "arandu", 12.0)
    notice.stream_lost(NO_LINE, 90.0)
    notice.look(CELL, "arandu", 91.0)
    notice.cluster_reachable(LOGIN, 100.0)
    notice.look(CELL, "arandu", 100.0)
    notice.cluster_reachable(None, 600.0)
    notice.look(CELL, "arandu", 600.0)
    notice.stream_open(601.0)
    why, login, line, well = cell.texts()
    assert "No route found. The kernel retries automatically." in why
    assert "`jupyter slurm login arandu`" in login
    assert "The line was cut." in line, "the cluster is reachable, but the kernel is not yet"
    assert well == "The connection to the kernel's job was down for 10 min 1 s. No output was lost."
    assert [update for update, _ in cell.shown] == [False, True, True, True]
    assert len(cell.ids) == 1
