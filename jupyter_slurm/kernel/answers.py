"""Messages that the proxy sends in the kernel's place: replies, states, errors and displays.

As with a kernel's own messages, the parent of each message is the request that it answers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jupyter_slurm.kernel.messages import PROTOCOL, Message, made

Send = Callable[[str, Message], None]
"""A function that sends a message on a channel."""

LANGUAGE = {
    "name": "python",
    "version": "{}.{}.{}".format(*sys.version_info[:3]),
    "mimetype": "text/x-python",
    "codemirror_mode": {"name": "ipython", "version": 3},
    "pygments_lexer": "ipython3",
    "nbconvert_exporter": "python",
    "file_extension": ".py",
}


class Answers:
    def __init__(self, send: Send, session: str) -> None:
        self._send = send
        self._session = session

    def reply(self, channel: str, request: Message, content: Mapping[str, Any]) -> None:
        kind = request.kind.removesuffix("_request") + "_reply"
        message = made(
            kind,
            content,
            parent=request.header_bytes,
            session=self._session,
            identities=request.identities,
        )
        self._send(channel, message)

    def publish(self, kind: str, content: Mapping[str, Any], request: Message | None) -> None:
        """Publish a message on iopub. `request` is None if the message does not belong to a
        request."""
        topic = f"kernel.{self._session}.{kind}".encode()
        parent = b"{}" if request is None else request.header_bytes
        self._send(
            "iopub",
            made(kind, content, parent=parent, session=self._session, identities=(topic,)),
        )

    def state(self, state: str, request: Message | None = None) -> None:
        """Publish the state `starting`, `busy`, `idle` or `restarting`."""
        self.publish("status", {"execution_state": state}, request)

    def around(self, channel: str, request: Message, content: Mapping[str, Any]) -> None:
        """Send a reply between the states `busy` and `idle`, as kernels do for every request."""
        self.state("busy", request)
        self.reply(channel, request, content)
        self.state("idle", request)

    def failed(
        self, channel: str, request: Message, ename: str, evalue: str, advice: str | None = None
    ) -> None:
        """Answer a request with an error. If the request runs code, also show the error in the
        cell."""
        lines = [f"\x1b[0;31m{ename}\x1b[0m: {evalue}", *([advice] if advice else [])]
        error: dict[str, Any] = {"ename": ename, "evalue": evalue, "traceback": lines}
        if request.kind == "execute_request":
            self.publish("error", error, request)
            error |= {"execution_count": 0, "user_expressions": {}, "payload": []}
        self.reply(channel, request, {"status": "error", **error})
        self.state("idle", request)

    def aborted(self, channel: str, request: Message) -> None:
        """Answer that a request was aborted because an earlier request failed."""
        content: dict[str, Any] = {"status": "aborted"}
        if request.kind == "execute_request":
            content |= {"execution_count": 0, "user_expressions": {}, "payload": []}
        self.reply(channel, request, content)
        self.state("idle", request)

    def display(
        self, data: Mapping[str, Any], request: Message, display_id: str, *, update: bool
    ) -> None:
        content = {"data": data, "metadata": {}, "transient": {"display_id": display_id}}
        self.publish("update_display_data" if update else "display_data", content, request)


def own_info() -> dict[str, Any]:
    """Return a kernel_info to report until the remote kernel sends one."""
    return {
        "status": "ok",
        "protocol_version": PROTOCOL,
        "implementation": "ipython",
        "implementation_version": "8.0",
        "language_info": LANGUAGE,
        "banner": "A kernel in a Slurm job (jupyter-slurm)",
        "help_links": [],
        "debugger": False,
        "supported_features": [],
    }


def quick(request: Message, info: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the answer to a request that does not need the kernel; None if the request has to wait
    for the kernel."""
    content = request.content
    match request.kind:
        case "kernel_info_request":
            return dict(info)
        case "complete_request":
            at = content.get("cursor_pos", 0)
            return {
                "status": "ok",
                "matches": [],
                "cursor_start": at,
                "cursor_end": at,
                "metadata": {},
            }
        case "inspect_request":
            return {"status": "ok", "found": False, "data": {}, "metadata": {}}
        case "is_complete_request":
            return {"status": "unknown"}
        case "history_request":
            return {"status": "ok", "history": []}
        case "comm_info_request":
            return {"status": "ok", "comms": {}}
        # Let other debug requests wait: after a false reply, the debugger would never stop at a
        # breakpoint.
        case "debug_request" if content.get("command") == "debugInfo":
            return _debugger_off(content)
        case _:
            return None


def _debugger_off(content: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "response",
        "request_seq": content.get("seq", 0),
        "success": True,
        "command": "debugInfo",
        "body": {
            "isStarted": False,
            "hashMethod": "Murmur2",
            "hashSeed": 0,
            "tmpFilePrefix": f"/tmp/ipykernel_{os.getpid()}/",  # noqa: S108 - a name, no file
            "tmpFileSuffix": ".py",
            "breakpoints": [],
            "stoppedThreads": [],
            "richRendering": True,
            "exceptionPaths": [],
        },
    }


def runs_code(requests: Sequence[tuple[str, Message]]) -> list[tuple[str, Message]]:
    """Return the requests that run code."""
    return [one for one in requests if one[1].kind == "execute_request"]
