"""A kernel in a job, compared with a local kernel: a cell, a completion, 100 MB of output, 20
kernels at once.

    scripts/bench kernel [--rounds 51] [--output 3] [--kernels 20] [--delay-ms 20]

It uses a private cluster, Jupyter's own clients, the proxy and the real agent. The round trip sends
one byte from this process to a step in the same job (`srun --overlap`) and back. This is the bare
path of a kernel's messages, without this package. With a delay, the cluster is behind an sshd and a
slow line with that round trip. The bare path uses OpenSSH there.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import psutil
from jupyter_client.manager import KernelManager

from jupyter_slurm.cli import main as command
from jupyter_slurm.client import connect
from jupyter_slurm.slurm import srun
from jupyter_slurm.slurm.versions import parse_version
from jupyter_slurm.transport.ssh.route import CONFIG_VARIABLE
from jupyter_slurm.wire import ConnectionState, Job, JobKind
from tests.benchmarks.rounds import alternating, seconds
from tests.benchmarks.table import HEAD, Row, show, spread
from tests.cluster.plugin import SlurmCluster, running_cluster
from tests.magics.kernel import Kernel
from tests.ssh.accounts import PLAIN_SHELL, make_folder, oneself
from tests.ssh.kept import Keeper, keeping
from tests.ssh.profile import SshSlurm
from tests.ssh.slow_line import lay
from tests.ssh.sshd import Sshd
from tests.ssh.waiting import wait_until

MOST = 1.3
OUTPUT_MB = 100
OUTPUT = f"for i in range({OUTPUT_MB}): print('y' * (1 << 20))"
PATIENCE_S = 240.0
_ECHO = (
    "import os, tty\nif os.isatty(1): tty.setraw(1)\n"
    "os.write(1, b'!')\nwhile data := os.read(0, 1): os.write(1, data)"
)
_ASKED = re.compile(r"^\s+([A-Z_]+)\s+\( *\d+\) count:(\d+)", re.MULTILINE)
"""Pattern for a kind of request in sdiag's output."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=51)
    parser.add_argument("--output", type=int, default=3, help=f"rounds of {OUTPUT_MB} MB")
    parser.add_argument("--kernels", type=int, default=20, help="kernels at once")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="the network's round trip")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="bench") as folder,
        ground(Path(folder), args.delay_ms / 1000) as (cluster, way),
    ):
        for name, memory in (("far", "2G"), ("many", "400M")):
            if command(["kernel", "add", "--name", name, "--mem", memory], connect):
                return 1
        rows, lines = against_local(cluster, way, args.rounds, args.output)
        show("Medians (least to most), alternating", lines)
        show("A kernel in a job", [HEAD, *(row.cells() for row in rows)])
        if args.kernels:
            show("Many at once", at_once(cluster, args.kernels, Path(folder)))
    return 0 if all(row.ok for row in rows) else 1


@contextmanager
def ground(folder: Path, delay_s: float) -> Iterator[tuple[SlurmCluster, list[str]]]:
    """Run a cluster whose node uses this Python, in this process's environment. Yield it, and the
    command prefix for its login machine at a round trip of `delay_s` (0 for this machine)."""
    with running_cluster(folder / "home", nodes=1, cpus=64) as cluster, keeping() as keeper:
        os.environ.update(cluster.env)
        way = far_away(keeper, cluster, delay_s) if delay_s else []
        try:
            yield cluster, way
        finally:
            agent = psutil.Process(connect().status().pid)
            agent.terminate()
            agent.wait(30)


