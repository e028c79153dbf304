"""Somebody in front of the laptop who uses a lab: a program there, told what to do line by line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from html import unescape
from pathlib import Path
from typing import Any

from jupyter_slurm.wire import LabEntry
from tests.lab_visitor import LabVisitor
from tests.ssh.laptop import Laptop

_ROOT = str(Path(__file__).parents[2])
_PROGRAM = "import sys; sys.path[:0] = [sys.argv[1]]; from tests.ssh import lab_guest as guest; "


class LabGuest:
    """Has logged in by the page that leads in, and has a kernel. `with` it, so that it ends."""

    def __init__(self, laptop: Laptop, page: Path) -> None:
        program = f"{_PROGRAM}guest.main(sys.argv[2])"
        argv = (sys.executable, "-c", program, _ROOT, str(page))
        self._process = laptop.start(*argv, stdin=subprocess.PIPE)
        self.address: str = self._hear()

    def __enter__(self) -> LabGuest:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def begin(self, code: str) -> None:
        """A cell, which runs beside whatever is done next until `end`."""
        self._say("begin", code)

    def end(self) -> str:
        """What it printed; or why its page did not get to see that."""
        return self._ask("end")

    def run(self, code: str) -> str:
        return self._ask("run", code)

    def look(self, path: str) -> tuple[int, str]:
        """As a browser that navigates there, over a new connection: the status of what it is
        answered, and the text."""
        status, text = json.loads(self._ask("look", path))
        return status, text

    def _ask(self, *words: str) -> str:
        self._say(*words)
        return self._hear()

    def _say(self, *words: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()

    def _hear(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(self._process.communicate()[1])
        return str(json.loads(line))


# --- the program ---


class _Cell(threading.Thread):
    def __init__(self, visitor: LabVisitor, kernel: str, code: str) -> None:
        super().__init__(daemon=True)
        self._given = visitor, kernel, code
        self.said = ""

    def run(self) -> None:
        visitor, kernel, code = self._given
        try:
            self.said = visitor.run(kernel, code)
        except Exception as exc:
            self.said = f"{type(exc).__name__}: {exc}"


def main(page: str) -> None:
    """Answers each line of its input, but for `begin`, by one."""
    visitor = _logged_in(Path(page).read_text(encoding="utf-8"))
    kernel = visitor.start_kernel()
    _tell(f"http://{visitor.host}/")
    cell = _Cell(visitor, kernel, "")
    for line in sys.stdin:
        verb, *rest = json.loads(line)
        if verb == "begin":
            cell = _Cell(visitor, kernel, rest[0])
            cell.start()
        elif verb == "end":
            cell.join()
            _tell(cell.said)
        elif verb == "run":
            _tell(visitor.run(kernel, rest[0]))
        else:
            visitor.hang_up()
            answer = visitor.get(rest[0], Accept="text/html")
            _tell(json.dumps([answer.status_code, answer.text]))


def _logged_in(page: str) -> LabVisitor:
    login, token = (
        unescape(_found(pattern, page)) for pattern in ('action="([^"]*)"', 'value="([^"]*)"')
    )
    host = login.removeprefix("http://").partition("/")[0]
    visitor = LabVisitor(host, int(host.rpartition(":")[2]))
    assert visitor.log_in(LabEntry(login_url=login, token=token)).status_code == 302
    return visitor


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match is not None
    return match[1]


def _tell(what: Any) -> None:
    print(json.dumps(what), flush=True)
