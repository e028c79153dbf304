"""How often files over there are looked at, and what is made of the answers."""

from __future__ import annotations

import subprocess
from pathlib import Path, PurePosixPath

from jupyter_slurm.transport.shell import follow


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
