"""Program that starts processes for a test run and ends them all when standard input closes.

It is a separate process, so that an interrupted or killed test run leaves nothing behind. It is the
"subreaper" of its children (prctl(2)), so it also finds detached processes. It reads requests as
lines of JSON and answers each with one line: `{"start": [argv], "log": path, "env": {}, "cwd":
path}` -> `{"pid": n}` or `{"error": text}`; `{"at_end": [argv]}` -> `{}`: a command to run when no
process is left, the latest first.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE_S = 20.0


def main() -> int:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Children would inherit SIG_IGN, so a handler is set. Only EOF on the pipe ends the
        # keeper.
        signal.signal(number, lambda _number, _frame: None)
    signal.signal(signal.SIGCHLD, _reap)
    at_end: list[list[str]] = []
    for line in sys.stdin:
        request = json.loads(line)
        if "start" in request:
            answer = _start(request)
        else:
            at_end.append(request["at_end"])
            answer = {}
        print(json.dumps(answer), flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    left = _kill_all()
    failed = [argv for argv in reversed(at_end) if subprocess.call(argv, cwd="/")]
    for argv in failed:
        print(f"failed at the end: {argv}", file=sys.stderr)
    return 1 if left or failed else 0


def _start(request: dict[str, Any]) -> dict[str, Any]:
    try:
        with Path(request["log"]).open("ab") as log:
            process = subprocess.Popen(
                request["start"],
                env=request["env"],
                cwd=request["cwd"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    except OSError as error:
        return {"error": str(error)}
    pid = process.pid
    process.returncode = 0  # `_reap` collects the exit status
    return {"pid": pid}


def _reap(_number: int, _frame: FrameType | None) -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _kill_all() -> bool:
    """Kill all child processes. Return whether some of them have not ended."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while found := psutil.Process().children(recursive=True):
        for one in found:
            try:
                one.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(found, timeout=0.5)
        if time.monotonic() > deadline_s:
            print(f"do not end: {found}", file=sys.stderr)
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())
