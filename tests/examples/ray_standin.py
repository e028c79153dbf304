"""A stand-in for Ray, which is too large for a test's image: the two ways of `ray start` that the
example uses, and the calls that its program makes. None of Ray's code.

Nodes are processes with names; tasks go to them in turn, one at a time to each. Who speaks to them
knows the token that the environment names, which Ray asks for since 2.52.
"""

from __future__ import annotations

import argparse
import itertools
import marshal
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from threading import Lock, Thread
from types import FunctionType
from typing import Any

_WAYS: list[Callable[[], Connection]] = []


# --- what a program calls


def init(address: str) -> None:
    _WAYS.append(lambda: _reached(address))


def nodes() -> list[str]:
    found: list[str] = _call("nodes")
    return found


class remote:
    _pool = ThreadPoolExecutor(16)

    def __init__(self, *, num_cpus: int) -> None:
        self._code = b""

    def __call__(self, function: FunctionType) -> remote:
        self._code = marshal.dumps(function.__code__)
        return self

    def remote(self, *args: object) -> Future[Any]:
        return self._pool.submit(_call, "task", self._code, args)


def get(futures: list[Future[Any]]) -> list[Any]:
    return [one.result() for one in futures]


def _call(*question: object) -> Any:
    with _WAYS[-1]() as way:
        way.send(question)
        return way.recv()


def _reached(address: str) -> Connection:
    host, port = address.rsplit(":", 1)
    return Client((host, int(port)), authkey=_token())


def _token() -> bytes:
    """Of a file that nobody else can read: a stricter rule than Ray's own."""
    assert os.environ["RAY_AUTH_MODE"] == "token"
    file = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
    assert file.stat().st_mode & 0o077 == 0
    return file.read_bytes()


# --- ray start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["start"])
    parser.add_argument("--head", action="store_true")
    parser.add_argument("--block", action="store_true", required=True)
    parser.add_argument("--num-cpus", type=int, required=True)
    parser.add_argument("--node-ip-address")
    parser.add_argument("--port")
    parser.add_argument("--address")
    asked = parser.parse_args()
    address = f"{asked.node_ip_address}:{asked.port}" if asked.head else asked.address
    if asked.head:
        head = _Head((asked.node_ip_address, int(asked.port)), _token())
        Thread(target=head.serve, daemon=True).start()
    with _reached(address) as way, suppress(EOFError):
        way.send(("worker", os.environ["SLURMD_NODENAME"]))
        while True:
            code, args = way.recv()
            task = FunctionType(marshal.loads(code), {"os": os, "time": time})
            way.send(task(*args))


class _Head:
    def __init__(self, place: tuple[str, int], token: bytes) -> None:
        self._listener = Listener(place, backlog=64, authkey=token)
        self._workers: list[tuple[str, Connection, Lock]] = []
        self._turn = itertools.count()

    def serve(self) -> None:
        while True:
            with suppress(OSError, EOFError, AuthenticationError):  # who only looks for the port
                way = self._listener.accept()
                Thread(target=self._speak, args=(way,), daemon=True).start()

    def _speak(self, way: Connection) -> None:
        match way.recv():
            case "worker", name:
                self._workers.append((name, way, Lock()))
            case ("nodes",):
                way.send([name for name, _, _ in self._workers])
            case "task", code, args:
                _, worker, free = self._workers[next(self._turn) % len(self._workers)]
                with free:
                    worker.send((code, args))
                    way.send(worker.recv())
