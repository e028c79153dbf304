"""A laptop of the site's, as its user sees it: what they type, and what they are shown."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat
import pexpect  # type: ignore[import-untyped]
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from jupyter_slurm.client import AgentClient
from jupyter_slurm.wire import Connection, Job
from tests.magics.kernel import Kernel
from tests.ssh.site import Home, Site
from tests.ssh.waiting import wait_until

PATIENCE_S = 180
_EXECUTE = str(Path(sys.executable).with_name("jupyter-execute"))


class Laptop:
    """What its user types, and what they see."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.home: Home = site.home()
        self.home.write_profile()
        self._started: list[subprocess.Popen[Any]] = []

    def slurm(self, *words: str) -> str:
        """What `jupyter slurm WORDS` prints, without a terminal: nobody can be asked."""
        return self.run(*self.command(*words))

    @staticmethod
    def command(*words: str) -> list[str]:
        """The command line of `jupyter slurm WORDS`."""
        return [sys.executable, "-m", "jupyter_slurm", *words]

    def run(self, *argv: str) -> str:
        with self.start(*argv) as process:
            out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, out + err
        return str(out)

    def start(self, *argv: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[Any]:
        pipe = subprocess.PIPE
        process = self.site.laptop(
            list(argv), self.home, stdin=stdin, stdout=pipe, stderr=pipe, text=True
        )
        self._started.append(process)
        return process

    def terminal(self, *words: str) -> pexpect.spawn:
        """The same in a terminal, where somebody answers."""
        argv = self.site.laptop_machine.argv(*self.command(*words))
        return pexpect.spawn(
            argv[0],
            argv[1:],
            env={**self.home.env, "TERM": "dumb"},
            cwd=str(self.home.folder),
            encoding="utf-8",
            timeout=PATIENCE_S,
            dimensions=(40, 200),
        )

    def log_in(self, code: str | None = None) -> str:
        """With password and code; all that the terminal showed. None: the code of this moment."""
        shown = io.StringIO()
        with self.terminal("login") as terminal:
            terminal.logfile_read = shown
            self.answer(terminal, code)
            terminal.expect(pexpect.EOF)
        assert terminal.exitstatus == 0, shown.getvalue()
        return shown.getvalue()

    def answer(self, terminal: pexpect.spawn, code: str | None = None) -> None:
        """What the gateway asks there. None: with the code of this moment."""
        terminal.expect("Password: ")
        terminal.sendline(self.site.person.password)
        terminal.expect("Verification code: ")
        terminal.sendline(code or self.site.person.code())

    def execute(self, *books: Path) -> None:
        """Runs these notebooks, all at the same time, each in a kernel of its own."""
        for process in [self.start(_EXECUTE, "--inplace", str(book)) for book in books]:
            out, err = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0, out + err

    @contextmanager
    def kernels(self, *books: str) -> Iterator[list[Kernel]]:
        """A kernel for each of these notebooks, spoken to from outside."""
        place = self.home.folder / "kernels"
        (place / "laptop").mkdir(parents=True)
        start = (sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}")
        spec = {"argv": self.site.laptop_machine.argv(*start), "display_name": "", "language": ""}
        (place / "laptop" / "kernel.json").write_text(json.dumps(spec))
        specs = KernelSpecManager(kernel_dirs=[str(place)], ensure_native_kernel=False)
        with ExitStack() as stack:
            kernels = []
            for book in books:
                # Sockets of files are what networks have in common.
                manager = KernelManager(
                    kernel_name="laptop",
                    kernel_spec_manager=specs,
                    transport="ipc",
                    ip=str(place / book),
                )
                env = self.home.env | {"JPY_SESSION_NAME": str(self.home.folder / book)}
                manager.start_kernel(env=env, cwd=str(self.home.folder))
                stack.callback(manager.cleanup_resources)
                stack.callback(manager.shutdown_kernel, now=True)
                client = manager.blocking_client()
                client.start_channels()
                stack.callback(client.stop_channels)
                kernels.append(Kernel(manager, client))
            for kernel in kernels:
                kernel.client.wait_for_ready(timeout=PATIENCE_S)
            yield kernels

    def agent_pid(self) -> int | None:
        """None: there is none."""
        agent = json.loads(self.slurm("status", "--json"))["agent"]
        return None if agent is None else int(agent["pid"])

    @cached_property
    def agent(self) -> AgentClient:
        """The one that runs there, asked from outside: a command's start is more than most looks
        cost. It starts none."""
        told = json.loads(self.slurm("status", "--json"))["agent"]
        return AgentClient(Path(told["socket"]), None)

    def connection(self) -> Connection:
        """To the cluster, as the agent knows it."""
        return self.agent.connections()[0]

    def job(self) -> Job:
        """The newest, as the agent knows it."""
        return self.agent.jobs()[0]

    def notebook(self, name: str, *cells: str) -> Path:
        made = nbformat.v4.new_notebook()
        made.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
        path = self.home.folder / f"{name}.ipynb"
        nbformat.write(made, path)
        return path

    def close(self) -> None:
        """Ends the agent, and what a test that failed has left running, which would fail others."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        pid = self.agent_pid()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: not Path(f"/proc/{pid}").exists())
        self.site.end_jobs()