def far_away(keeper: Keeper, cluster: SlurmCluster, delay_s: float) -> list[str]:
    """Switch the profile to SSH over a slow line; return an `ssh` command prefix that uses an open
    connection over the same line."""
    folder = make_folder(keeper, "bench-kernel-")
    (folder / "sshd").mkdir(mode=0o711)
    sshd = Sshd(keeper, folder / "sshd", oneself(), [PLAIN_SHELL])
    sshd.start()
    port = lay(keeper, folder, sshd.port, delay_s / 2).port
    keys = (line.split(" ", 1)[1] for line in sshd.known_hosts_lines().splitlines())
    sshd.known_hosts.write_text("".join(f"target {key}\n" for key in keys))
    config = folder / "ssh_config"
    config.write_text(sshd.stanza("far", "HostKeyAlias target", f"Port {port}"))
    os.environ[CONFIG_VARIABLE] = str(config)
    settings = {"host": "far", "port": None, "user": None, "python": sys.executable}
    SshSlurm(cluster, sshd).write_profile(Path(os.environ["JUPYTER_CONFIG_DIR"]), **settings)
    assert connect().connect(wait_s=30.0).state is ConnectionState.OPEN
    ssh, control = ["ssh", "-F", str(config), "-o", "BatchMode=yes"], folder / "control"
    argv = [*ssh, "-M", "-N", "-S", str(control), "far"]
    keeper.start(argv, folder / "master.log", dict(os.environ))
    wait_until(control.exists, PATIENCE_S)
    return [*ssh, "-S", str(control), "far"]


@contextmanager
def running(name: str) -> Iterator[Kernel]:
    """Yield a kernel after its first cell; shut it down like Jupyter."""
    manager = KernelManager(kernel_name=name)
    manager.start_kernel()
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE_S)
        kernel = Kernel(manager, client)
        cell(kernel)
        yield kernel
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
        manager.cleanup_resources()


# --- one kernel against a local one -------------------------------------------------------------


def against_local(
    cluster: SlurmCluster, way: Sequence[str], rounds: int, outputs: int
) -> tuple[list[Row], list[tuple[str, str]]]:
    with running("python3") as near, running("far") as far, bare_path(cluster, way) as path:
        (job,) = kernel_jobs()
        assert not job.state.final
        cells = alternating(
            {
                "local cell": partial(seconds, partial(cell, near)),
                "cell in the job": partial(seconds, partial(cell, far)),
                "local completion": partial(seconds, partial(completion, near)),
                "completion in the job": partial(seconds, partial(completion, far)),
                "round trip to the node": partial(seconds, partial(echo, path)),
            },
            rounds,
        )
        outs = {}
        if outputs:
            ways = {
                f"local, {OUTPUT_MB} MB": partial(seconds, partial(output, near)),
                f"in the job, {OUTPUT_MB} MB": partial(seconds, partial(output, far)),
            }
            outs = alternating(ways, outputs)
    trip = median(cells["round trip to the node"])
    rows = [
        Row(
            f"{what} in the job",
            median(cells[f"{what} in the job"]) * 1000,
            "local one + round trip",
            (median(cells[f"local {what}"]) + trip) * 1000,
            MOST,
            "ms",
        )
        for what in ("cell", "completion")
    ]
    if outs:
        near_s, far_s = (median(taken) for taken in outs.values())
        rows.append(Row(f"{OUTPUT_MB} MB of output", far_s, "a local kernel", near_s, None))
    lines = [(name, f"{spread([s * 1000 for s in taken])} ms") for name, taken in cells.items()]
    lines += [(name, f"{spread(taken)} s") for name, taken in outs.items()]
    return rows, lines


def cell(kernel: Kernel) -> None:
    reply = kernel.run("1 + 1")
    kernel.messages.clear()
    assert reply.content["status"] == "ok", reply


def completion(kernel: Kernel) -> None:
    request = kernel.client.complete("pri")
    while True:
        reply = kernel.client.get_shell_msg(timeout=PATIENCE_S)
        if reply["parent_header"].get("msg_id") == request:
            assert "print" in reply["content"]["matches"], reply
            return


def output(kernel: Kernel) -> None:
    reply = kernel.run(OUTPUT)
    kernel.messages.clear()
    assert reply.content["status"] == "ok", reply.content
    assert len(reply.text) == OUTPUT_MB * ((1 << 20) + 1), len(reply.text)


