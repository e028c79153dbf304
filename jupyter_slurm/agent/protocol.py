"""The protocol between an agent and its clients: the calls, their JSON and the version handshake.

Both sides derive the calls from the annotations of `api.Api`. Kernels import this module, so it
does no I/O and does not import tornado.

A call is `POST /v1/<name>` with a JSON object of the method's keyword arguments. The answer is the
return value with status 200, or a `Problem` with the error's status. `GET /v1/hello` and `POST
/v1/retire` never change, so that agents and clients of all versions understand them.
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
"""The protocol's version, incremented if older clients could misunderstand an answer."""

PREFIX = "/v1/"
KERNEL = "kernel"
"""The path for a kernel's stream, which returns a socket instead of a value."""
UPGRADED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: kernel\r\n\r\n"
MAX_BODY_BYTES = 64 * 1024 * 1024
"""The maximum size of a request, and so of a cell. Clients send variables as files."""
NOT_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors for foreign JSON that is malformed, is not UTF-8, or is nested too deeply."""

LONGEST_WAIT_S = 60.0
"""The maximum time that a call waits. The limit also ends calls whose caller has disconnected."""


class KernelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a request for a kernel's stream."""

    job_id: str


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of the agent that answers."""

    version: str
    protocol: int
    pid: int
    socket: str


@functools.cache
def version() -> str:
    """Return the version of this package; "0" if it is not installed."""
    from importlib import metadata  # noqa: PLC0415 - slow, and needed only when connecting

    try:
        return metadata.version("jupyter-slurm")
    except metadata.PackageNotFoundError:
        return "0"


def release(text: str) -> tuple[int, ...]:
    """Return the numbers of a version for comparison, without pre-release and local parts.

    >>> release("0.12.1") > release("0.9.0.dev1")
    True
    """
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(number) for number in match[0].split(".")) if match else ()


ONCE = frozenset(
    "cancel control_jobs requeue extend command make_folder rename_file remove_file".split()
)
"""Calls that clients do not repeat after a lost answer, because a second call may have a different
effect. All other calls are idempotent: `submit` checks the spec's ID, `answer` checks the
question's ID, and transfers skip unchanged files."""


def may_be_done(name: str, gone: Exception) -> AgentError:
    """Return the error for a lost answer of a call in `ONCE`."""
    return AgentError(
        f"The connection dropped during {name}, which may have succeeded.",
        hint="Check the state before you try again.",
        detail=repr(gone),
    )


def retiring() -> Problem:
    """Return the answer of an agent that is exiting. Clients then ask the next agent."""
    return Problem(code=AgentError.code, message="The agent is exiting.", transient=True)


@dataclass(frozen=True)
class Call:
    """The encoding of one method of `Api`."""

    name: str
    arguments: type[msgspec.Struct]
    """Parameters as fields, with types and defaults."""
    returns: Any
    """The return annotation."""

    def pack(self, named: Mapping[str, object]) -> bytes:
        """Return the request's body. Raise RequestError if an argument cannot be encoded."""
        try:
            body = msgspec.json.encode(named)
        except (UnicodeEncodeError, TypeError, msgspec.MsgspecError) as exc:
            raise RequestError(
                f"Cannot send the arguments of {self.name}: {exc}.",
                hint="Use valid Unicode, without lone surrogates.",
            ) from exc
        if len(body) > MAX_BODY_BYTES:
            raise RequestError(
                f"{self.name} would send {len(body) / 2**20:.0f} MiB; the agent accepts at most "
                f"{MAX_BODY_BYTES / 2**20:.0f} MiB.",
                hint="Put large data into variables or files instead of the cell's text.",
            )
        return body

    def unpack(self, body: bytes) -> dict[str, object]:
        """Return the keyword arguments. Raise a RequestError that names an invalid, missing or
        unknown argument."""
        try:
            given = msgspec.json.decode(body or b"{}", type=self.arguments)
        except NOT_JSON as exc:
            raise RequestError(f"{self.name}: {exc}.") from exc
        named: dict[str, Any] = {name: getattr(given, name) for name in given.__struct_fields__}
        if "wait_s" in named:
            named["wait_s"] = min(named["wait_s"], LONGEST_WAIT_S)
        return named

    def unpack_answer(self, status: int, answer: bytes) -> Any:
        """Return the method's return value or raise its error. Raise AgentError if this version
        does not understand the answer."""
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
    """Return the error in an answer, or an AgentError if the answer is not a Problem."""
    try:
        return from_problem(msgspec.json.decode(answer, type=Problem))
    except msgspec.MsgspecError as exc:
        return _not_understood(name, status, exc)


def _not_understood(name: str, status: int, exc: Exception) -> AgentError:
    return AgentError(
        f"Cannot read the agent's answer to {name} (status {status}): {exc}.",
        hint="If jupyter-slurm was just updated, restart the kernel.",
    )


def body_of(error: JupyterSlurmError) -> bytes:
    """Encode an error as the body of an answer."""
    return msgspec.json.encode(error.problem())
