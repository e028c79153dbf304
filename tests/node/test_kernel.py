"""A job's kernel on this machine: its messages, lost connections, and end."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from jupyter_slurm.errors import TransportError
from jupyter_slurm.kernel.messages import UNSIGNED, Message, made
from jupyter_slurm.kernel.stream import Arrived, Happened, KernelStream, Opened, Taken
from tests.ssh.waiting import wait_until

NODE = Path(__file__).parents[2] / "jupyter_slurm" / "node"
PATIENCE_S = 60.0
_FIRST = json.dumps({"client": "x", "boot": "", "got": 0, "from": 1}).encode()
BEGIN = b"B" + len(_FIRST).to_bytes(4, "big") + _FIRST


class User:
    """A client of the kernel that uses KernelStream."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.woken = threading.Event()
        self.line: socket.socket | None = None
        self.lines = 0
        self.closed = threading.Event()
        """Set to prevent connections."""
        self.arrived: list[tuple[str, Message]] = []
        self.events: list[dict[str, Any]] = []
        self.opened: list[Opened] = []
        self.taken = False
        self.far = KernelStream(self.open_line, self.woken.set)
        self.far.start()

    def open_line(self) -> socket.socket:
        if self.closed.is_set():
            raise TransportError("no line")
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(f"\0{self.name}")
        except OSError as exc:
            sock.close()
            raise TransportError(str(exc)) from exc
        self.line = sock
        self.lines += 1
        return self.line

    def cut(self) -> None:
        assert self.line is not None
        self.line.shutdown(socket.SHUT_RDWR)

    def until(self, condition: Callable[[], object]) -> None:
        give_up_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert self.woken.wait(give_up_s - time.monotonic()), (self.arrived, self.events)
            self.woken.clear()
            for news in self.far.news():
                if isinstance(news, Arrived):
                    message = UNSIGNED.message(news.parts)
                    assert message is not None
                    self.arrived.append((news.channel, message))
                    self.far.acknowledge(news)
                elif isinstance(news, Happened):
                    self.events.append(msgspec.to_builtins(news.event))
                    self.far.acknowledge(news)
                elif isinstance(news, Opened):
                    self.opened.append(news)
                elif isinstance(news, Taken):
                    self.taken = True

    def until_event(self, name: str) -> dict[str, Any]:
        self.until(lambda: name in [event["event"] for event in self.events])
        return next(event for event in self.events if event["event"] == name)

    def ask(self, kind: str, content: dict[str, Any], channel: str = "shell") -> str:
        message = made(kind, content, session="user", identities=(b"who",))
        self.far.send(channel, UNSIGNED.parts(message))
        return message.id

    def execute(self, code: str) -> str:
        return self.ask("execute_request", {"code": code, "allow_stdin": True})

    def answer(self, request: str) -> Message:
        """Return the reply once the kernel is idle again."""

        def found() -> list[Message]:
            return [m for c, m in self.arrived if c == "shell" and _parent(m) == request]

        self.until(
            lambda: any(
                c == "iopub"
                and _parent(m) == request
                and m.content.get("execution_state") == "idle"
                for c, m in self.arrived
            )
        )
        self.until(found)
        (one,) = found()
        return one

    def until_it_runs(self, request: str) -> None:
        self.until(lambda: [m for c, m in self.arrived if c == "iopub" and _parent(m) == request])

    def text(self, request: str) -> str:
        return "".join(
            m.content["text"]
            for c, m in self.arrived
            if m.kind == "stream" and _parent(m) == request
        )


def _parent(message: Message) -> str:
    return str(message.parent.get("msg_id"))


