"""A kernel that the test starts as VS Code does, without Jupyter's kernel manager.

VS Code starts a kernelspec's argv itself, with its own connection file, in the notebook's folder,
and with the environment of the Python that it considers the kernel's. It interrupts a kernel by a
message on the shell channel, ends it only by SIGTERM, and restarts it by ending and starting it
(microsoft/vscode-jupyter: kernelProcess.node.ts, rawKernelConnection.node.ts,
kernelEnvVarsService.node.ts in src/kernels/raw; read in 2026). VS Code itself is not run.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient

from jupyter_slurm.wire import JobState
from tests.kernel.conftest import PATIENCE_S, Home
from tests.magics.kernel import Reply

CHANNELS = ("hb", "control", "shell", "stdin", "iopub")


class VSCode:
    """A kernel's process and its client."""

    def __init__(self, home: Home, folder: Path, name: str) -> None:
        self.file = folder / f"kernel-v2-{uuid.uuid4().hex}.json"
        self.told = {
            "key": str(uuid.uuid4()),
            "signature_scheme": "hmac-sha256",
            "transport": "tcp",
            "ip": "127.0.0.1",
            "kernel_name": f"python.-m#{name}",
            **ports(),
        }
        self.file.write_text(json.dumps(self.told))
        spec = json.loads(
            Path(os.environ["JUPYTER_DATA_DIR"], "kernels", name, "kernel.json").read_text()
        )
        assert spec["interrupt_mode"] == "message"
        argv = [word.replace("{connection_file}", str(self.file)) for word in spec["argv"]]
        assert Path(argv[0]).is_absolute()
        self.process = subprocess.Popen(
            argv,
            cwd=folder,
            env={**os.environ, **spec.get("env", {}), **environment(folder)},
            stdin=subprocess.DEVNULL,
        )
        self.client = BlockingKernelClient(connection_file=str(self.file))
        self.client.load_connection_file()
        self.client.start_channels(hb=False)
        self.client.wait_for_ready(timeout=PATIENCE_S)

    def run(self, code: str) -> Reply:
        """Run a cell. Return its reply after all its output has arrived."""
        messages: list[dict[str, Any]] = []
        reply = self.client.execute_interactive(
            code, timeout=PATIENCE_S, output_hook=messages.append, allow_stdin=False
        )
        return Reply(reply["content"], messages)

    def end(self) -> None:
        self.process.terminate()
        self.file.unlink()

    def close(self) -> None:
        self.client.stop_channels()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)


def ports() -> dict[str, int]:
    with ExitStack() as stack:
        found = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in CHANNELS]
        return {
            f"{name}_port": one.getsockname()[1] for name, one in zip(CHANNELS, found, strict=True)
        }


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of another Python, with VS Code's additions."""
    others = folder / "another python"
    return {
        "PYTHONHOME": str(others),
        "PYTHONPATH": str(others),
        "PYDEVD_IPYTHON_COMPATIBLE_DEBUGGING": "1",
    }


@pytest.fixture
def start(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], VSCode]]:
    """Yield a function that starts a kernel in a folder whose modules are named like Python's
    own."""
    for name in ("PYTHONPATH", "PYTHONHOME", "JPY_PARENT_PID"):
        monkeypatch.delenv(name, raising=False)
    home.add("--mem", "300M", "--idle", "2h")
    folder = tmp_path / "a folder"
    for place in (folder, folder / "another python"):
        place.mkdir()
        for module in ("json", "random", "zmq"):
            (place / f"{module}.py").write_text("raise RuntimeError('not that one')\n")
    started: list[VSCode] = []

    def make() -> VSCode:
        started.append(VSCode(home, folder, "far"))
        return started[-1]

    yield make
    for one in started:
        one.close()


def test_restart_starts_another_process_in_the_same_job(
    home: Home, start: Callable[[], VSCode]
) -> None:
    first, other = start(), start()
    code = "import os; gone = 1; print(os.environ['SLURM_JOB_ID'])"
    where = first.run(code).text
    assert other.run(code).text != where
    first.end()
    second = start()
    assert second.run("gone").content["ename"] == "NameError"
    assert second.run(code).text == where
    first.process.wait(PATIENCE_S)
    assert [job.state for job in home.jobs()] == [JobState.RUNNING] * 2
