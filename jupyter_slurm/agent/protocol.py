"""The protocol of an agent and its clients: the calls, their JSON, the version handshake.

Both sides derive every call from the annotations of `api.Api`, so they cannot drift apart. No I/O
and no sockets here, and no tornado: kernels import this module.

A call is `POST /v1/<name>` with a JSON object of the method's keyword arguments; the answer is the
method's return value with status 200, or a `Problem` with the error's own status. Beside the calls
there are `GET /v1/hello` and `POST /v1/retire`, which never change, so that agents and clients of
any two versions understand each other that far.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

import msgspec

from jupyter_slurm.api import Api
from jupyter_slurm.errors import AgentError, JupyterSlurmError, RequestError, from_problem
from jupyter_slurm.wire import Problem

PROTOCOL = 3
"""Raised whenever a client of the release before could misunderstand an answer."""

PREFIX = "/v1/"
KERNEL = "kernel"
"""The path of a kernel's stream: it returns a socket instead of a value."""
UPGRADED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: kernel\r\n\r\n"
MAX_BODY_BYTES = 64 * 1024 * 1024
"""Largest request, that is about the largest cell: variables travel as files."""
NOT_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors of decoding a sender's bytes: malformed JSON, invalid UTF-8, or endless nesting."""

LONGEST_WAIT_S = 60.0
"""The longest wait of a call; it returns then, as the caller may have hung up long ago."""


class KernelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of the request for the stream of a kernel."""

    job_id: str


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """The agent that answers at a socket."""

    version: str
    protocol: int
    pid: int
    socket: str


@functools.cache
def version() -> str:
    """Return the version of this package; "0" in a checkout that is not installed."""
    from importlib import metadata  # noqa: PLC0415 - slow, and needed only when connecting

    try:
        return metadata.version("jupyter-slurm")
    except metadata.PackageNotFoundError:
        return "0"


def release(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, to compare by; pre-release and local parts do not count.

    >>> release("0.12.1") > release("0.9.0.dev1")
    True
    """
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(number) for number in match[0].split(".")) if match else ()


ONCE = frozenset(
    "cancel steer_many requeue extend command make_folder rename_file remove_file".split()
)
"""The calls that clients do not repeat when the answer was lost: the agent may have done them, and
a second time would do something else. All others may be repeated: `submit` goes by the spec's id,
an answer by its question's, and a transfer does not send files again that are the same already."""


def may_be_done(name: str, gone: Exception) -> AgentError:
    """Return the error to raise if the answer of such a call was lost."""
    return AgentError(
        f"The answer to {name} was lost: it may have been done.",
        hint="Look how it stands before you ask again.",
        detail=repr(gone),
    )


def retiring() -> Problem:
    """Return the answer of an agent that is about to end: ask again, another one will answer."""
    return Problem(code=AgentError.code, message="The agent is about to end.", transient=True)


@dataclass(frozen=True)
class Call:
    """One method of `Api` as it goes over the wire."""

    name: str
    arguments: type[msgspec.Struct]
    """The parameters as fields, with their types and defaults."""
    returns: Any
    """The return annotation."""

    def pack(self, named: Mapping[str, object]) -> bytes:
        """Return the request's body. RequestError: something in it cannot travel."""
        try:
            body = msgspec.json.encode(named)
        except (UnicodeEncodeError, TypeError, msgspec.MsgspecError) as exc:
            raise RequestError(
                f"The arguments of {self.name} cannot be sent: {exc}.",
                hint="Text must be valid Unicode, without half surrogate pairs.",
            ) from exc
        if len(body) > MAX_BODY_BYTES:
            raise RequestError(
                f"{self.name} would send {len(body) / 2**20:.0f} MiB, and the agent takes "
                f"{MAX_BODY_BYTES / 2**20:.0f} MiB at most.",
                hint="Put large data into variables or files instead of the cell's text.",
            )
        return body

    def unpack(self, body: bytes) -> dict[str, object]:
        """Return the keyword arguments. RequestError: names a wrong, missing or unknown one."""
        try:
            given = msgspec.json.decode(body or b"{}", type=self.arguments)
        except NOT_JSON as exc:
            raise RequestError(f"{self.name}: {exc}.") from exc
        named: dict[str, Any] = {name: getattr(given, name) for name in given.__struct_fields__}
        if "wait_s" in named:
            named["wait_s"] = min(named["wait_s"], LONGEST_WAIT_S)
        return named

    def unpack_answer(self, status: int, answer: bytes) -> Any:
        """Return the method's return value, or raise its error.

        AgentError: the answer is not one that this version understands.
        """
        if status != 200:
            raise error_of(self.name, status, answer)
        try:
            return msgspec.json.decode(answer, type=self.returns)
        except msgspec.MsgspecError as exc:
            raise _not_understood(self.name, status, exc) from exc


@functools.cache
def calls() -> Mapping[str, Call]:
    """Return every call of `Api` by its name."""
    methods = inspect.getmembers(Api, inspect.isfunction)
    return {name: _call(name, method) for name, method in methods if not name.startswith("_")}


def _call(name: str, method: Any) -> Call:
    hints = get_type_hints(method)
    _, *parameters = inspect.signature(method).parameters.values()
    fields = [
        (each.name, hints[each.name])
        if each.default is each.empty
        else (each.name, hints[each.name], each.default)
        for each in parameters
    ]
    arguments = msgspec.defstruct(
        name, fields, frozen=True, kw_only=True, forbid_unknown_fields=True
    )
    return Call(name=name, arguments=arguments, returns=hints["return"])


def error_of(name: str, status: int, answer: bytes) -> JupyterSlurmError:
    """Return the error in an answer, or an AgentError if it has none."""
    try:
        return from_problem(msgspec.json.decode(answer, type=Problem))
    except msgspec.MsgspecError as exc:
        return _not_understood(name, status, exc)


def _not_understood(name: str, status: int, exc: Exception) -> AgentError:
    return AgentError(
        f"The agent's answer to {name} (status {status}) is not understood: {exc}.",
        hint="If jupyter-slurm was just installed anew, restart the kernel.",
    )


def body_of(error: JupyterSlurmError) -> bytes:
    """Return an error as the body of an answer."""
    return msgspec.json.encode(error.problem())
