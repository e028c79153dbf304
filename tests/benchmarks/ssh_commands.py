"""A command on an open connection, and a submission, compared with `ssh` and a master."""

from __future__ import annotations

import base64
import itertools
import secrets
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from statistics import median

from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.submission.prepare import prepare, with_key
from jupyter_slurm.jobs.submission.resolve import Site, resolved
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.transport.ssh.transport import SshTransport
from jupyter_slurm.wire import CellSpec
from tests.benchmarks.rounds import alternating, seconds
from tests.benchmarks.ssh_ground import Ground, Way
from tests.benchmarks.table import Row

_MOST_OF_A_COMMAND = {"near": 0.2, "far": 0.5, "jumped": 0.2}
_PROGRAM = ["/bin/true"]
"""The full path of `true`, since a shell has a builtin of that name."""
_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Slurm:
    """A stand-in for sbatch, with its folder and environment."""

    name: str
    bin: Path
    env: Mapping[str, str]


def stand_in(folder: Path) -> Slurm:
    """Make an sbatch that takes no time, to measure only the connection."""
    program = folder / "stand-in" / "sbatch"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 1\n")
    program.chmod(0o755)
    return Slurm("an sbatch that takes no time", program.parent, {})


def commands(ground: Ground, way: Way, rounds: int) -> list[Row]:
    master = [*ground.master(way.alias), *_PROGRAM]
    with ground.connection(way.alias) as connection:
        transport = SshTransport(connection)

        def ours() -> None:
            assert transport.run(_PROGRAM).returncode == 0

        with _waiting_shell() as shell:
            taken = alternating(
                {
                    "ours": lambda: seconds(ours),
                    "theirs": lambda: seconds(lambda: subprocess.run(master, check=True)),
                    "floor": lambda: seconds(lambda: _run_program(shell)),
                },
                rounds,
            )
    mine, theirs, floor = (median(taken[name]) * 1000 for name in ("ours", "theirs", "floor"))
    what = "a command on an open connection"
    return [
        Row(what, mine, "ssh -S master", theirs, _MOST_OF_A_COMMAND[way.alias], "ms"),
        Row(what, mine, "a shell that waits here, no ssh", floor, None, "ms"),
    ]


@contextmanager
def _waiting_shell() -> Iterator[subprocess.Popen[bytes]]:
    """Run a local shell that forks for each command, as a lower bound for remote shells."""
    with subprocess.Popen(
        ["/bin/sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as shell:
        yield shell
        assert shell.stdin is not None
        shell.stdin.close()


def _run_program(shell: subprocess.Popen[bytes]) -> None:
    assert shell.stdin is not None
    assert shell.stdout is not None
    shell.stdin.write(shlex.join(_PROGRAM).encode() + b"; echo $?\n")
    assert shell.stdout.read(2) == b"0\n"


def submissions(ground: Ground, way: Way, slurm: Slurm, rounds: int) -> list[Row]:
    with ground.connection(way.alias) as connection:
        transport = SshTransport(connection, [str(slurm.bin)], slurm.env)

        def ours() -> float:
            folder = _job_dir(ground)
            files, argv = _job(folder)

            def submit() -> None:
                done = transport.upload_and_run(PurePosixPath(folder), files, argv)
                assert done.returncode == 0, done.stderr

            return seconds(submit)

        taken = alternating({"ours": ours, "theirs": lambda: _by_hand(ground, way, slurm)}, rounds)
    mine, theirs = (median(taken[name]) * 1000 for name in ("ours", "theirs"))
    what = f"submit a cell to {slurm.name}"
    return [Row(what, mine, "tar, untar, sbatch by ssh -S master", theirs, 0.8, "ms")]


def _by_hand(ground: Ground, way: Way, slurm: Slurm) -> float:
    """Submit as a user would by hand in a shell, with prepared files."""
    folder = _job_dir(ground)
    files, argv = _job(folder)
    local = folder.with_name(f"{folder.name}-local")
    for name, content in files.items():
        assert isinstance(content, bytes)
        (local / name).parent.mkdir(parents=True, exist_ok=True)
        (local / name).write_bytes(content)
    words = [f"{name}={text}" for name, text in slurm.env.items()]
    submit = shlex.join(["env", *words, str(slurm.bin / "sbatch"), *argv[1:]])
    place = shlex.quote(str(folder))
    there = f"mkdir -p {place} && cd {place} && tar xf - && {submit}"
    tar = shlex.join(["tar", "-C", str(local), "-cf", "-", "."])
    ssh = shlex.join([*ground.master(way.alias), there])
    return seconds(
        lambda: subprocess.run(["sh", "-c", f"{tar} | {ssh}"], check=True, capture_output=True)
    )


def _job_dir(ground: Ground) -> Path:
    return ground.folder / "jobs" / str(next(_NUMBERS))


def _job(folder: Path) -> tuple[Mapping[str, bytes | Path], Sequence[str]]:
    """Prepare a trivial cell's job. The job is held, so that a real Slurm only accepts it."""
    job_id = base64.b32encode(secrets.token_bytes(5)).decode().lower()
    spec = CellSpec(id=job_id, name="cell", code="1 + 1", options={"hold": ""})
    profile = ClusterProfile(name="bench")
    site = Site(str(folder.parent), JobDir(PurePosixPath(folder)))
    made = prepare(resolved(spec, profile, site))
    return with_key(made.files, secrets.token_bytes(32)), made.sbatch
