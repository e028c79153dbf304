"""Connections and login questions, tunnels, file transfers."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from jupyter_slurm.wire.problem import Problem

__all__ = [
    "Behind",
    "Connection",
    "ConnectionState",
    "Question",
    "QuestionKind",
    "Transfer",
    "TransferState",
    "Tunnel",
]


class QuestionKind(StrEnum):
    # The host asks in its own words and gets the answer.
    SECRET = "secret"  # noqa: S105 - a password or code: hidden while typed, never stored
    TEXT = "text"  # the answer is visible while typed, e.g. a menu number
    # This machine asks in our words; the answer stays local.
    PASSPHRASE = "passphrase"  # noqa: S105 - of a private key: hidden, never stored
    TOUCH = "touch"  # a security key waits for a touch; it needs no answer
    HOST_KEY = "host-key"  # "yes" accepts the key and stores it; any other answer rejects it


class Question(Struct, frozen=True, kw_only=True):
    """A login question for the user, answered by `Api.answer`."""

    id: str
    cluster: str
    host: str
    """The host that asks, e.g. `alice@gateway.example.org`."""
    kind: QuestionKind
    prompt: str
    """The host's words, or ours for a passphrase or a host key."""
    instruction: str = ""
    """The host's words before the prompt; for a host key, its type and fingerprint."""
    names_a_key: bool = False
    """The host's words mention a passphrase or a private key. Hosts never need these, so the front
    end shows a warning."""
    refused: bool = False
    """The previous answer was wrong. The front end reports this error."""


class ConnectionState(StrEnum):
    LOCAL = "local"  # the cluster is this machine
    CLOSED = "closed"  # not needed yet, or closed by the user
    CONNECTING = "connecting"
    ASKING = "asking"  # waiting for the user's answer
    OPEN = "open"
    LOST = "lost"  # reconnects automatically
    LOGIN_NEEDED = "login-needed"  # reconnects when the user logs in again


class Connection(Struct, frozen=True, kw_only=True):
    """The state of the connection to a cluster."""

    cluster: str
    state: ConnectionState
    since_s: float
    hosts: tuple[str, ...] = ()
    """`user@host` of each hop, with the cluster last."""
    question: Question | None = None
    """The question for this caller; None while another client answers it."""
    problem: Problem | None = None
    """The reason for the states LOST, LOGIN_NEEDED and CLOSED."""
    round_trip_s: float | None = None


class Tunnel(Struct, frozen=True, kw_only=True):
    """A local port, on both loopbacks, forwarded to `host:port` as the cluster sees it. If `port`
    is 0, `host` is the path of a Unix socket."""

    id: str
    cluster: str
    host: str
    port: int
    local_port: int
    route: Literal["direct", "relay"]
    """`direct` connects from the login node. `relay` connects through a relay in the job's
    allocation or on the login node."""
    job_id: str | None = None
    connections: int = 0
    """The number of open connections."""
    problem: Problem | None = None
    """The reason why new connections fail."""


class TransferState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


class Behind(Struct, frozen=True, kw_only=True):
    """Files that a transfer did not copy."""

    count: int
    reasons: dict[str, str]
    """The reason, as a sentence, for each of the first few files."""


class Transfer(Struct, frozen=True, kw_only=True):
    """A transfer of files between this machine and a cluster."""

    id: str
    cluster: str
    direction: Literal["push", "pull"]
    local: str
    remote: str
    state: TransferState
    files: int | None = None
    """The number of files to send; None if unknown."""
    bytes: int | None = None
    files_done: int = 0
    bytes_done: int = 0
    files_same: int = 0
    """The number of files already equal on both sides."""
    failed: Behind | None = None
    """Files that did not arrive; the transfer is then FAILED."""
    left_out: Behind | None = None
    """Files that a transfer never sends, e.g. sockets, and links to targets outside the folder."""
    began_s: float
    ended_s: float | None = None
    problem: Problem | None = None
    """The reason for the state FAILED; its detail names the files."""
