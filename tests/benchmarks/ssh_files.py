"""`push` against rsync over ssh: many small files, a large one, and nothing to do."""

from __future__ import annotations

import itertools
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import median

from jupyter_slurm.transport.files import push
from jupyter_slurm.transport.ssh import SshTransport
from tests.benchmarks.rounds import alternating, seconds
from tests.benchmarks.ssh_ground import Ground, Way, checked
from tests.benchmarks.table import Row

_FILES = 5000
_BLOCK_BYTES = 1 << 20
_NUMBERS = itertools.count()


def small_files(folder: Path) -> Path:
    """5,000 files of 1 to 4 kB in fifty folders: code, as it is."""
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
    """Random bytes, which no compression makes less of, alone in a folder."""
    source = folder / "large"
    source.mkdir()
    with (source / "data.bin").open("wb") as file:
        for _ in range(int(gigabytes * 1e9 / _BLOCK_BYTES)):
            file.write(os.urandom(_BLOCK_BYTES))
    return source


def uploads(ground: Ground, way: Way, what: str, source: Path, most: float, rounds: int) -> Row:
    """Each time to a folder that is not there yet."""

    def fresh(send: Callable[[Path], None]) -> float:
        target = source.with_name(f"{source.name}-{next(_NUMBERS)}")
        taken_s = seconds(lambda: send(target))
        shutil.rmtree(target)
        return taken_s

    with ground.connection(way.alias) as connection:
        transport = SshTransport(connection)
        return _row(
            what,
            lambda: fresh(lambda target: _ours(transport, source, target)),
            lambda: fresh(lambda target: _rsync(ground, way, source, target)),
            most,
            rounds,
        )


def nothing_changed(ground: Ground, way: Way, source: Path, rounds: int) -> Row:
    """The same folder once more."""
    mine, theirs = (source.with_name(f"{source.name}-{next(_NUMBERS)}") for _ in range(2))
    with ground.connection(way.alias) as connection:
        transport = SshTransport(connection)
        row = _row(
            f"{_FILES:,} files of which none has changed",
            lambda: seconds(lambda: _ours(transport, source, mine)),
            lambda: seconds(lambda: _rsync(ground, way, source, theirs)),
            0.4,
            rounds,
        )
    shutil.rmtree(mine)
    shutil.rmtree(theirs)
    return row


def _row(
    what: str,
    ours: Callable[[], float],
    theirs: Callable[[], float],
    most: float,
    rounds: int,
) -> Row:
    taken = alternating({"ours": ours, "theirs": theirs}, rounds)
    return Row(what, median(taken["ours"]), "rsync -a", median(taken["theirs"]), most)


def _ours(transport: SshTransport, source: Path, target: Path) -> None:
    outcome = push(transport, source, str(target))
    assert not outcome.failed, outcome.failed


def _rsync(ground: Ground, way: Way, source: Path, target: Path) -> None:
    shell = " ".join(ground.ssh())
    checked(["rsync", "-a", "-e", shell, f"{source}/", f"{way.alias}:{target}/"])
