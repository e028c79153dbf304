"""A real ipykernel for tests, with a front end's client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

ROOT = Path(__file__).parents[2]
PATIENCE_S = 180.0

LOAD = """
%load_ext jupyter_slurm
"""

LOAD_FAKE = """
from pathlib import Path
from tests.magics.fake import FakeApi
%load_ext jupyter_slurm
api = FakeApi(Path({folder!r}))
get_ipython().magics_manager.registry["SlurmMagics"].state.agent = api
"""


@dataclass
class Reply:
    """A cell's reply, and its messages."""

    content: dict[str, Any]
    messages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(
            message["content"]["text"]
            for message in self.messages
            if message["msg_type"] == "stream"
        )

    def displays(self) -> list[dict[str, Any]]:
        return [message for message in self.messages if "display_data" in message["msg_type"]]


class Kernel:
    """A kernel that identifies cells by request ID and records all iopub messages."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager = manager
        self.client = client
        self.messages: list[dict[str, Any]] = []

    def run(self, code: str) -> Reply:
        return self.reply(self.start(code))

    def start(self, code: str) -> str:
        request: str = self.client.execute(code)
        return request

    def reply(self, request: str) -> Reply:
        """Wait until the cell has ended and all its messages have arrived."""
        self.until(lambda message: _is_idle(message) and _parent(message) == request)
        while True:
            reply = self.client.get_shell_msg(timeout=PATIENCE_S)
            if _parent(reply) == request:
                return Reply(reply["content"], [m for m in self.messages if _parent(m) == request])

    def until(self, what: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the first message that `what` accepts, past or future."""
        for message in self.messages:
            if what(message):
                return message
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            message = self.client.get_iopub_msg(timeout=PATIENCE_S)
            self.messages.append(message)
            if what(message):
                return message
        raise AssertionError("the message did not arrive")

    def until_card(self, state: str, request: str) -> dict[str, Any]:
        """Return the card of the cell `request` once it shows `state`. Its display ID names the
        cell: ipykernel 6 sends updates as messages of the latest cell."""
        return self.until(
            lambda m: (
                _display_id(m)
                in {_display_id(one) for one in self.messages if _parent(one) == request}
                and state in m["content"].get("data", {}).get("text/html", "")
            )
        )


def _display_id(message: dict[str, Any]) -> str | None:
    display_id: str | None = message["content"].get("transient", {}).get("display_id")
    return display_id


def _parent(message: dict[str, Any]) -> str | None:
    parent: str | None = message["parent_header"].get("msg_id")
    return parent


def _is_idle(message: dict[str, Any]) -> bool:
    idle: bool = message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"
    return idle


@contextmanager
def running_kernel(env: dict[str, str], folder: Path) -> Iterator[Kernel]:
    with TemporaryDirectory(prefix="kernel-") as sockets:
        # Another program can take Jupyter's chosen port before the kernel listens.
        manager = KernelManager(kernel_name="python3", transport="ipc", ip=f"{sockets}/k")
        manager.start_kernel(env={**env, "PYTHONPATH": str(ROOT)}, cwd=str(folder))
        client = manager.blocking_client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=PATIENCE_S)
            yield Kernel(manager, client)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
            manager.cleanup_resources()
