"""`push` and `pull`, compared with rsync over ssh: many small files, a large file, and no
changes."""

from __future__ import annotations

import itertools
import os
import random
import shlex
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median

from jupyter_slurm.transport.files import pull, push
from jupyter_slurm.transport.ssh.transport import SshTransport
from tests.benchmarks.rounds import alternating, seconds
from tests.benchmarks.ssh_ground import Ground, Way, checked
from tests.benchmarks.table import Row

_FILES = 5000
_BLOCK_BYTES = 1 << 20
_FLOOR = "tar by ssh -S master"
_NUMBERS = itertools.count()


def small_files(folder: Path) -> Path:
    """Write 5,000 files of 1 to 4 kB in fifty folders, like source code."""
    source = folder / "small"
    chance = random.Random(1)
    words = [chance.randbytes(4).hex().encode() for _ in range(3000)]
    for number in range(_FILES):
        place = source / f"package{number % 50:02}"
        place.mkdir(parents=True, exist_ok=True)
        text = b" ".join(chance.choices(words, k=chance.randrange(115, 455)))
        (place / f"module{number}.py").write_bytes(text)
    return source


def large_file(folder: Path, gigabytes: float) -> Path:
    """Write a file of incompressible random bytes to a new folder."""
    source = folder / "large"
    source.mkdir()
    with (source / "data.bin").open("wb") as file:
        for _ in range(int(gigabytes * 1e9 / _BLOCK_BYTES)):
            file.write(os.urandom(_BLOCK_BYTES))
    return source


def uploads(
    ground: Ground, way: Way, what: str, source: Path, most: float, rounds: int
) -> list[Row]:
    with ground.connection(way.alias) as connection:
        transport = SshTransport(connection)
        ways: dict[str, Callable[[Path], None]] = {
            "ours": lambda target: _push(transport, source, target),
            "rsync -a": lambda target: _rsync(ground, f"{source}/", f"{way.alias}:{target}/"),
            _FLOOR: lambda target: _tar_up(ground, way, source, target),
        }
        return _copies(what, source, most, rounds, ways)


def downloads(
    ground: Ground, way: Way, what: str, source: Path, most: float, rounds: int
) -> list[Row]:
    with ground.connection(way.alias) as connection:
        transport = SshTransport(connection)
        ways: dict[str, Callable[[Path], None]] = {
            "ours": lambda target: _pull(transport, source, target),
            "rsync -a": lambda target: _rsync(ground, f"{way.alias}:{source}/", f"{target}/"),
            _FLOOR: lambda target: _tar_down(ground, way, source, target),
        }
        return _copies(what, source, most, rounds, ways)


def _copies(
    what: str, source: Path, most: float, rounds: int, ways: Mapping[str, Callable[[Path], None]]
) -> list[Row]:
    """Measure copies to new folders. The lower bound is tar over an open connection. It neither
    checks, nor resumes, nor replaces files atomically."""

    def fresh(copy: Callable[[Path], None]) -> float:
        target = source.with_name(f"{source.name}-{next(_NUMBERS)}")
        taken_s = seconds(lambda: copy(target))
        shutil.rmtree(target)
        return taken_s

    measured = {name: partial(fresh, copy) for name, copy in ways.items()}
    taken = {name: median(found) for name, found in alternating(measured, rounds).items()}
    mine = taken.pop("ours")
    targets = {"rsync -a": most}
    return [Row(what, mine, name, theirs, targets.get(name)) for name, theirs in taken.items()]


def nothing_changed(ground: Ground, way: Way, source: Path, rounds: int) -> Row:
    """Measure a second upload of the same folder."""
    mine, theirs = (source.with_name(f"{source.name}-{next(_NUMBERS)}") for _ in range(2))
    with ground.connection(way.alias) as connection:
        transport = SshTransport(connection)
        ways = {
            "ours": lambda: seconds(lambda: _push(transport, source, mine)),
            "rsync": lambda: seconds(
                lambda: _rsync(ground, f"{source}/", f"{way.alias}:{theirs}/")
            ),
        }
        taken = {name: median(found) for name, found in alternating(ways, rounds).items()}
    shutil.rmtree(mine)
    shutil.rmtree(theirs)
    what = f"{_FILES:,} unchanged files"
    return Row(what, taken["ours"], "rsync -a", taken["rsync"], 0.4)


def _push(transport: SshTransport, source: Path, target: Path) -> None:
    outcome = push(transport, source, str(target))
    assert not outcome.failed, outcome.failed


def _pull(transport: SshTransport, source: Path, target: Path) -> None:
    outcome = pull(transport, str(source), target)
    assert not outcome.failed, outcome.failed


def _rsync(ground: Ground, source: str, target: str) -> None:
    checked(["rsync", "-a", "-e", " ".join(ground.ssh()), source, target])


def _tar_up(ground: Ground, way: Way, source: Path, target: Path) -> None:
    folder = shlex.quote(str(target))
    there = f"mkdir {folder} && tar -C {folder} -xf -"
    tar = shlex.join(["tar", "-C", str(source), "-cf", "-", "."])
    checked(["sh", "-c", f"{tar} | {shlex.join([*ground.master(way.alias), there])}"])


def _tar_down(ground: Ground, way: Way, source: Path, target: Path) -> None:
    there = shlex.join(["tar", "-C", str(source), "-cf", "-", "."])
    tar = shlex.join(["tar", "-C", str(target), "-xf", "-"])
    target.mkdir()
    checked(["sh", "-c", f"{shlex.join([*ground.master(way.alias), there])} | {tar}"])
