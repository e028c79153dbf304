"""A cell compared with bare sbatch and submitit, the transfer of variables, the loading of the
extension, and the load on the controller.

    scripts/bench cell [--rounds 21] [--gigabytes 1] [--window 60]

It uses a private cluster, the real magics in an IPython shell, and the real agent.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from statistics import median

import numpy as np
import psutil
from IPython.core.interactiveshell import InteractiveShell
from numpy.typing import NDArray

from jupyter_slurm.client import AgentClient, connect
from jupyter_slurm.wire import AgentStatus
from tests.benchmarks.rounds import alternating
from tests.benchmarks.table import HEAD, Row, show, spread
from tests.cluster.plugin import SlurmCluster, running_cluster

HELD = Path(__file__).with_name("held_cells.py")
_POLL_S = 0.005


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--window", type=float, default=60.0, help="seconds of counting")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench") as folder, ground(Path(folder)) as cluster:
        shell = shell_with_magics()
        rows, lines = against_others(shell, cluster, Path(folder), args.rounds)
        rows.append(variables(shell, Path(folder), args.gigabytes, rows[0].value))
        rows.append(loading(args.rounds))
        show("Medians, alternating", lines)
        show("Ratios", [HEAD, *(row.cells() for row in rows)])
        show("The controller and the agent", load(connect(), Path(folder), args.window))
    return 0 if all(row.ok for row in rows) else 1


@contextmanager
def ground(folder: Path) -> Iterator[SlurmCluster]:
    """Run a cluster whose node uses this Python; set this process's environment for it."""
    # With accounting, which sites have and submitit needs.
    spec = {"nodes": 1, "gpus": 2, "cpus": 64, "accounting": True}
    with running_cluster(folder / "home", **spec) as cluster:
        os.environ.update(cluster.env)
        try:
            yield cluster
        finally:
            agent = psutil.Process(connect().status().pid)
            agent.terminate()
            agent.wait(30)


def shell_with_magics() -> InteractiveShell:
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "jupyter_slurm")
    return shell


def run_cell(shell: InteractiveShell, text: str) -> float:
    """Run a cell and return its seconds; a failing cell ends the benchmark."""
    began_s = time.perf_counter()
    with redirect_stdout(StringIO()):
        outcome = shell.run_cell(text)
    outcome.raise_error()
    return time.perf_counter() - began_s


# --- a trivial cell ---------------------------------------------------------------------------


def against_others(
    shell: InteractiveShell, cluster: SlurmCluster, folder: Path, rounds: int
) -> tuple[list[Row], list[tuple[str, str]]]:
    ways: dict[str, Callable[[], float]] = {
        "%%slurm": lambda: run_cell(shell, "%%slurm --fresh --runtime none\n1 + 1"),
        "bare sbatch": lambda: bare_sbatch(cluster, folder),
        "submitit": lambda: with_submitit(folder / "submitit"),
    }
    taken = alternating(ways, rounds, wait_for_phase)
    ours, floor, theirs = (median(values) for values in taken.values())
    rows = [
        Row("cell -> result", ours, "bare sbatch, file poll at 5 ms", floor, 1.25),
        Row("cell -> result", ours, "submitit", theirs, 0.7),
    ]
    return rows, [(name, f"{spread(values)} s") for name, values in taken.items()]


def wait_for_phase(fraction: float) -> None:
    """Wait until the clock is at this fraction of a second.

    slurmctld starts batch jobs once a second. Each candidate starts once at every phase, so that
    this wait does not distort the comparison.
    """
    time.sleep((fraction - time.time()) % 1.0)


def bare_sbatch(cluster: SlurmCluster, folder: Path) -> float:
    """Do the same work by hand: start the interpreter, and write its result to a file."""
    result = folder / "floor"
    result.unlink(missing_ok=True)
    code = f"open({str(result)!r}, 'w').write(str(1 + 1))"
    script = f'#!/bin/bash\n{sys.executable} -c "{code}"\n'
    began_s = time.perf_counter()
    cluster.run("sbatch", "--output=/dev/null", stdin=script)
    while not (result.exists() and result.read_text()):
        time.sleep(_POLL_S)
    return time.perf_counter() - began_s