@contextmanager
def bare_path(cluster: SlurmCluster, way: Sequence[str]) -> Iterator[socket.socket]:
    """Yield a socket to an echo program on the job's node, run as a step of the job."""
    (job,) = kernel_jobs()
    assert job.slurm_id is not None
    version = parse_version(cluster.run("srun", "--version").stdout)
    program = [sys.executable, "-c", _ECHO]
    argv = srun.beside_argv(job.slurm_id, program, node=job.nodes[0], version=version)
    if way:
        conf = f"SLURM_CONF={cluster.conf}"
        argv = [*way, shlex.join(["env", conf, *argv])]
    near, far = socket.socketpair()
    with closing(near):
        with far:
            ends = far.fileno()
            step = subprocess.Popen(argv, stdin=ends, stdout=ends, env=cluster.env)
        assert near.recv(1) == b"!"
        yield near
    step.wait(30)


def echo(path: socket.socket) -> None:
    path.send(b"x")
    assert path.recv(1) == b"x"


def kernel_jobs() -> list[Job]:
    return [job for job in connect().jobs() if job.kind is JobKind.KERNEL and not job.state.final]


# --- many at once -------------------------------------------------------------------------------


def at_once(cluster: SlurmCluster, count: int, folder: Path) -> list[tuple[str, str]]:
    """Start all kernels, run a cell in each, and shut all down, as at the start of a course."""
    lines = []
    for name, where in (("python3", "local"), ("many", "in jobs")):
        before, asked = dict(connect().status().commands), requests(cluster)
        with ExitStack() as stack:
            started_s = seconds(partial(start_all, name, count, folder, stack))
            here = len(ours())
            ended_s = time.perf_counter()
        ended_s = time.perf_counter() - ended_s
        lines += [
            (f"{count} {where}: started, a cell each", f"{started_s:.1f} s"),
            (f"{count} {where}: shut down", f"{ended_s:.1f} s"),
        ]
        if name == "python3":
            continue
        wait_until(lambda: not kernel_jobs(), PATIENCE_S)
        wait_until(lambda: not ours(), PATIENCE_S)
        commands = difference(before, connect().status().commands)
        lines += [
            (f"{count} {where}: processes of Slurm's commands meanwhile", str(here)),
            (f"{count} {where}: commands run", counts_text(commands)),
            (
                f"{count} {where}: requests to slurmctld",
                counts_text(difference(asked, requests(cluster))),
            ),
        ]
    return lines


def start_all(name: str, count: int, folder: Path, stack: ExitStack) -> None:
    # With so many TCP ports, another program could take a port before its kernel binds it.
    managers = [
        KernelManager(kernel_name=name, transport="ipc", ip=str(folder / f"{name}{i}"))
        for i in range(count)
    ]
    for manager in managers:
        manager.start_kernel()
        stack.callback(manager.cleanup_resources)
        stack.callback(manager.shutdown_kernel)
    kernels = []
    for manager in managers:
        client = manager.blocking_client()
        client.start_channels()
        stack.callback(client.stop_channels)
        client.wait_for_ready(timeout=PATIENCE_S)
        kernels.append(Kernel(manager, client))
    for kernel in kernels:
        cell(kernel)


def ours() -> list[psutil.Process]:
    """Return the Slurm commands that the agent runs. On other clusters, these commands would run on
    a login node."""
    agent = psutil.Process(connect().status().pid)
    names = {"srun", "squeue", "sbatch", "scancel", "sacct"}
    return [one for one in agent.children(recursive=True) if named(one) in names]


def named(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


def requests(cluster: SlurmCluster) -> dict[str, int]:
    """Return slurmctld's request counts by kind."""
    return {kind: int(count) for kind, count in _ASKED.findall(cluster.run("sdiag").stdout)}


def difference(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    counts = {kind: count - before.get(kind, 0) for kind, count in after.items()}
    return {kind: count for kind, count in counts.items() if count}


def counts_text(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda one: -one[1])
    return ", ".join(f"{kind} {count}" for kind, count in ordered) or "none"


if __name__ == "__main__":
    sys.exit(main())
