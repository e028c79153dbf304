"""A session's program without Slurm: requests and signals."""

from __future__ import annotations

import hmac
import json
import os
import secrets
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.kinds import cell
from jupyter_slurm.jobs.kinds.kind import node_files
from jupyter_slurm.jobs.kinds.session import task
from jupyter_slurm.jobs.outcome.result import RunnerResult, parse_exit, parse_records, parse_result
from jupyter_slurm.wire import CellSpec, ExecuteResult, Hello, SessionSpec, Stream
from tests.node.cells import BARE, FULL
from tests.ssh.waiting import wait_until

PATIENCE_S = 60.0
KEY = secrets.token_hex(32).encode()


class Session:
    """The folder of a session, and its program once started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cells = folder / "cells"
        self.process: subprocess.Popen[str] | None = None
        self.count = 0

    def start(
        self, *, idle_s: int = 600, attempt: int = 0, python: Sequence[str] = FULL
    ) -> subprocess.Popen[str]:
        spec = SessionSpec(id="s" * 8, name="s", idle_s=idle_s)
        self.folder.mkdir(exist_ok=True)
        files = {
            layout.TASK: task(spec),
            layout.KEY: KEY,
            **node_files("runner"),
            **node_files("session"),
        }
        for name, data in files.items():
            (self.folder / name).write_bytes(data)
        self.process = subprocess.Popen(
            [*python, str(self.folder / layout.SESSION), str(self.folder), str(attempt)],
            cwd=self.folder.parent,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        wait_until(lambda: bool(self.records(self.folder / f"output.{attempt}.jsonl")), PATIENCE_S)
        return self.process

    def put(self, code: str) -> str:
        """Write a cell's folder without requesting its run. Return its ID."""
        self.count += 1
        cell_id = f"cell{self.count:04}"
        folder = self.cells / cell_id
        folder.mkdir(parents=True)
        spec = CellSpec(id=cell_id, name="c", code=code, session="s" * 8)
        for name, data in cell.own_files(spec).items():
            assert isinstance(data, bytes)
            (folder / name).write_bytes(data)
        return cell_id

    def ask(self, text: str, *, poke: bool = True) -> None:
        with (self.cells / "requests").open("a") as requests:
            requests.write(text)
        if poke:
            with (self.folder / "poke").open("r+b", buffering=0) as fifo:
                fifo.write(b".")

    def run(self, code: str) -> str:
        cell_id = self.put(code)
        self.ask(f"\nrun {cell_id}\n")
        self.wait(cell_id)
        return cell_id

    def wait(self, cell_id: str) -> None:
        wait_until((self.cells / cell_id / "exit.0.json").exists, PATIENCE_S)

    def exit(self, cell_id: str) -> tuple[int, str | None]:
        found = parse_exit((self.cells / cell_id / "exit.0.json").read_bytes())
        assert found is not None
        return found.exit_code, found.signal

    def result(self, cell_id: str) -> RunnerResult:
        key = hmac.digest(KEY, cell_id.encode(), "sha256").hex().encode()
        return parse_result((self.cells / cell_id / "result.0.json").read_bytes(), key)

    def records(self, path: Path) -> list[object]:
        return list(parse_records(path.read_bytes())[0]) if path.exists() else []

    def shown(self, cell_id: str) -> list[object]:
        return self.records(self.cells / cell_id / "output.0.jsonl")

    def values(self, cell_id: str) -> list[object]:
        return [o.data["text/plain"] for o in self.shown(cell_id) if isinstance(o, ExecuteResult)]

    def text(self, cell_id: str) -> str:
        return "".join(o.text for o in self.shown(cell_id) if isinstance(o, Stream))

    def close(self) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    made = Session(tmp_path / 'a session$dir "é')
    yield made
    made.close()


@pytest.mark.parametrize("python", [FULL, BARE], ids=["full", "bare"])
def test_session_keeps_variables_between_cells(session: Session, python: Sequence[str]) -> None:
    session.start(python=python)
    first = session.run("import os\npid = os.getpid()\nprint('hé')")
    assert (session.text(first), session.exit(first)) == ("hé\n", (0, None))
    assert session.values(session.run("pid == os.getpid()")) == ["True"]
    assert session.result(first).status == "ok"


def test_cell_submitted_before_its_session_starts_gets_only_its_own_output(
    session: Session,
) -> None:
    cell_id = session.put("1")
    session.ask(f"\nrun {cell_id}\n", poke=False)
    session.start()
    session.wait(cell_id)
    assert [type(one) for one in session.records(session.folder / "output.0.jsonl")] == [Hello]
    assert [type(one) for one in session.shown(cell_id)] == [ExecuteResult]


def test_session_works_without_a_fifo(session: Session) -> None:
    session.folder.mkdir()
    (session.folder / "poke").write_text("this is no FIFO")
    session.start()
    cell_id = session.put("1")
    session.ask(f"\nrun {cell_id}\n", poke=False)
    session.wait(cell_id)


def test_repeated_or_truncated_requests_do_not_run_a_cell_twice(session: Session) -> None:
    session.start()
    session.run("runs = []")
    cell_id = session.put("runs.append(1)")
    session.ask(f"\nrun {cell_id[:3]}", poke=False)
    session.ask(f"\nrun {cell_id}\n\nrun {cell_id}\n\nwhat is this\nrun ../etc\n")
    session.wait(cell_id)
    assert session.values(session.run("len(runs)")) == ["1"]


