"""The way to a cluster: connections and their questions, tunnels, transfers of files."""

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
    # The host asks these two, in its own words, and gets the answer.
    SECRET = "secret"  # noqa: S105 - a password or code: hidden while typed, never kept
    TEXT = "text"  # visible while typed, e.g. the number of a menu's line
    # This machine asks these three, in our words, and keeps the answer to itself.
    PASSPHRASE = "passphrase"  # noqa: S105 - of a private key's file: hidden, never kept
    TOUCH = "touch"  # a security key waits to be touched; there is nothing to answer
    HOST_KEY = "host-key"  # "yes" accepts the key and remembers it, anything else refuses


class Question(Struct, frozen=True, kw_only=True):
    """What a login wants to know of a person; `Api.answer` takes the answer."""

    id: str
    cluster: str
    host: str
    """The asking host: `alice@gateway.example.org`."""
    kind: QuestionKind
    prompt: str
    """The host's own words, or ours for a passphrase or a host key."""
    instruction: str = ""
    """The host's words before the prompt; for a host key its type and fingerprint."""
    names_a_key: bool = False
    """Whether the host's words mention a passphrase or a private key, which no host needs: the
    front end that shows the question warns of that."""
    refused: bool = False
    """Whether the answer before was wrong: the front end that shows the question says so."""


class ConnectionState(StrEnum):
    LOCAL = "local"  # the cluster is this machine
    CLOSED = "closed"  # not needed yet, or closed by the user
    CONNECTING = "connecting"
    ASKING = "asking"  # the user has to answer
    OPEN = "open"
    LOST = "lost"  # it comes back by itself
    LOGIN_NEEDED = "login-needed"  # it comes back when the user logs in again


class Connection(Struct, frozen=True, kw_only=True):
    """The way to a cluster, as it is."""

    cluster: str
    state: ConnectionState
    since_s: float
    hosts: tuple[str, ...] = ()
    """`user@host` of each hop, the cluster's own last."""
    question: Question | None = None
    """The question for this caller; None while another client has it."""
    problem: Problem | None = None
    """Why it is LOST, LOGIN_NEEDED or CLOSED."""
    round_trip_s: float | None = None


class Tunnel(Struct, frozen=True, kw_only=True):
    """A port of this machine, on both loopbacks, that leads to `host:port` as the cluster sees it,
    or to the Unix socket whose path `host` is; `port` is then 0."""

    id: str
    cluster: str
    host: str
    port: int
    local_port: int
    route: Literal["direct", "relay"]
    """From the login node; by a relay inside the job's allocation, or on the login node."""
    job_id: str | None = None
    opened_s: float
    connections: int = 0
    """The number that is open now."""
    problem: Problem | None = None
    """Why new connections fail; None when they do not."""


class TransferState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


class Behind(Struct, frozen=True, kw_only=True):
    """Files that a transfer has not taken along."""

    count: int
    reasons: dict[str, str]
    """The first few files by name -> why, in a sentence."""


class Transfer(Struct, frozen=True, kw_only=True):
    """Files on their way between this machine and a cluster."""

    id: str
    cluster: str
    direction: Literal["push", "pull"]
    local: str
    remote: str
    state: TransferState
    files: int | None = None
    """The number of files to send, those that differ; None: not known yet."""
    bytes: int | None = None
    files_done: int = 0
    bytes_done: int = 0
    files_same: int = 0
    """The number of files not sent, since both sides have the same."""
    failed: Behind | None = None
    """The files that should have arrived and have not; they make the transfer FAILED."""
    left_out: Behind | None = None
    """The files not meant to travel: links that lead out of the folder, sockets."""
    began_s: float
    ended_s: float | None = None
    problem: Problem | None = None
    """Why it FAILED; the detail names the files that did."""
