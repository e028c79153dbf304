"""How often files over there are looked at, and what is made of the answers."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import cast

import pytest

from jupyter_slurm.errors import TransportError
from jupyter_slurm.transport.shell import follow
from jupyter_slurm.transport.shell.far_shell import FarShell, ShellGoneError
from tests.transport.shell.posix import LOOP, PRELUDE


def test_what_happens_is_seen_within_a_25th_of_the_time_waited_for_it() -> None:
    quiet_s = 0.0
    for tick_s in follow._TICKS:
        assert tick_s <= max(quiet_s / 25, follow._SHORTEST_TICK_S)
        quiet_s += tick_s
    assert follow._TICKS[-1] == follow._LONGEST_TICK_S
    assert len(follow._TICKS) < 200


def test_a_look_tells_every_size_whatever_the_name(tmp_path: Path) -> None:
    names = ["a", "total", "two\nlines", "it's $x", "-n", " b ", "sub/c", "é", "3 a"]
    sizes: dict[PurePosixPath, int] = {}
    for number, name in enumerate(names):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * (number + 1))
        sizes[PurePosixPath(path)] = 0
    missing = {PurePosixPath(tmp_path / name): 0 for name in ("none", "no\nne", "sub/none")}
    known = follow._List({**missing, **sizes})
    script = b"_n='\n'; " + known.look
    said = subprocess.run(["sh", "-c", script], capture_output=True, check=False).stdout
    expected = {path: number + 1 for number, path in enumerate(sizes)}
    assert known.longer(said, {**missing, **sizes}) == expected
    assert known.longer(said, {**missing, **expected}) == {}


def test_what_is_no_answer_is_left_alone(tmp_path: Path) -> None:
    path = PurePosixPath(tmp_path / "a")
    known = follow._List([path])
    for said in (b"", b"12", b"x ./a", b"12 ./b", b" 7 total", b"\n\n"):
        assert known.longer(said, {path: 0}) == {}


class Line:
    """What a shell would be sent."""

    def __init__(self) -> None:
        self.sent = b""

    def send(self, data: bytes) -> None:
        self.sent += data


def test_a_look_costs_the_other_machine_one_process(shell: list[str], tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12")
    wc = tmp_path / "wc"
    wc.write_text('#!/bin/sh\necho $PPID >>parents\nPATH=/usr/bin:/bin; exec wc "$@"\n')
    wc.chmod(0o755)
    line = Line()
    looks = follow.Follow(lambda: None, lambda: True, lambda _: b"")
    looks._begin(cast("FarShell", line), {PurePosixPath(tmp_path / "a"): 0}, 0)
    *setting, go = line.sent.splitlines()
    done = subprocess.run(
        [*shell, "-c", LOOP],
        input=PRELUDE + b"\n".join([*setting, b"_ticks='0 0'", go, b"wait", b""]),
        capture_output=True,
        check=False,
        timeout=60,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )
    assert done.stdout == b"KEY:1+\n2 ./aKEY:1."
    first, second = (tmp_path / "parents").read_text().split()
    assert first == second  # the shell that ticks: there is no other between


class Heard:
    """A shell that ends while it is listened to, and another thread closes what it belongs to."""

    def __init__(self, then: Callable[[], None]) -> None:
        self.alive = True
        self._then = then

    def mark(self, number: int) -> bytes:
        return b""

    def send(self, data: bytes) -> None: ...

    def heard(self, mark: bytes, timeout_s: float) -> bytes | None:
        self._then()
        raise ShellGoneError("it was closed", begun=True)

    def close(self) -> None:
        self.alive = False


@pytest.mark.parametrize("while_it", ["listens", "opens"])
def test_nothing_is_opened_for_who_follows_files_when_that_is_closed(while_it: str) -> None:
    opened: list[Heard] = []

    def open_shell() -> FarShell:
        if while_it == "opens" or opened:
            looks.close()
        opened.append(Heard(looks.close))
        return cast("FarShell", opened[-1])

    looks = follow.Follow(open_shell, lambda: True, lambda _: b"")
    with pytest.raises(TransportError, match="has been closed"):
        looks.grown({PurePosixPath("/a"): 0}, wait_s=60, wake=threading.Event())
    assert [shell.alive for shell in opened] == [False]
