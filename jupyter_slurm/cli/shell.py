"""The command `shell`: a terminal on a node, in a new allocation or in a running job.

The agent prepares the command (`srun --pty`, possibly through `ssh`), and this process executes it.
"""

from __future__ import annotations

import os
import signal
import sys

import msgspec

from jupyter_slurm.api import Api
from jupyter_slurm.cli.caller import TerminalCaller
from jupyter_slurm.cli.terminal import Terminal
from jupyter_slurm.commands.line import with_local_context
from jupyter_slurm.commands.parsing import Arguments
from jupyter_slurm.commands.shell import Shell, parse
from jupyter_slurm.errors import RequestError
from jupyter_slurm.job import until_ready
from jupyter_slurm.wire import Job, JobState, new_id

_TICK_S = 2.0


def shell(caller: TerminalCaller, args: Arguments) -> None:
    """Replace this process with the shell."""
    wanted = parse(args)
    argv = prepared(caller.api, wanted, wanted.request.cluster or caller.cluster)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these signals
        signal.signal(number, signal.SIG_DFL)
    os.execvp(argv[0], argv)  # noqa: S606 (argv from the agent)


def prepared(api: Api, wanted: Shell, cluster: str | None) -> list[str]:
    """Return the argv of the shell. Raise RequestError if stdin or stdout is not a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise RequestError(
            "A shell needs a terminal as stdin and stdout.",
            hint="Without a terminal, use `jupyter slurm submit FILE`.",
        )
    if wanted.job_id is not None:
        _wait_for(api, wanted.job_id)
        return api.shell_in_job(wanted.job_id, wanted.code, wanted.node)
    spec = with_local_context(wanted.spec(new_id()))
    return api.shell(msgspec.structs.replace(spec, cluster=cluster))


def _wait_for(api: Api, job_id: str) -> None:
    """Wait until the job runs or has ended; show its reason for waiting."""
    job = api.job(job_id)
    if job.state.final or _runs(job):
        return
    terminal = Terminal(sys.stdout, sys.stderr)
    try:
        terminal.progress(job)
        for chunk in until_ready(api, job, _runs, lambda _: _TICK_S):
            terminal.progress(chunk.job)
    finally:
        terminal.close()


def _runs(job: Job) -> bool:
    """Return whether a step can start in the job."""
    return bool(job.nodes) and job.state is not JobState.PENDING
