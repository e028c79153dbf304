"""The keeper as seen from the tests: what it starts is gone at the end, whatever happens."""

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
        """The pid of a process that writes to `log`; it need not be waited for."""
        environment = clean_environment() if env is None else dict(env)
        return int(
            self._ask({"start": list(argv), "log": str(log), "env": environment, "cwd": "/"})["pid"]
        )

    def at_end(self, *argv: str) -> None:
        """Has `argv` run when every process is gone. To be said before what it undoes."""
        self._ask({"at_end": argv})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            print(json.dumps(request), file=self._requests, flush=True)
            line = self._answers.readline()
        answer: dict[str, Any] = json.loads(line or '{"error": "the keeper died"}')
        assert "error" not in answer, f"{request}: {answer['error']}"
        return answer


def clean_environment() -> dict[str, str]:
    """What a machine that has just been started gives its daemons."""
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
    assert process.returncode == 0, "something of the tests was left behind"
