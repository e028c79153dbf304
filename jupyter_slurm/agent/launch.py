"""The start of the agent by a client that does not find an agent. A lock on `agent.starting` lets
only one of several clients start an agent. If two clients nevertheless start an agent, the agent's
own lock allows only one.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from jupyter_slurm import places
from jupyter_slurm.agent.place import log_path
from jupyter_slurm.errors import AgentError

COMMAND = (sys.executable, "-m", "jupyter_slurm.agent")

_LOG_TAIL_BYTES = 2000

_NAMES = (
    "HOME|USER|LOGNAME|SHELL|PATH|LANG|LANGUAGE|LC_.*|TZ|TMPDIR|XDG_.*|SSH_AUTH_SOCK|SSH_SK_PROVIDER|"
    "KRB5.*|LD_LIBRARY_PATH|VIRTUAL_ENV|CONDA_PREFIX|JUPYTER_.*|SLURM_BITSTR_LEN|SLURM_TIME_FORMAT"
)
_KEPT_WITHOUT_PYTHONS = re.compile(_NAMES)
"""Variables to keep for the agent of a client that ignores PYTHON… variables (`python -E`). The
client's PYTHON… variables may belong to another Python."""
_KEPT = re.compile(f"{_NAMES}|PYTHON.*")
_SECRET = re.compile("TOKEN|PASSWORD|SECRET|COOKIE")
_MEMORY = {"MALLOC_ARENA_MAX": "2"}
"""A limit on glibc's per-thread heaps, which keep unused memory in a long-lived process
(mallopt(3), M_ARENA_MAX). Under mixed load over SSH the agent grew by 13 MiB in 72 s. With one heap
it grew by only 2 MiB in 44 s."""


def start(command: Sequence[str], socket: Path, timeout_s: float) -> None:
    """Start an agent, or return at once if another client is starting an agent. Raise AgentError,
    with the agent's output, if the agent does not start."""
    places.private_dir(socket.parent)
    with _starter(socket.with_name("agent.starting")) as mine:
        if mine:
            _run([*command, "--detach", "--socket", os.fspath(socket)], timeout_s)


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the agent's environment, without tokens and without variables of the client's
    notebook, job or server.

    >>> environment({"HOME": "/home/ada", "JPY_PARENT_PID": "7", "JUPYTERHUB_API_TOKEN": "x"})
    {'HOME': '/home/ada'}
    """
    kept = _KEPT_WITHOUT_PYTHONS if sys.flags.ignore_environment else _KEPT
    return {
        name: value
        for name, value in variables.items()
        if kept.fullmatch(name) and not _SECRET.search(name)
    }


@contextmanager
def _starter(path: Path) -> Iterator[bool]:
    """Yield whether this client starts the agent."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield _lock(fd)
    finally:
        os.close(fd)


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # no locks on this file system; the agent reports that
        return True
    return True


def _run(argv: list[str], timeout_s: float) -> None:
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd="/",
            env=environment(os.environ) | _MEMORY | _python_path(),
            start_new_session=True,  # interrupting the notebook must not interrupt the agent
            timeout=timeout_s,
            check=False,
        )
    except OSError as exc:
        raise AgentError(f"Cannot run the agent's program {argv[0]}: {exc.strerror}.") from exc
    except subprocess.TimeoutExpired as exc:
        raise AgentError(
            f"The agent did not start within {timeout_s:.0f} s.",
            hint=f"See the agent's log: {log_path()}",
            detail=_log_tail(),
        ) from exc
    if done.returncode != 0:
        raise AgentError(
            "The agent did not start.",
            hint=f"See the agent's log: {log_path()}",
            detail=done.stderr.decode(errors="replace")[-_LOG_TAIL_BYTES:] or _log_tail(),
        )


def _python_path() -> dict[str, str]:
    """Return the variables that let the agent import this package from a checkout; {} if the
    package is installed."""
    root = Path(__file__).parents[2]
    if root.name in {"site-packages", "dist-packages"}:
        return {}
    others = None if sys.flags.ignore_environment else os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": f"{root}{os.pathsep}{others}" if others else str(root)}


def _log_tail() -> str | None:
    try:
        return log_path().read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")
    except OSError:
        return None
