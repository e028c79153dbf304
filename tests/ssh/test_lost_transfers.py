"""The line is cut in the middle of a push or a pull: what has arrived is not sent again, and
nothing half written is ever where a whole file belongs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil
import pytest

from jupyter_slurm.wire import ConnectionState
from tests.ssh.laptop import PATIENCE_S, Laptop
from tests.ssh.processes import words_of
from tests.ssh.site import Site
from tests.ssh.waiting import wait_until

_MIB = 1 << 20
_PART_BYTES = 64 * _MIB
_BIG_BYTES = 2 * _PART_BYTES + _MIB
_SMALL = 40
_OLD = b"old\n"


@dataclass(frozen=True)
class Way:
    """One folder that is to become like another."""

    words: tuple[str, ...]
    """Of `jupyter slurm`."""
    source: Path
    target: Path
    first_part: str
    """What the program over there is told that carries the large file's first part."""
    count: Literal["tx", "rx"]
    """What the laptop counts of it."""

    @property
    def big(self) -> Path:
        return self.target / "big"

    def arrived(self) -> set[str]:
        """The parts of the large file that are kept."""
        parts = self.target / ".jupyter-slurm" / "parts"
        with suppress(FileNotFoundError):  # the file is whole now
            return {path.name for path in parts.glob("*/*") if path.name != "data"}
        return set()


@pytest.fixture(params=["push", "pull"])
def direction(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def way_of(direction: str, laptop: Laptop) -> Way:
    """A large file that is to replace an older one, and small ones beside it."""
    here, account = laptop.home.folder / "folder", laptop.site.person.account
    there = account.home / f"folder-{laptop.home.folder.name}"
    if direction == "push":
        way = Way(("push", "folder", there.name), here, there, "seek=0", "tx")
    else:
        way = Way(("pull", there.name, "folder"), there, here, "skip=0", "rx")
    way.source.mkdir()
    (way.source / "big").write_bytes(os.urandom(_BIG_BYTES))
    for number in range(_SMALL):
        (way.source / f"small {number}").write_text(f"{number}\n" * 1000)
    way.target.mkdir()
    way.big.write_bytes(_OLD)
    for path in (there, *there.iterdir()):
        shutil.chown(path, account.name, account.name)
    return way


def digests(folder: Path) -> dict[str, str]:
    """Of the files in it, but for our own."""
    files = [path for path in folder.iterdir() if path.is_file()]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@contextmanager
def sizes_seen(path: Path) -> Iterator[set[int]]:
    """All that somebody finds who looks at the file all the time."""
    seen: set[int] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.005):
            seen.add(path.stat().st_size)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


@contextmanager
def in_the_middle(laptop: Laptop, way: Way) -> Iterator[None]:
    """The line is cut, until the end, when all has arrived but the first part of the large file,
    which is on its way: the program over there that carries it has been stopped."""
    site = laptop.site
    stopped: list[psutil.Process] = []

    def stop() -> bool:
        for one in site.processes():
            if way.first_part in words_of(one):
                one.suspend()
                stopped.append(one)
        return bool(stopped)

    wait_until(stop, PATIENCE_S)
    try:
        wait_until(lambda: way.arrived() == {"1", "2"}, PATIENCE_S)
        site.cut()
        yield
    finally:
        site.heal()
        for one in stopped:
            with suppress(psutil.NoSuchProcess):  # its shell has killed it
                one.resume()


def carried(laptop: Laptop, count: str) -> int:
    """What has gone over the laptop's line, in bytes."""
    machine = laptop.site.laptop_machine
    [link] = json.loads(machine.ip("-s", "-j", "link", "show", "to-gateway"))
    return int(link["stats64"][count]["bytes"])


def test_transfer_whose_line_was_cut_and_healed_goes_on_by_itself(
    laptop: Laptop, direction: str
) -> None:
    laptop.notice_soon()
    way = way_of(direction, laptop)
    laptop.log_in()
    before = laptop.site.logins()
    with sizes_seen(way.big) as seen:
        command = laptop.start(*laptop.command(*way.words))
        with in_the_middle(laptop, way):
            wait_until(lambda: laptop.connection().state is ConnectionState.LOST, PATIENCE_S)
        out, err = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 0, out + err
    assert digests(way.target) == digests(way.source)
    assert seen == {len(_OLD), _BIG_BYTES}
    assert laptop.site.logins() == before


def test_transfer_whose_line_was_lost_says_so_and_goes_on_where_it_was(
    impatient_gateway: Site, laptop: Laptop, direction: str
) -> None:
    site = impatient_gateway
    way = way_of(direction, laptop)
    laptop.log_in()
    with sizes_seen(way.big) as seen:
        command = laptop.start(*laptop.command(*way.words))
        with in_the_middle(laptop, way):
            wait_until(lambda: [*site.gateway.pids(), *site.login.pids()] == [], PATIENCE_S)
        out, err = command.communicate(timeout=PATIENCE_S)
        assert (command.returncode, out) == (1, "")
        assert "goes on from there" in err
        assert way.big.read_bytes() == _OLD
        assert way.arrived() == {"1", "2"}
        wait_until(lambda: laptop.connection().state is ConnectionState.LOGIN_NEEDED, PATIENCE_S)
        laptop.log_in()
        before = carried(laptop, way.count)
        laptop.slurm(*way.words)
        assert carried(laptop, way.count) - before < 1.1 * _PART_BYTES
    assert digests(way.target) == digests(way.source)
    assert seen == {len(_OLD), _BIG_BYTES}
    assert not (way.target / ".jupyter-slurm").exists()
