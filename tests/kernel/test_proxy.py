"""A kernel's proxy without a job. The proxy itself answers a request that is too large."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_slurm.kernel import frames
from jupyter_slurm.kernel.messages import Message, made
from jupyter_slurm.kernel.proxy import Proxy
from jupyter_slurm.kernel.stream import KernelStream

NOBODY: Any = None


@pytest.fixture
def proxy_and_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[Proxy, list[tuple[str, Message]]]]:
    """Yield a proxy with a running kernel. Its clients' messages have at most 100,000 bytes."""
    monkeypatch.setattr(frames, "MESSAGE_MOST", 100_000)
    heard: list[tuple[str, Message]] = []
    channels: Any = SimpleNamespace(
        register=lambda _: None, send=lambda channel, message: heard.append((channel, message))
    )
    wakeup: Any = SimpleNamespace(fileno=lambda: 0)
    proxy = Proxy(channels, NOBODY, NOBODY, NOBODY, wakeup, "session", None)
    with closing(KernelStream(NOBODY, lambda: None)) as proxy._stream:
        proxy._up = True
        yield proxy, heard


def test_too_large_request_is_answered_at_once(
    proxy_and_heard: tuple[Proxy, list[tuple[str, Message]]],
) -> None:
    proxy, heard = proxy_and_heard
    proxy._take("shell", made("execute_request", {"code": "#" * 100_000}, session="user"))
    kinds = [(channel, message.kind) for channel, message in heard]
    assert kinds == [
        ("iopub", "status"),
        ("iopub", "error"),
        ("shell", "execute_reply"),
        ("iopub", "status"),
    ]
    reply = heard[2][1].content
    assert reply["ename"] == "TooLargeError"
    assert "The execute_request was not sent to the job's kernel" in reply["evalue"]