class Job:
    """The program of a job."""

    def __init__(self, folder: Path, idle_s: float = 600.0, code: str | None = None) -> None:
        self.name = f"jslurm-test-{secrets.token_hex(8)}"
        task = {"socket": self.name, "idle_s": idle_s}
        (folder / "task.json").write_text(json.dumps(task))
        words = ["-c", code] if code else ["-uB", str(NODE / "kernel.py")]
        self.process = subprocess.Popen(
            [sys.executable, *words, str(folder), "0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, "TMPDIR": str(folder), "IPYTHONDIR": str(folder)},
        )
        self.users: list[User] = []

    def user(self) -> User:
        """Return a new client once the socket exists, since a second attempt would come late."""
        wait_until(self.is_there, PATIENCE_S)
        self.users.append(User(self.name))
        return self.users[-1]

    def is_there(self) -> bool:
        return f"@{self.name}\n" in Path("/proc/net/unix").read_text(encoding="utf-8")

    def kernel(self) -> psutil.Process:
        (child,) = psutil.Process(self.process.pid).children()
        return child

    def end(self) -> tuple[int, str]:
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    jobs: list[Job] = []

    def make(**options: Any) -> Job:
        jobs.append(Job(tmp_path, **options))
        return jobs[-1]

    yield make
    for one in jobs:
        for user in one.users:
            user.far.close()
        one.process.terminate()
        one.process.wait(PATIENCE_S)
        assert one.process.stdout is not None
        one.process.stdout.close()


def test_messages_of_a_cell_arrive_in_order(job: Callable[..., Job]) -> None:
    user = job().user()
    request = user.execute("print('a'); print('b'); 6 * 7")
    reply = user.answer(request)
    assert reply.content["status"] == "ok"
    assert reply.identities[-1:] == (b"who",)
    assert user.text(request) == "a\nb\n"
    kinds = [m.kind for c, m in user.arrived if c == "iopub" and _parent(m) == request]
    assert kinds[0] == kinds[-1] == "status"
    assert "execute_result" in kinds
    info = user.until_event("ready")["info"]
    assert info["language_info"]["name"] == "python"


def test_input_request_reaches_the_requesting_client(job: Callable[..., Job]) -> None:
    user = job().user()
    request = user.execute("print('so ' + input('name? '))")
    user.until(lambda: [m for c, m in user.arrived if c == "stdin"])
    (asked,) = [m for c, m in user.arrived if c == "stdin"]
    assert asked.content["prompt"] == "name? "
    assert asked.identities == (b"who",)
    user.ask("input_reply", {"value": "it is"}, "stdin")
    assert user.answer(request).content["status"] == "ok"
    assert user.text(request) == "so it is\n"


def test_repeated_disconnects_do_not_lose_messages(job: Callable[..., Job], tmp_path: Path) -> None:
    user = job().user()
    user.answer(user.execute(f"import pathlib, sys, time\nfolder = {str(tmp_path)!r}"))
    # The cell waits for each cut. On a busy machine, it would otherwise end before the first cut.
    request = user.execute(
        "for i in range(400):\n"
        "    print(i, 'x' * 5000); sys.stdout.flush(); time.sleep(.005)\n"
        "    cut = pathlib.Path(folder, f'cut{i // 70 + 1}')\n"
        "    while i % 70 == 69 and not cut.exists(): time.sleep(.01)"
    )
    for cuts in range(1, 6):
        seen = len(user.arrived)
        user.until(lambda seen=seen: len(user.arrived) > seen + 20)  # type: ignore[misc]
        user.cut()
        user.until(lambda cuts=cuts: len(user.opened) > cuts)  # type: ignore[misc]
        (tmp_path / f"cut{cuts}").touch()
    user.answer(request)
    assert user.text(request) == "".join(f"{i} {'x' * 5000}\n" for i in range(400))
    assert user.lines == 6


def cut_until(user: User, request: str, cut: Path, done: Path) -> None:
    """Disconnect once the cell runs, create `cut` for the cell, and wait for `done`."""
    user.until_it_runs(request)
    user.closed.set()
    user.cut()
    cut.touch()
    wait_until(done.exists, PATIENCE_S)
    user.closed.clear()


def test_output_while_disconnected_arrives_after_reconnecting(
    job: Callable[..., Job], tmp_path: Path
) -> None:
    user = job().user()
    user.answer(user.execute("import pathlib, time"))
    done = tmp_path / "done"
    request = user.execute(
        f"while not pathlib.Path({str(tmp_path / 'cut')!r}).exists(): time.sleep(.01)\n"
        f"print('x' * 20_000_000); pathlib.Path({str(done)!r}).touch()"
    )
    cut_until(user, request, tmp_path / "cut", done)
    user.answer(request)
    assert len(user.text(request)) == 20_000_001


def test_output_beyond_the_limit_is_dropped_and_counted(
    job: Callable[..., Job], tmp_path: Path
) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(NODE)!r}); import kernel, kernel_frames as f\n"
        "f.IN_MEMORY_BYTES, f.MOST_BYTES = 100_000, 300_000\nsys.exit(kernel.main(sys.argv))"
    )
    user = job(code=code).user()
    user.answer(user.execute("import pathlib, sys, time"))
    done = tmp_path / "done"
    request = user.execute(
        f"while not pathlib.Path({str(tmp_path / 'cut')!r}).exists(): time.sleep(.01)\n"
        "for i in range(100): print(i, 'x' * 20_000); sys.stdout.flush()\n"
        f"pathlib.Path({str(done)!r}).touch()"
    )
    cut_until(user, request, tmp_path / "cut", done)
    assert user.answer(request).content["status"] == "ok"
    told = user.until_event("left out")
    lines = user.text(request).splitlines()
    assert lines[0].startswith("0 ")
    assert len(lines) < 100
    assert told["bytes"] > 1_000_000


