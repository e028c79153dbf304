"""The remote half of an Api in memory: a login with scripted questions, tunnels, transfers.

Tests of front ends give the hosts' questions (`ask`) and the right answers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from jupyter_slurm.errors import ForwardError, LoginError, LoginNeededError, NotFoundError
from jupyter_slurm.wire import (
    Connection,
    ConnectionState,
    Question,
    QuestionKind,
    Transfer,
    TransferState,
    Tunnel,
)

HOST = "alice@gateway.example.org"


@dataclass
class Asked:
    """A question of a login. It is repeated, up to three times, until the answer is `right`."""

    kind: QuestionKind
    prompt: str
    right: str
    host: str = HOST
    instruction: str = ""


class FarSide:
    """The connection. If `needed`, calls to the cluster raise LoginNeededError until a login."""

    def __init__(self) -> None:
        self.script: list[Asked] = []
        self.needed = False
        self.given: list[str | None] = []
        """All answers, in order."""
        self.callers: list[str] = []
        """The callers of `connect`, in order."""
        self.steps: list[dict[str, Any]] = []
        """The changes of a transfer at each request for its state."""
        self.targets: list[tuple[object, ...]] = []
        """The arguments of each call of `forward`, `push`, `pull` and `fetch`."""
        self.answered_elsewhere: Callable[[], None] | None = None
        """Called while a caller waits for an answer in another window."""
        self._owner: str | None = None
        self._at = self._tries = 0
        self._refused = False
        self._transfers: dict[str, Transfer] = {}
        self._tunnels: dict[str, Tunnel] = {}
        self._far_lock = threading.Lock()

    def need_login(self, *script: Asked) -> None:
        self.script, self.needed = list(script), True

    def far(self) -> None:
        """Raise LoginNeededError if a login is needed. Each call to the cluster does this first."""
        if self.needed:
            raise LoginNeededError("The connection to fake needs a login.", hint="%slurm login")

    # --- Api ---

    def connect(
        self, cluster: str | None = None, caller: str = "", wait_s: float = 0.0
    ) -> Connection:
        self.callers.append(caller)
        if not self.needed:
            return self._seen(cluster, ConnectionState.OPEN)
        if not self.script:
            self.needed = False
            return self._seen(cluster, ConnectionState.OPEN)
        if self._owner not in (None, caller):
            if self.answered_elsewhere is not None:
                self.answered_elsewhere()
            return self._seen(cluster, ConnectionState.ASKING)
        self._owner = caller
        return self._asking(cluster)

    def other_window_asks(self) -> None:
        """Start the login as another caller."""
        self._owner = "another window"

    def other_window_is_done(self) -> None:
        self._owner, self.needed = None, False

    def answer(self, question_id: str, text: str | None, wait_s: float = 0.0) -> Connection:
        self.given.append(text)
        if text is None:
            self._reset()
            raise LoginError(f"Login to {HOST} cancelled.", hint="Log in again to continue.")
        asked = self.script[self._at]
        self._tries += 1
        self._refused = text != asked.right
        if text == asked.right:
            self._at, self._tries = self._at + 1, 0
        elif self._tries == 3:
            self._reset()
            raise LoginError(f"{asked.host} rejected the login.", detail="Permission denied")
        if self._at == len(self.script):
            self._reset()
            self.needed = False
            return self._seen(None, ConnectionState.OPEN)
        return self._asking(None)

    def disconnect(self, cluster: str | None = None) -> Connection:
        self.needed = True
        return self._seen(cluster, ConnectionState.CLOSED)

    def connections(self) -> list[Connection]:
        state = ConnectionState.LOGIN_NEEDED if self.needed else ConnectionState.OPEN
        here = Connection(cluster="here", state=ConnectionState.LOCAL, since_s=time.time())
        return [self._seen(None, state), here]

    def forward(
        self,
        host: str,
        port: int,
        cluster: str | None = None,
        job_id: str | None = None,
        local_port: int = 0,
    ) -> Tunnel:
        self.far()
        self.targets.append((host, port, cluster, job_id, local_port))
        if host == "nowhere":
            raise ForwardError(f"{host}:{port} cannot be reached.")
        tunnel = Tunnel(
            id=f"t{len(self._tunnels) + 1}",
            cluster=cluster or "fake",
            host=host,
            port=port,
            local_port=local_port or 40_000 + len(self._tunnels),
            route="relay" if job_id else "direct",
            job_id=job_id,
        )
        self._tunnels[tunnel.id] = tunnel
        return tunnel

    def tunnels(self) -> list[Tunnel]:
        return list(self._tunnels.values())

    def close_tunnel(self, tunnel_id: str) -> None:
        if self._tunnels.pop(tunnel_id, None) is None:
            raise NotFoundError(f"Tunnel {tunnel_id} not found.")

    def push(
        self, local: str, remote: str, cluster: str | None = None, exclude: tuple[str, ...] = ()
    ) -> Transfer:
        self.far()
        self.targets.append(("push", local, remote, cluster, exclude))
        return self._began("push", local, remote, cluster)

    def pull(
        self, remote: str, local: str, cluster: str | None = None, exclude: tuple[str, ...] = ()
    ) -> Transfer:
        self.far()
        self.targets.append(("pull", remote, local, cluster, exclude))
        return self._began("pull", local, remote, cluster)

    def fetch(self, job_id: str) -> Transfer:
        self.far()
        self.targets.append(("fetch", job_id))
        return self._began("pull", "/here/results", f"/jobs/{job_id}", None)

    def transfer(self, transfer_id: str, wait_s: float = 0.0) -> Transfer:
        with self._far_lock:
            before = self._transfers[transfer_id]
            change = {"state": TransferState.DONE, "ended_s": time.time()}
            if before.state is TransferState.RUNNING:
                change = self.steps.pop(0) if self.steps else change
                self._transfers[transfer_id] = msgspec.structs.replace(before, **change)
            return self._transfers[transfer_id]

    def stop_transfer(self, transfer_id: str) -> Transfer:
        with self._far_lock:
            stopped = msgspec.structs.replace(
                self._transfers[transfer_id], state=TransferState.STOPPED, ended_s=time.time()
            )
            self._transfers[transfer_id] = stopped
            return stopped

    # --- internal ---

    def _began(self, direction: Any, local: str, remote: str, cluster: str | None) -> Transfer:
        transfer = Transfer(
            id=f"x{len(self._transfers) + 1}",
            cluster=cluster or "fake",
            direction=direction,
            local=local,
            remote=remote,
            state=TransferState.RUNNING,
            began_s=time.time(),
        )
        self._transfers[transfer.id] = transfer
        return transfer

    def _asking(self, cluster: str | None) -> Connection:
        asked = self.script[self._at]
        question = Question(
            id=f"q{self._at}.{self._tries}",
            cluster=cluster or "fake",
            host=asked.host,
            kind=asked.kind,
            prompt=asked.prompt,
            instruction=asked.instruction,
            refused=self._refused,
        )
        return msgspec.structs.replace(
            self._seen(cluster, ConnectionState.ASKING), question=question
        )

    def _seen(self, cluster: str | None, state: ConnectionState) -> Connection:
        return Connection(
            cluster=cluster or "fake",
            state=state,
            since_s=time.time(),
            hosts=(HOST, "alice@login1"),
            round_trip_s=0.0123,
        )

    def _reset(self) -> None:
        self._owner, self._at, self._tries = None, 0, 0
