"""Which way is taken to the door of a lab, and when: the ways themselves are fakes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import cast

import pytest

from jupyter_slurm.errors import ConnectionLostError, ForwardError, JupyterSlurmError
from jupyter_slurm.jobs.access import lab_route
from jupyter_slurm.jobs.access.lab_route import LabRoute, Place
from jupyter_slurm.jobs.access.node_routes import NodeRoutes, Route, Verb
from jupyter_slurm.transport.connect_callbacks import Answered, Greeting, wait_for
from tests.ssh.waiting import wait_until

PORT = ("10.0.0.3", 41234)
REFUSED = ForwardError("It cannot be reached.")


class Node:
    """Says by which way somebody came. What is not `open` refuses; what is `silent` says nothing
    until it is set."""

    def __init__(self) -> None:
        self.open: set[Route] = {"direct", "hop"}
        self.silent: threading.Event | None = None
        self.came: list[Route] = []
        self.rests = 0
        self.lost: JupyterSlurmError | None = None

    def carry_greeted(
        self,
        route: Route,
        sock: socket.socket,
        host: str,
        port: int,
        greeting: Greeting,
        answered: Answered,
    ) -> None:
        assert (host, port) == PORT
        assert len(greeting.first) == 32
        threading.Thread(target=self._answer, args=(route, sock, answered)).start()

    def _answer(self, route: Route, sock: socket.socket, answered: Answered) -> None:
        if self.silent is not None:
            self.silent.wait()
        if self.lost is None and route in self.open:
            self.came.append(route)
            sock.close()  # it is the new owner's
            answered(None)
        else:
            answered(self.lost or REFUSED)

    def verb(self, route: Route) -> Verb:
        assert route == "relay"

        def carry(sock: socket.socket, host: str, port: int) -> None:
            assert host == "@jslurm-lab-x"
            self.came.append("relay")

        return carry

    def start_relay(self) -> None:
        self.came.append("relay")

    def rest_relay(self) -> None:
        self.rests += 1


@pytest.fixture(autouse=True)
def all_the_time_that_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that looks may be slow to begin on a busy machine."""
    monkeypatch.setattr(lab_route, "_SEEN_S", 3600.0)


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def remembered() -> list[Route]:
    """The ways that were told to be remembered."""
    return []


@pytest.fixture
def way(node: Node, remembered: list[Route]) -> Callable[..., LabRoute]:
    def make(usual: Route | None = None, port: tuple[str, int] | None = PORT) -> LabRoute:
        place = Place("jslurm-lab-x", port, b"key")
        return LabRoute(cast("NodeRoutes", node), place, usual, remembered.append)

    return make


def carry(way: LabRoute) -> None:
    near, far = socket.socketpair()
    with near, far:
        wait_for(lambda answered: way.carry(far, answered))


def test_a_port_that_can_be_got_to_is_the_way_and_no_relay_is_begun(
    node: Node, way: Callable[..., LabRoute], remembered: list[Route]
) -> None:
    one = way()
    one.prepare()
    assert node.came == ["direct"]  # to see whether the door is there
    carry(one)
    carry(one)
    assert node.came == ["direct"] * 3
    assert remembered == ["direct"]


def test_where_the_login_machine_gets_to_no_port_a_login_on_the_node_may(
    node: Node, way: Callable[..., LabRoute]
) -> None:
    node.open = {"hop"}
    carry(way())
    assert node.came == ["hop", "hop"]


def test_a_door_without_a_port_or_one_that_nobody_gets_to_is_come_to_by_the_relay(
    node: Node, way: Callable[..., LabRoute], remembered: list[Route]
) -> None:
    carry(way(port=None))
    node.open = set()
    one = way()
    one.prepare()
    carry(one)
    assert node.came == ["relay"] * 3
    assert remembered == ["relay"]


@pytest.mark.parametrize("usual", [None, "relay"])
def test_a_port_that_says_nothing_keeps_nobody_waiting_and_is_used_when_it_answers(
    node: Node,
    way: Callable[..., LabRoute],
    remembered: list[Route],
    usual: Route | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if usual is None:
        monkeypatch.setattr(lab_route, "_SEEN_S", 0.05)
    node.silent = threading.Event()
    one = way(usual)
    one.prepare()
    carry(one)
    assert node.came == ["relay", "relay"]
    node.silent.set()
    wait_until(lambda: remembered == ["direct"])
    carry(one)
    assert node.came[2:] == ["direct", "direct"]
    assert node.rests == 1


def test_a_way_that_leads_nowhere_any_more_is_left_and_found_again(
    node: Node, way: Callable[..., LabRoute], remembered: list[Route]
) -> None:
    one = way()
    carry(one)
    node.open = set()
    carry(one)
    assert node.came == ["direct", "direct", "relay"]
    node.open = {"direct"}
    carry(one)  # has it looked for again
    wait_until(lambda: len(remembered) == 2)
    node.came.clear()
    carry(one)
    assert node.came == ["direct"]


def test_a_lost_line_is_told_and_does_not_make_the_way_a_bad_one(
    node: Node, way: Callable[..., LabRoute]
) -> None:
    one = way()
    carry(one)
    node.lost = ConnectionLostError("The line is lost.")
    with pytest.raises(ConnectionLostError):
        carry(one)
    node.lost = None
    carry(one)
    assert node.came == ["direct"] * 3


def test_a_line_that_is_lost_while_it_is_looked_says_nothing_of_the_way(
    node: Node, way: Callable[..., LabRoute], remembered: list[Route]
) -> None:
    one = way()
    node.lost = ConnectionLostError("The line is lost.")
    carry(one)
    node.lost = None
    carry(one)
    assert node.came == ["relay", "direct", "direct"]
    assert remembered == ["direct"]
