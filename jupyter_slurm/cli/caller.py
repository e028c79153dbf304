"""The terminal as a `Caller` of commands, with its default cluster, prompts and logins."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar

from jupyter_slurm.api import Api
from jupyter_slurm.cli.say import note, remark
from jupyter_slurm.commands.line import Request
from jupyter_slurm.commands.sessions import Owner
from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import Connection, Job, JobSpec

_R = TypeVar("_R")


class TerminalCaller:
    """A terminal. At the first call, it connects to the agent or starts it."""

    notebook: str | None = None
    owner = Owner(None)
    is_saved = False

    def __init__(self, connect: Callable[[], Api] | None = None) -> None:
        self.used_session: Job | None = None
        self._connect = connect

    @cached_property
    def api(self) -> Api:
        # Help and invalid commands do not need the agent.
        from jupyter_slurm import client  # noqa: PLC0415
        from jupyter_slurm.client.login import TerminalPrompter  # noqa: PLC0415

        return client.interactive((self._connect or client.connect)(), TerminalPrompter())

    @property
    def cluster(self) -> str | None:
        return os.environ.get("JUPYTER_SLURM_CLUSTER") or None

    @property
    def used_cluster(self) -> str | None:
        return self.cluster

    def with_defaults(self, words: Sequence[str]) -> list[str]:
        return list(words)

    def call(self, call: Callable[[], _R], cluster: str | None) -> _R:
        del cluster
        return call()

    def submit(self, spec: JobSpec, request: Request) -> Job:
        from jupyter_slurm.client.login import LoginDeclined  # noqa: PLC0415

        del request
        try:
            return self.api.submit(spec)
        except LoginDeclined:
            raise
        except KeyboardInterrupt:
            note("\n")
            remark(f"Run `jupyter slurm why {spec.id}` to check whether the job was submitted.")
            raise

    def log_in(self, cluster: str | None) -> Connection:
        from jupyter_slurm.client.login import TerminalPrompter, log_in  # noqa: PLC0415

        return log_in(self.api, cluster, TerminalPrompter(), secrets.token_hex(8))

    def confirm(self, consequence: str, question: str) -> bool:
        from jupyter_slurm.cli.dialogue import Dialogue  # noqa: PLC0415

        if not sys.stdin.isatty():
            raise RequestError(consequence, hint="Use --yes to do it anyway.")
        return Dialogue(asks=True).wanted(f"{consequence} {question}")

    def remove_pages(self, jobs: Sequence[Job]) -> None:
        from jupyter_slurm.client import lab_page  # noqa: PLC0415

        lab_page.remove_old(jobs)

    def warn(self, text: str) -> None:
        remark(text)
