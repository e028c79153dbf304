"""A cell on two nodes with each engine, compared with a manual script that starts that engine.

    scripts/bench engines [--rounds 5] [--only ENGINE …]

It measures from the start of the job's script to the first line of user code that can use all
nodes. The nodes of the private cluster are this machine. The manual script waits only as long as
necessary and does without look-ups and tokens, so it is faster than any guide's script. It then
measures how much longer the second cell of a session with Ray or Dask takes than the call in it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import textwrap
import time
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import cast

import psutil

from jupyter_slurm.client import AgentClient, connect
from jupyter_slurm.wire import CellSpec, Engine, JobState
from tests.benchmarks.rounds import alternating
from tests.benchmarks.table import HEAD, Row, show, spread
from tests.cluster.image import made_engines_python
from tests.cluster.plugin import SlurmCluster, running_cluster
from tests.magics.kernel import LOAD, Kernel, running_kernel
from tests.ssh.profile import write_profile

TARGET = 1.2
ADDED_MS = 100.0
OPTIONS = {"nodes": "2", "ntasks-per-node": "1", "cpus-per-task": "4"}
READY = {
    "torchrun": 'import torch.distributed as dist\ndist.init_process_group("gloo")\n',
    "mpi": "from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n",
    "ray": "",
    "dask": "",
}
BY_HAND = {
    "torchrun": """
        export python head port
        srun --mpi=none --cpu-bind=none bash -c '$python torchrun.py --nnodes=2 --log_dir=logs \\
          --nproc_per_node=1 --rdzv_id=$SLURM_JOB_ID --rdzv_backend=c10d \\
          --rdzv_endpoint=$head:$port --rdzv_conf is_host=$((1 - SLURM_NODEID)) main.py'
    """,
    "mpi": "OMPI_MCA_btl=self,tcp srun --mpi=pmix --cpu-bind=none $python main.py\n",
    "ray": """
        export RAY_TMPDIR=$PWD RAY_USAGE_STATS_ENABLED=0
        one="srun --mpi=none --overlap --nodes=1 --ntasks=1 --cpu-bind=none"
        ray="$python -m ray.scripts.scripts start --block --num-cpus=4"
        $one -w n1 $ray --head --node-ip-address=$head --port=$port --temp-dir=$PWD/r &
        until (: >/dev/tcp/$head/$port) 2>/dev/null; do sleep 0.1; done
        $one -w n2 $ray --address=$head:$port &
        RAY_ADDRESS=$head:$port $python main.py
        scancel --quiet $SLURM_JOB_ID
    """,
    "dask": """
        one="srun --mpi=none --overlap --nodes=1 --ntasks=1 --cpu-bind=none"
        $one -w n1 $python -m distributed.cli.dask_scheduler --scheduler-file s.json --port 0 &
        worker="$python -m distributed.cli.dask_worker --scheduler-file s.json --nthreads 4"
        $one -w n1 $worker & $one -w n2 $worker &
        $python main.py
        scancel --quiet $SLURM_JOB_ID
    """,
}
CONNECT = {
    "ray": """
        import ray, time
        ray.init(log_to_driver=False)
        while len(ray.nodes()) < 2:
            time.sleep(0.02)
    """,
    "dask": """
        import os, time
        while not os.path.exists("s.json"):
            time.sleep(0.02)
        from distributed import Client
        Client(scheduler_file="s.json").wait_for_workers(2)
    """,
}
TORCHRUN = """
import sys
from torch.distributed import run
from torch.distributed.elastic.multiprocessing import Std
from torch.distributed.launcher.api import elastic_launch
config, program, words = run.config_from_args(run.parse_args(sys.argv[1:]))
config.redirects = config.tee = Std.NONE  # PyTorch 1.13 does not find it with Python 3.11
elastic_launch(config, program)(*words)
"""
CALL = {
    "ray": "ray.get(ray.remote(lambda: 1).remote())",
    "dask": "client.submit(lambda: 1, pure=False).result()",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=[*BY_HAND], default=[*BY_HAND])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench") as folder:
        rows, lines = measured(Path(folder), args.rounds, args.only)
    show("Medians, alternating", lines)
    show("Engines, from the script's beginning to the code's", [HEAD, *(r.cells() for r in rows)])
    return 0 if all(row.ok for row in rows) else 1


def measured(
    folder: Path, rounds: int, engines: list[str]
) -> tuple[list[Row], list[tuple[str, str]]]:
    rows: list[Row] = []
    lines: list[tuple[str, str]] = []
    root = folder / "jobs"
    with running_cluster(folder / "home", nodes=2, cpus=4) as cluster:
        os.environ.update(cluster.env)
        for engine in engines:
            in_venv = engine in CONNECT
            python = str(made_engines_python()) if in_venv else "/usr/bin/python3"
            told = tomllib.loads(cluster.profile_path.read_text(encoding="utf-8"))
            write_profile(
                cluster.profile_path.parents[2],
                cluster.name,
                {**told, "python": python, "job_root": str(root)},
            )
            api = connect()
            try:
                ways: dict[str, Callable[[], float]] = {
                    "ours": partial(ours, api, root, engine),
                    "by hand": partial(by_hand, cluster, engine, python),
                }
                taken = alternating(ways, rounds)
                if in_venv:
                    with running_kernel(dict(os.environ), folder) as kernel:
                        added = second_cell(kernel, engine, max(3, rounds))
            finally:
                agent = psutil.Process(api.status().pid)
                agent.terminate()
                agent.wait(30)
            lines += [(f"{engine}, {way}", f"{spread(found)} s") for way, found in taken.items()]
            value, against = (median(taken[way]) for way in ways)
            rows.append(Row(f"{engine} ready", value, "by hand", against, TARGET))
            if in_venv:
                lines.append((f"{engine}, second cell above its call", f"{spread(added)} ms"))
                what = f"{engine}, second cell above its call"
                rows.append(Row(what, median(added), "what it may take", ADDED_MS, 1.0, "ms"))
    return rows, lines


def ours(api: AgentClient, root: Path, engine: str) -> float:
    """Return the seconds from the start of our job to its last ready rank."""
    ready = root.parent / "ready"
    code = f"{READY[engine]}import time\nopen({str(ready)!r}, 'a').write(f'{{time.time()}} ')\n"
    job = api.submit(
        CellSpec(name="bench", code=code, launch=cast("Engine", engine), options=OPTIONS)
    )
    cursor = ""
    while not (job := api.job(job.id)).state.final:
        cursor = api.changes(cursor, 5.0).cursor
    assert job.state is JobState.COMPLETED, f"{job.why} {api.result(job.id).evalue}"
    return last(ready) - (root / job.id / "started.0.json").stat().st_mtime


def by_hand(cluster: SlurmCluster, engine: str, python: str) -> float:
    """Return the seconds of a script that starts the engine without jupyter-slurm."""
    here = Path(tempfile.mkdtemp(prefix="b", dir="/tmp"))
    ready = here / "ready"
    code = textwrap.dedent(CONNECT.get(engine, "")) + READY[engine]
    (here / "main.py").write_text(
        f"{code}import time\nopen({str(ready)!r}, 'a').write(f'{{time.time()}} ')\n"
    )
    (here / "torchrun.py").write_text(TORCHRUN)
    (here / "job.sh").write_text(
        "#!/bin/bash\n: >began\nexport PYTHONDONTWRITEBYTECODE=1\n"
        f"python={python}\nhead=$(hostname -I | cut -d' ' -f1)\nport=$((20000 + RANDOM % 9999))\n"
        + textwrap.dedent(BY_HAND[engine])
    )
    options = [f"--{name}={value}" for name, value in OPTIONS.items()]
    told = cluster.run("sbatch", "--parsable", f"--chdir={here}", *options, str(here / "job.sh"))
    number = told.stdout.strip()
    while cluster.run("squeue", "-h", "-j", number, "-t", "PD,R,CG", "-o", "%T").stdout.strip():
        time.sleep(0.2)
    assert ready.exists(), (here / f"slurm-{number}.out").read_text()
    return last(ready) - (here / "began").stat().st_mtime


def last(ready: Path) -> float:
    """Return the time at which the last rank was ready."""
    found = max(map(float, ready.read_text().split()))
    ready.unlink()
    return found


def second_cell(kernel: Kernel, engine: str, rounds: int) -> list[float]:
    """Return how many milliseconds longer a cell takes than the call in it, for each round."""
    run(kernel, LOAD)
    words = " ".join(f"--{name} {value}" for name, value in OPTIONS.items())
    run(kernel, f"%slurm session start --runtime none --launch {engine} {words}")
    cell = (
        "%%slurm --session --fresh\nimport time; began = time.perf_counter()\n"
        f"{CALL[engine]}\nprint('took', time.perf_counter() - began)"
    )
    run(kernel, cell)
    added = []
    for _ in range(rounds):
        began_s = time.perf_counter()
        text = run(kernel, cell)
        taken_s = time.perf_counter() - began_s
        added.append((taken_s - float(text.split("took ")[1].split()[0])) * 1000)
    run(kernel, "%slurm session stop")
    return added


def run(kernel: Kernel, cell: str) -> str:
    """Run a cell and return its output; a failing cell ends the benchmark."""
    reply = kernel.run(cell)
    assert reply.content["status"] == "ok", reply.text + str(reply.content)
    return reply.text


if __name__ == "__main__":
    sys.exit(main())