def test_requeued_session_does_not_run_cells_again(session: Session) -> None:
    session.start()
    done = session.run("1")
    cut = session.put("import time\ntime.sleep(600)")
    never = session.put("2")
    session.ask(f"\nrun {cut}\n")
    wait_until((session.cells / cut / "started.0.json").exists, PATIENCE_S)
    session.close()
    session.ask(f"\nrun {never}\n", poke=False)
    session.start(attempt=1)
    session.wait(never)
    session.wait(cut)
    assert session.exit(cut) == (143, "TERM")
    assert (session.exit(done), session.values(never)) == ((0, None), ["2"])


def test_output_of_a_thread_belongs_to_its_cell(session: Session) -> None:
    session.start()
    first = session.run(
        "import threading\ngo = threading.Event()\n"
        "thread = threading.Thread(target=lambda: (go.wait(), print('late')))\nthread.start()\n"
        "threading.Timer(0, go.set).start()"
    )
    wait_until(lambda: "late\n" in session.text(first), PATIENCE_S)


def test_sys_exit_does_not_end_the_session(session: Session) -> None:
    session.start()
    session.run("kept = 1")
    left = session.run("import sys\nsys.exit(3)")
    assert session.exit(left) == (3, None)
    assert session.values(session.run("kept")) == ["1"]


@pytest.mark.parametrize("child", ["pass", "1 / 0"])
def test_forked_child_does_not_run_later_cells(session: Session, child: str) -> None:
    session.start()
    forked = session.run(
        "import asyncio, os, time\nn, parent, pid = 0, os.getpid(), os.fork()\n"
        f"if pid == 0:\n    n = 100\n    {child}"
    )
    assert session.exit(forked) == (0, None)
    for _ in range(3):
        after = session.run("n += 1\n(os.getpid() == parent, n < 100)")
        assert session.values(after) == ["(True, True)"]
    ended = session.run("os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
    assert session.values(ended) == ["1" if child == "1 / 0" else "0"]


def test_event_loop_survives_an_interrupt(
    session: Session,
) -> None:
    session.start()
    session.run(
        "import asyncio\nfuture = asyncio.get_running_loop().create_future()\n"
        "async def fill():\n    await asyncio.sleep(0.01)\n    future.set_result(42)\n"
        "task = asyncio.create_task(fill())\nawait asyncio.sleep(0)"
    )
    assert session.values(session.run("await future")) == ["42"]
    endless = session.put("print('begun')\nawait asyncio.sleep(600)")
    session.ask(f"\nrun {endless}\n")
    wait_until(lambda: "begun" in session.text(endless), PATIENCE_S)
    session.ask(f"\ncancel {endless}\n")
    session.wait(endless)
    assert session.exit(endless) == (130, "INT")
    assert session.values(session.run("await asyncio.sleep(0, 'again')")) == ["'again'"]


def test_dead_process_is_replaced(session: Session) -> None:
    session.start()
    gate = session.folder / "gate"
    first = session.run(
        "import os, threading, time\n"
        "def die():\n"
        f"    while not os.path.exists({str(gate)!r}):\n        time.sleep(0.01)\n"
        "    os._exit(9)\n"
        "threading.Thread(target=die).start()\nos.getpid()"
    )
    gate.touch()
    [pid] = session.values(first)
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), PATIENCE_S)
    after = session.run("'pid' in globals()")
    assert session.values(after) == ["False"]
    assert "the session's variables are lost" in session.text(after)


def test_signal_ends_running_and_waiting_cells_and_the_session(session: Session) -> None:
    process = session.start()
    running = session.put(
        "try:\n    import time\n    time.sleep(600)\nfinally:\n    print('saved')"
    )
    waiting = session.put("1")
    session.ask(f"\nrun {running}\nrun {waiting}\n")
    wait_until((session.cells / running / "started.0.json").exists, PATIENCE_S)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 143
    assert (session.exit(running), session.exit(waiting)) == ((143, "TERM"), (143, "TERM"))
    assert session.result(running).interrupted_by == "SIGTERM"
    assert not (session.cells / waiting / "started.0.json").exists()
    result = parse_result((session.folder / "result.0.json").read_bytes(), KEY)
    assert (result.status, result.interrupted_by) == ("interrupted", "SIGTERM")


def test_idle_session_ends_with_a_reason(session: Session) -> None:
    process = session.start(idle_s=1)
    assert process.wait(PATIENCE_S) == 0
    result = parse_result((session.folder / "result.0.json").read_bytes(), KEY)
    assert (result.status, result.evalue) == ("ok", "It was idle for 1 second.")


def test_files_of_a_session_are_private(session: Session) -> None:
    session.start()
    cell_id = session.run("1")
    for name in ("output.0.jsonl", "result.0.json", "exit.0.json", "started.0.json"):
        assert (session.cells / cell_id / name).stat().st_mode & 0o077 == 0
    assert (session.folder / "poke").stat().st_mode & 0o077 == 0
    assert json.loads((session.cells / cell_id / "started.0.json").read_text())["node"]
