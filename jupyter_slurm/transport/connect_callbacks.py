"""From ways to connect a socket that wait to ways that call back, and the other way round.

Nothing here knows where a socket is carried to, or over what.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future

from jupyter_slurm.errors import ForwardError, JupyterSlurmError

Answered = Callable[[JupyterSlurmError | None], None]
"""Called once, in any thread, and must not wait. None: the connection stands, and its socket has
got another owner; an error: it is as it was."""


_log = logging.getLogger(__name__)


def call_back(connect: Callable[[], None], answered: Answered) -> None:
    """Run `connect`, which waits, and raises where it fails, in a thread of its own."""

    def run() -> None:
        try:
            connect()
        except JupyterSlurmError as exc:
            answered(exc)
        except Exception as exc:  # noqa: BLE001 (nobody waits for an answer in vain)
            _log.exception("a connection stumbled")
            answered(ForwardError(f"The connection failed: {exc}."))
        else:
            answered(None)

    threading.Thread(target=run, name="connect", daemon=True).start()


def wait_for(connect: Callable[[Answered], None]) -> None:
    """Return when the connection stands; raise what it was answered."""
    answer: Future[JupyterSlurmError | None] = Future()
    connect(answer.set_result)
    error = answer.result()
    if error is not None:
        raise error
