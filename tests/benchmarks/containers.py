"""A cell in each container tool, compared with the tool's equivalent bare command line.

    scripts/bench containers [--rounds 21] [--only none docker]

Both alternate in one job of a private cluster. One is a cell's script as submitted, with its runner
and results. The other is a command line as in a user guide. Neither includes the time that Slurm
takes to start a job.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from statistics import median

from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.submission.prepare import prepare, with_key
from jupyter_slurm.jobs.submission.resolve import Site, resolved
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.wire import CellSpec
from tests.benchmarks.table import HEAD, Row, show, spread
from tests.cluster.apptainer import installed_apptainer
from tests.cluster.docker import docker_running
from tests.cluster.image import made_image
from tests.cluster.plugin import SlurmCluster, running_cluster

TOOLS = ("none", "charliecloud", "apptainer", "singularity", "docker")
_MAY_ADD_MS = 150.0
_PATIENCE_S = 300.0
_CODE = "print(6 * 7)"

# $1: the folder of job folders; $2: a file for the times; the rest: the bare command.
_DRIVER = r"""#!/bin/bash
jobs=$1 times=$2; shift 2
: >"$times.partial"
trap 'mv "$times.partial" "$times"' EXIT
for job in "$jobs"/*; do
  began=$EPOCHREALTIME
  bash "$job/job.sh" || exit
  between=$EPOCHREALTIME
  "$@" >/dev/null || exit
  echo "$began $between $EPOCHREALTIME" >>"$times.partial"
done
"""


@dataclass(frozen=True)
class Tool:
    """A runtime, and the command line that users without jupyter-slurm would type."""

    runtime: str
    image: str | None
    bare: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--only", nargs="+", choices=TOOLS, default=TOOLS)
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="bench") as name,
        running_cluster(Path(name) / "home", nodes=1, cpus=64) as cluster,
        tools(args.only) as known,
    ):
        rows, lines = [], []
        for tool in known:
            folder = Path(name) / tool.runtime
            ours, bare = measured(cluster, tool, folder, args.rounds)
            lines += [
                (f"a cell in {tool.runtime}", f"{spread(ours)} s"),
                (shlex.join(tool.bare[:2]), f"{spread(bare)} s"),
            ]
            added_ms = 1000 * median(our - its for our, its in zip(ours, bare, strict=True))
            rows.append(
                Row(f"added in {tool.runtime}", added_ms, "it may add", _MAY_ADD_MS, 1.0, "ms")
            )
        show("Medians, alternating", lines)
        show("Against the bare command lines", [HEAD, *(row.cells() for row in rows)])
    return 0 if all(row.ok for row in rows) else 1


@contextmanager
def tools(wanted: Sequence[str]) -> Iterator[list[Tool]]:
    """Yield the requested tools that this machine can run. Docker needs root."""
    image = made_image()
    python = ("python3", "-c", _CODE)
    found = [
        Tool("none", None, (sys.executable, "-c", _CODE)),
        # ch-run needs the user's name.
        Tool("charliecloud", str(image), ("ch-run", str(image), "--", *python), {"USER": "me"}),
    ]
    if {"apptainer", "singularity"} & set(wanted):
        apptainer = installed_apptainer(image)
        for runtime, one in (("apptainer", apptainer.sif), ("singularity", apptainer.folder)):
            bare = (runtime, "exec", str(one), *python)
            found.append(Tool(runtime, str(one), bare, apptainer.unprivileged))
    with ExitStack() as stack:
        if os.geteuid() == 0 and "docker" in wanted:
            engine = stack.enter_context(docker_running(image))
            user = f"{os.getuid()}:{os.getgid()}"
            run = ("docker", "run", "--rm", "--network=host", "--user", user, engine.image)
            found.append(Tool("docker", engine.image, (*run, *python), engine.env))
        yield [tool for tool in found if tool.runtime in wanted]


def measured(
    cluster: SlurmCluster, tool: Tool, folder: Path, rounds: int
) -> tuple[list[float], list[float]]:
    """Return the seconds of our cell and of the bare command, measured alternately."""
    jobs = folder / "jobs"
    # The driver runs the folders in the order of their names. The first round is a warm-up.
    for number in range(rounds + 1):
        write_job(tool, jobs / f"{number:04}")
    driver, times = folder / "driver.sh", folder / "times"
    driver.write_text(_DRIVER)
    export = ",".join(["ALL", *(f"{name}={value}" for name, value in tool.env.items())])
    options = [f"--output={folder}/slurm.out", f"--export={export}"]
    cluster.submit(*options, *map(str, (driver, jobs, times)), *tool.bare)
    deadline_s = time.monotonic() + _PATIENCE_S
    while not times.exists():
        assert time.monotonic() < deadline_s, (folder / "slurm.out").read_text()
        time.sleep(0.2)
    told = [[float(one) for one in line.split()] for line in times.read_text().splitlines()[1:]]
    assert len(told) == rounds, (folder / "slurm.out").read_text()
    return [two - one for one, two, _ in told], [three - two for _, two, three in told]


def write_job(tool: Tool, folder: Path) -> None:
    """Write a cell's folder like a submission."""
    spec = CellSpec(
        id="".join(secrets.choice("abcdefgh") for _ in range(8)),
        name="bench",
        code=_CODE,
        image=tool.image,
        runtime=tool.runtime,
    )
    # The driver runs our script and the bare command.
    profile = ClusterProfile(name="local", python=sys.executable, login_shell=False)
    job_dir = JobDir(PurePosixPath(folder))
    site = Site(str(Path.home()), job_dir, tool.image)
    folder.mkdir(parents=True, mode=0o700)
    submission = prepare(resolved(spec, profile, site))
    for name, content in with_key(submission.files, secrets.token_bytes(32)).items():
        assert isinstance(content, bytes)
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    sys.exit(main())
