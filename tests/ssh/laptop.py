"""A laptop as its user sees it: input and output."""

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
import pexpect
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
    """The user's input and output."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.home: Home = site.home()
        self.home.write_profile()
        self._started: list[subprocess.Popen[Any]] = []

    def slurm(self, *words: str) -> str:
        """Return the output of `jupyter slurm WORDS`. Without a terminal, it asks no questions."""
        return self.run(*self.command(*words))

    @staticmethod
    def command(*words: str) -> list[str]:
        """Return the command line of `jupyter slurm WORDS`."""
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
        """Run `jupyter slurm WORDS` in a terminal, where a user can answer."""
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
        """Log in with password and code (default: the current code). Return the output."""
        shown = io.StringIO()
        with self.terminal("login") as terminal:
            terminal.logfile_read = shown
            self.answer(terminal, code)
            terminal.expect(pexpect.EOF)
        assert terminal.exitstatus == 0, shown.getvalue()
        return shown.getvalue()

    def answer(self, terminal: pexpect.spawn, code: str | None = None) -> None:
        """Answer the gateway's questions in a terminal (None for the current code)."""
        terminal.expect("Password: ")
        terminal.sendline(self.site.person.password)
        terminal.expect("Verification code: ")
        terminal.sendline(code or self.site.person.code())

    def execute(self, *books: Path) -> None:
        """Run these notebooks in parallel, each in its own kernel."""
        for process in [self.start(_EXECUTE, "--inplace", str(book)) for book in books]:
            out, err = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0, out + err

    @contextmanager
    def kernels(self, *books: str) -> Iterator[list[Kernel]]:
        """Start a kernel for each of these notebooks. Their clients are outside of the laptop."""
        place = self.home.folder / "kernels"
        (place / "laptop").mkdir(parents=True)
        start = (sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}")
        spec = {"argv": self.site.laptop_machine.argv(*start), "display_name": "", "language": ""}
        (place / "laptop" / "kernel.json").write_text(json.dumps(spec))
        specs = KernelSpecManager(kernel_dirs=[str(place)], ensure_native_kernel=False)
        with ExitStack() as stack:
            kernels = []
            for book in books:
                # Network namespaces share sockets only if these are in the file system.
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
        """Return the agent's PID, or None without an agent."""
        agent = json.loads(self.slurm("status", "--json"))["agent"]
        return None if agent is None else int(agent["pid"])

    @cached_property
    def agent(self) -> AgentClient:
        """Return a client of the laptop's running agent, without starting an agent. The client is
        outside of the laptop, because starting a command would cost more than most requests."""
        told = json.loads(self.slurm("status", "--json"))["agent"]
        return AgentClient(Path(told["socket"]), None)

    def connection(self) -> Connection:
        """Return the agent's connection to the cluster."""
        return self.agent.connections()[0]

    def job(self) -> Job:
        """Return the agent's newest job."""
        return self.agent.jobs()[0]

    def notebook(self, name: str, *cells: str) -> Path:
        made = nbformat.v4.new_notebook()
        made.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
        path = self.home.folder / f"{name}.ipynb"
        nbformat.write(made, path)
        return path

    def close(self) -> None:
        """End the agent, and processes that a failed test has left, which would make other tests
        fail."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        pid = self.agent_pid()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: not Path(f"/proc/{pid}").exists())
        self.site.end_jobs()
