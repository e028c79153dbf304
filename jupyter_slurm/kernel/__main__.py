"""`python -m jupyter_slurm.kernel [JOB_OPTIONS] -f CONNECTION_FILE`: a kernel in a job.

The kernelspecs of `jupyter slurm kernel add` start this program. JOB_OPTIONS are the options of
`%%slurm` and `--idle TIME`.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import msgspec

from jupyter_slurm.client import AgentClient, connect
from jupyter_slurm.commands.arguments import job_spec, read_arguments
from jupyter_slurm.commands.line import with_local_context
from jupyter_slurm.commands.submitting import KERNEL_ADD
from jupyter_slurm.errors import JupyterSlurmError, RequestError
from jupyter_slurm.kernel import registry, spec
from jupyter_slurm.kernel.channels import Channels, read_connection_file
from jupyter_slurm.kernel.kernel_job import KernelJob
from jupyter_slurm.kernel.proxy import Proxy, Wakeup
from jupyter_slurm.kernel.registry import Kernel
from jupyter_slurm.wire import Job, JobSpec, KernelSpec, new_id


def main(words: Sequence[str]) -> int:
    """Run the kernel and return 0 once it has ended. If it cannot start, print an error and return
    1."""
    # Ignore Ctrl-C in Jupyter's terminal. Jupyter interrupts kernels with a message instead.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        asked, connection_file = _arguments(words)
        run(asked, connection_file)
    except JupyterSlurmError as exc:
        sys.stderr.write(f"jupyter-slurm: {exc}\n")
        return 1
    return 0


def run(words: tuple[str, ...], connection_file: Path) -> None:
    """Run the kernel until it ends. Raise ConfigError or RequestError if it cannot start."""
    began_s = time.time()
    asked = spec.stored(words)
    cluster = spec.parse(asked.words).cluster
    notebook = os.environ.get("JPY_SESSION_NAME") or None
    session = uuid.uuid4().hex
    channels = Channels(read_connection_file(connection_file), session)
    record = registry.opened(connection_file, asked.identity, notebook, _notebook_of)
    wakeup = Wakeup()
    client: AgentClient | None = None

    def make_spec(job_id: str) -> JobSpec:
        wanted = read_arguments(KERNEL_ADD, asked.words)
        path = notebook and connect().notebook_path(notebook, began_s)
        _, made = job_spec(KernelSpec, wanted, job_id=job_id, notebook=path)
        return msgspec.structs.replace(with_local_context(made), cluster=cluster)

    def new_kernel() -> Kernel:
        return Kernel(job_id=new_id(), words=asked.identity, notebook=notebook)

    def open_stream(job: Job) -> socket.socket:
        nonlocal client
        client = client or connect()
        return client.kernel(job.id)

    kernel_job = KernelJob(connect, record, make_spec, new_kernel, wakeup)
    proxy = Proxy(channels, kernel_job, record, open_stream, wakeup, session, cluster)
    if notebook is None:
        # VS Code ends kernels with a signal and does not name a notebook, so a later process cannot
        # find this kernel by its notebook. Jupyter sends a shutdown_request before the signal.
        signal.signal(signal.SIGTERM, lambda *_: proxy.terminate())
    proxy.run()


def _notebook_of(kernel: Kernel) -> str | None:
    """Return the current path of the kernel's notebook from its job, or the recorded path if the
    agent does not answer; None without a notebook."""
    if kernel.notebook is None:
        return None
    try:
        return connect().job(kernel.job_id).notebook
    except JupyterSlurmError:  # the job is unknown, or the agent does not start
        return kernel.notebook


def _arguments(words: Sequence[str]) -> tuple[tuple[str, ...], Path]:
    if len(words) < 2 or words[-2] != "-f":
        raise RequestError(
            "This program is a kernel and needs a connection file from Jupyter.",
            hint="Add a kernel to Jupyter with `jupyter slurm kernel add`.",
        )
    return tuple(words[:-2]), Path(words[-1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
