"""Put an agent together (lock, log, service, loop) and take it apart; no life cycle of its own.

The order matters: the lock before the service, since one store must never have two services.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

from jupyter_slurm import core_dumps
from jupyter_slurm.agent.app import END_S, Agent, AgentService
from jupyter_slurm.agent.instance_lock import InstanceLock, take
from jupyter_slurm.agent.log import LogFile, open_log
from jupyter_slurm.agent.place import log_path, socket_path
from jupyter_slurm.errors import JupyterSlurmError

_log = logging.getLogger(__name__)


def run(
    path: Path | None, make_service: Callable[[], AgentService], ready: Callable[[], None] | None
) -> int:
    """Serve the socket `path` (None: the user's) until the end; return the exit code.

    With `ready` the process is detached: once clients can connect, it calls `ready`, and its stdout
    and stderr go to the log.
    """
    core_dumps.refuse()  # the agent's memory holds keys and the answers at logins
    try:
        log_file = open_log(log_path())
        instance_lock = take(path or socket_path(), wait_s=END_S)
        if instance_lock is None:
            return 0
        orderly = _serve(instance_lock, make_service, _announcer(log_file, ready))
    except JupyterSlurmError as exc:
        _log.error("the agent could not start: %s", exc)
        print(exc, file=sys.stderr)  # noqa: T201 - the starter's client shows it to its user
        return 1
    except Exception:
        _log.exception("the agent failed")
        raise
    if not orderly:
        # Python would wait for the threads of calls that do not return, perhaps for ever.
        logging.shutdown()
        os._exit(0)
    return 0


def _serve(
    instance_lock: InstanceLock, make_service: Callable[[], AgentService], ready: Callable[[], None]
) -> bool:
    service = make_service()
    try:
        return asyncio.run(Agent(service, instance_lock, log_path()).serve(ready))
    except BaseException:
        service.close()  # its threads would keep the process
        raise


def _announcer(log_file: LogFile, ready: Callable[[], None] | None) -> Callable[[], None]:
    def announce() -> None:
        if ready is not None:
            log_file.hold_stdio()
            ready()

    return announce