def with_submitit(folder: Path) -> float:
    import submitit  # needs Slurm at import

    executor = submitit.AutoExecutor(folder=folder, cluster="slurm")
    executor.update_parameters(timeout_min=5)
    began_s = time.perf_counter()
    assert executor.submit(sum, [1, 1]).result() == 2
    return time.perf_counter() - began_s


# --- variables, and loading -------------------------------------------------------------------


def variables(shell: InteractiveShell, folder: Path, gigabytes: float, trivial_s: float) -> Row:
    """Measure how much longer a cell takes with an array as its input and output."""
    array = np.random.default_rng(1).random(int(gigabytes * 1e9 / 8))
    shell.user_ns["array"] = array
    cell = "%%slurm --fresh --runtime none --in array --out back --mem 8G\nback = array"
    floors: list[float] = []
    taken: list[float] = []
    for _ in range(3):
        floors.append(saved_and_loaded(folder / "array.npy", array))
        taken.append(run_cell(shell, cell) - trivial_s)
        assert np.array_equal(shell.user_ns.pop("back"), array)
    del shell.user_ns["array"]
    return Row(
        f"{gigabytes:g} GB in and out, above a trivial cell",
        median(taken),
        "np.save and np.load of it, once",
        median(floors),
        2.0,
    )


def saved_and_loaded(file: Path, array: NDArray[np.float64]) -> float:
    began_s = time.perf_counter()
    np.save(file, array)
    assert np.load(file).nbytes == array.nbytes
    taken_s = time.perf_counter() - began_s
    file.unlink()
    return taken_s


def loading(rounds: int) -> Row:
    """Measure the loading of the extension in new processes. The target is 100 ms above IPython's
    start."""
    start = "from IPython.core.interactiveshell import InteractiveShell as S; s = S.instance()"
    with_us = f"{start}; s.run_line_magic('load_ext', 'jupyter_slurm')"
    bare: list[float] = []
    ours: list[float] = []
    for _ in range(rounds):
        for code, times in ((start, bare), (with_us, ours)):
            began_s = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times.append(time.perf_counter() - began_s)
    added_ms = (median(ours) - median(bare)) * 1000
    return Row("%load_ext, above bare IPython", added_ms, "what it may take", 100.0, 1.0, "ms")


# --- the load -----------------------------------------------------------------------------------


def load(api: AgentClient, folder: Path, window_s: float) -> list[tuple[str, str]]:
    one = waiting(api, folder, 1, 1, window_s)
    twenty = waiting(api, folder, 5, 4, window_s)
    before = api.status()
    time.sleep(window_s)
    after = api.status()
    return [
        ("squeue a minute, 1 cell waiting", f"{one:.1f}"),
        ("squeue a minute, 20 cells waiting in 5 kernels", f"{twenty:.1f}"),
        ("agent, nothing to do: squeue a minute", f"{rate(before, after, window_s):.1f}"),
        ("agent, nothing to do: CPU", f"{(after.cpu_s - before.cpu_s) / window_s:.2%}"),
        ("agent: memory", f"{after.memory_mib:.0f} MiB"),
    ]


def waiting(api: AgentClient, folder: Path, kernels: int, cells: int, window_s: float) -> float:
    """Count squeue calls per minute while `kernels` processes show `cells` held jobs each."""
    commands = [[sys.executable, str(HELD), str(cells)] for _ in range(kernels)]
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen(one, stdin=pipe, stdout=pipe, text=True, cwd=folder) for one in commands
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            while "all submitted" not in (line := process.stdout.readline()):
                assert line, "a kernel died"
        before = api.status()
        time.sleep(window_s)
        after = api.status()
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    for job in api.jobs():
        if not job.state.final:
            api.cancel(job.id)
    until_s = time.monotonic() + 60
    while api.status().live_jobs:
        assert time.monotonic() < until_s, "the jobs do not end"
        time.sleep(0.5)
    return rate(before, after, window_s)


def rate(before: AgentStatus, after: AgentStatus, window_s: float) -> float:
    return (squeues(after) - squeues(before)) / window_s * 60


def squeues(status: AgentStatus) -> int:
    return sum(n for name, n in status.commands.items() if name.endswith(" squeue"))


if __name__ == "__main__":
    sys.exit(main())