def test_interrupt_raises_keyboard_interrupt(job: Callable[..., Job]) -> None:
    user = job().user()
    request = user.execute("print('on', flush=True)\nimport time; time.sleep(1000)")
    user.until(lambda: user.text(request))
    user.far.command(command="interrupt")
    assert user.answer(request).content["ename"] == "KeyboardInterrupt"


def test_kernel_restarts_in_the_same_job(job: Callable[..., Job]) -> None:
    one = job()
    user = one.user()
    user.answer(user.execute("kept = 1"))
    before = one.kernel().pid
    user.far.command(command="restart")
    user.until_event("restarting")
    request = user.execute("kept")
    assert user.answer(request).content["ename"] == "NameError"
    assert one.kernel().pid != before
    assert not psutil.pid_exists(before)


def test_dead_kernel_is_reported_and_replaced(job: Callable[..., Job]) -> None:
    one = job()
    user = one.user()
    user.answer(user.execute("pass"))
    user.execute("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert user.until_event("died") == {"event": "died", "status": -9, "again": True}
    assert user.answer(user.execute("1 + 1")).content["status"] == "ok"


def test_second_client_replaces_the_first(job: Callable[..., Job]) -> None:
    one = job()
    first = one.user()
    first.answer(first.execute("kept = 42"))
    second = one.user()
    request = second.execute("print(kept)")
    second.answer(request)
    assert second.text(request) == "42\n"
    first.until(lambda: first.taken)


def test_busy_kernel_does_not_end_as_idle(job: Callable[..., Job], tmp_path: Path) -> None:
    one = job(idle_s=5.0)
    user = one.user()
    user.answer(user.execute("import pathlib, time"))
    go = tmp_path / "go"
    user.execute(f"print('on')\nwhile not pathlib.Path({str(go)!r}).exists(): time.sleep(.05)")
    user.until(lambda: [m for _, m in user.arrived if m.kind == "stream"])
    user.far.close()
    with pytest.raises(subprocess.TimeoutExpired):
        one.process.wait(7.0)
    go.touch()
    assert one.end()[0] == 0


def test_signal_ends_the_kernel_and_its_children(job: Callable[..., Job]) -> None:
    one = job()
    user = one.user()
    user.answer(user.execute("import subprocess; child = subprocess.Popen(['sleep', '1000'])"))
    family = psutil.Process(one.process.pid).children(recursive=True)
    one.process.send_signal(signal.SIGTERM)
    assert user.until_event("ending")["signal"] == "SIGTERM"
    assert one.end()[0] == 128 + signal.SIGTERM
    _, alive = psutil.wait_procs(family, timeout=PATIENCE_S)
    assert not alive


def test_missing_ipykernel_is_reported(tmp_path: Path) -> None:
    (tmp_path / "task.json").write_text('{"socket": "x", "idle_s": 1}')
    done = subprocess.run(
        [sys.executable, "-ISB", "-u", str(NODE / "kernel.py"), str(tmp_path), "0"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 65, done.stderr
    assert "this Python has no ipykernel" in done.stdout
    assert done.stdout.endswith("lacks ipykernel, zmq\n")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
def test_another_users_client_is_rejected(job: Callable[..., Job], tmp_path: Path) -> None:
    one = job()
    user = one.user()
    user.answer(user.execute("pass"))
    code = (
        "import os, socket, sys; os.setgid(65534); os.setuid(65534)\n"
        f"begin = {BEGIN!r}\n"
        "s = socket.socket(socket.AF_UNIX); s.settimeout(60)\n"
        f"s.connect('\\0' + {one.name!r})\n"
        "try: s.sendall(begin); print(s.recv(1))\n"
        "except ConnectionError: print('hung up')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.stdout in ("b''\n", "hung up\n"), done
    (sockets,) = tmp_path.glob("jslurm-*")
    assert sockets.stat().st_mode & 0o777 == 0o700
    assert user.answer(user.execute("pass")).content["status"] == "ok"
