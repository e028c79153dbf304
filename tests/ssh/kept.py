"""The tests' side of the keeper, whose processes end with the test run, whatever happens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

KEEPER = Path(__file__).with_name("keeper.py")


class Keeper:
    def __init__(self, requests: IO[str], answers: IO[str]) -> None:
        self._requests = requests
        self._answers = answers
        self._lock = threading.Lock()

    def start(self, argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> int:
        """Start a process that writes to `log`, and return its PID. The caller need not wait for
        it."""
        environment = clean_environment() if env is None else dict(env)
        return int(
            self._ask({"start": list(argv), "log": str(log), "env": environment, "cwd": "/"})["pid"]
        )

    def at_end(self, *argv: str) -> None:
        """Run `argv` once every process has ended. Call this before the action that it undoes."""
        self._ask({"at_end": argv})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            print(json.dumps(request), file=self._requests, flush=True)
            line = self._answers.readline()
        answer: dict[str, Any] = json.loads(line or '{"error": "the keeper died"}')
        assert "error" not in answer, f"{request}: {answer['error']}"
        return answer


def clean_environment() -> dict[str, str]:
    """Return the environment of daemons on a freshly booted machine."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C.UTF-8",
        "HOME": os.environ.get("HOME", "/"),
    }


@contextmanager
def keeping() -> Iterator[Keeper]:
    process = subprocess.Popen(
        [sys.executable, str(KEEPER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Keeper(process.stdin, process.stdout)
        process.stdin.close()
        process.wait()
    assert process.returncode == 0, "processes of the tests remain"
