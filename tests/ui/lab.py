"""A real JupyterLab with a token, and a notebook in it. Tests find elements by role and name."""

from __future__ import annotations

import json
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

import nbformat
import psutil
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Locator, Page, Response, expect

from jupyter_slurm.wire import JobState
from tests.ssh.network import Machine
from tests.ssh.sshd import free_port

PATIENCE_S = 60.0
"""Timeout that means a hang, even on a busy machine."""
_END_S = 60.0
"""Timeout for a server's end, which ends the kernels one by one."""
_NO_BUILD_CHECK = "--ServerApp.tornado_settings={'page_config_data': {'buildCheck': False}}"
"""Setting that disables the check whether JupyterLab needs a build. For this check the server runs
Node.js, which takes a fifth of the load time."""
_CONFIRM = re.compile("^(Restart|Confirm .*)$")
SETTINGS = {
    "@jupyterlab/apputils-extension/themes": {"adaptive-theme": True},
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false"},
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
    "@jupyterlab/docmanager-extension/plugin": {"autosave": False},
    "@jupyterlab/terminal-extension/plugin": {"screenReaderMode": True},
    # By default, JupyterLab continues without an answer after one second and after three.
    "@jupyterlab/completer-extension/manager": {"providerTimeout": 30_000},
    "@jupyterlab/apputils-extension/kernels-settings": {"kernelInfoTimeout": 30_000},
}


@dataclass(frozen=True)
class Lab:
    """A running server; its notebooks are in `folder`."""

    url: str
    token: str
    folder: Path
    pid: int

    @property
    def ssh_config(self) -> Path:
        """The ssh_config of its user, initially empty."""
        return self.folder.parent / "ssh_config"

    def address(self, name: str) -> str:
        return f"{self.url}lab/tree/{quote(name)}?token={self.token}&reset"

    def write(self, name: str, sources: Sequence[str], kernel_name: str = "python3") -> Path:
        """Write a notebook of these code cells."""
        path = self.folder / name
        kernel = {"name": kernel_name, "display_name": kernel_name}
        cells = [new_code_cell(one) for one in sources]
        nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
        return path

    def end_kernels(self) -> None:
        """Shut down all kernels and terminals."""
        for kind, named in (("sessions", "id"), ("terminals", "name")):
            for one in json.loads(self._request("GET", f"api/{kind}")):
                self._request("DELETE", f"api/{kind}/{one[named]}")

    def live_jobs(self) -> list[str]:
        """Return the names of the agent's unfinished jobs."""
        return [one["name"] for one in self._jobs() if not JobState(one["state"]).final]

    def jobs_named(self, name: str) -> list[str]:
        """Return the IDs of jobs with this name, the newest first."""
        return [one["id"] for one in self._jobs() if one["name"] == name]

    def _jobs(self) -> list[dict[str, str]]:
        jobs: list[dict[str, str]] = json.loads(self._request("GET", "jupyter-slurm/api/jobs"))
        return jobs

    def _request(self, method: str, path: str) -> bytes:
        token = {"Authorization": f"token {self.token}"}
        asked = Request(self.url + path, method=method, headers=token)
        with urlopen(asked, timeout=PATIENCE_S) as answer:
            told: bytes = answer.read()
        return told


def settings(home: Path) -> dict[str, str]:
    """Return the environment of a JupyterLab for tests, and write its settings."""
    for plugin, values in SETTINGS.items():
        path = home / "settings" / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    return {
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
    }


@contextmanager
def running_lab(
    env: dict[str, str],
    home: Path,
    port: int | None = None,
    python: str = sys.executable,
    front_end: str = "jupyterlab",
    machine: Machine | None = None,
) -> Iterator[Lab]:
    """Run a server with all files below `home`, and shut its kernels down at the end.

    `front_end` is the module to run, and `notebook` means Notebook 7. `machine` is where it runs,
    None for this machine.
    """
    folder = home / "notebooks"
    folder.mkdir(parents=True, exist_ok=True)
    env = env | settings(home)
    token = secrets.token_urlsafe()
    ours = ["--no-browser", "--allow-root", f"--ServerApp.root_dir={folder}"]
    address = ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port or free_port()}"]
    argv = [python, "-m", front_end, *ours, *address, _NO_BUILD_CHECK]
    with (home / "lab.log").open("wb") as log:
        process = subprocess.Popen(
            argv if machine is None else machine.argv(*argv),
            env=env | {"JUPYTER_TOKEN": token, "PYTHONFAULTHANDLER": "1"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        url = _url(process, Path(env["JUPYTER_RUNTIME_DIR"]), machine)
        yield Lab(url, token, folder, process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        _wait_for_its_end(process, home / "lab.log")


def _wait_for_its_end(process: subprocess.Popen[bytes], log: Path) -> None:
    """A closing page may request a file while the server ends. The server then shuts everything
    down and waits forever for the thread that reads the file, in the request's task (anyio 4 in
    jupyter_server 2, seen with py-spy). Kill it then, since a browser would reuse connections to
    it."""
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        hung = psutil.Process(process.pid)
        listens = any(one.status == psutil.CONN_LISTEN for one in hung.net_connections("tcp"))
        children = [" ".join(one.cmdline()) for one in hung.children()]
        process.send_signal(signal.SIGABRT)  # faulthandler prints the stack of each thread
        process.wait()
        if listens or children:
            last = log.read_text(errors="replace")[-8000:]
            raise AssertionError(f"JupyterLab hangs, {listens=}, {children=}:\n{last}") from None


def _url(process: subprocess.Popen[bytes], runtime: Path, machine: Machine | None) -> str:
    """Return its URL once it listens, which is after its info file appears."""
    told = runtime / f"jpserver-{process.pid}.json"
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert process.poll() is None, "JupyterLab has ended"
        if told.exists() and (text := told.read_text()):
            info = json.loads(text)
            if _listens(info["port"], machine):
                url: str = info["url"]
                return url
        time.sleep(0.05)
    raise AssertionError("JupyterLab did not start")


def _listens(port: int, machine: Machine | None) -> bool:
    if machine is not None:
        return machine.run("ss", "-Hltn", f"sport = {port}").stdout != ""
    with suppress(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), PATIENCE_S).close()
        return True
    return False


def at_rest(page: Page) -> None:
    """Wait until JupyterLab has started, since the last opened part takes the focus and keys."""
    expect(page.locator("#jupyterlab-splash")).to_have_count(0)
    # A restored job panel has its own tabs.
    expect(page.get_by_role("main").get_by_role("tab", selected=True).first).to_be_visible()


def saves(answer: Response, text: str) -> bool:
    """Return whether the response answers a request to save a workspace that contains `text`."""
    asked = answer.request
    is_workspace = asked.method == "PUT" and "/api/workspaces/" in asked.url
    return is_workspace and text in (asked.post_data or "")


def show_more(form: Locator) -> None:
    """Open the part of the form that most jobs do not need."""
    form.get_by_text("More options", exact=True).click()


def submit_script(page: Page, name: str, code: str, **options: str) -> tuple[str, str]:
    """Submit a batch script to the cluster `local`. Return our ID and Slurm's."""
    job_id = "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(8))
    spec = {"kind": "script", "id": job_id, "name": name, "code": code, "cluster": "local"}
    slurm_id: str = page.evaluate(
        """async spec => {
            const url = document.baseURI.replace(/lab\\b.*/, 'jupyter-slurm/api/submit');
            const xsrf = document.cookie.match(/_xsrf=([^;]*)/)?.[1] ?? '';
            const answer = await fetch(url, {
                method: 'POST',
                headers: {'X-XSRFToken': xsrf},
                body: JSON.stringify({spec})
            });
            return (await answer.json()).slurm_id;
        }""",
        {**spec, "options": {"job-name": name, **options}},
    )
    return job_id, slurm_id


class Notebook:
    """An open notebook in JupyterLab. Cells are numbered from 0."""

    def __init__(self, page: Page, lab: Lab, name: str) -> None:
        self.page = page
        self.path = lab.folder / name
        self._address = lab.address(name)
        self.load()
        self.shown()

    def load(self) -> None:
        """Reload the page with JupyterLab's initial layout. A layout saved in a narrow window
        leaves no room in another narrow window."""
        self.page.goto(self._address)

    def shown(self) -> None:
        """Return when the page shows the notebook and the kernel is ready."""
        expect(self.page.locator("#jupyterlab-splash")).to_have_count(0)
        expect(self.cell(0)).to_be_visible()
        expect(self.page.get_by_text("| Idle")).to_be_visible()

    def cell(self, at: int) -> Locator:
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(at)

    def output(self, at: int) -> Locator:
        return self.cell(at).locator(".jp-Cell-outputArea")

    def card(self, at: int) -> Locator:
        return self.output(at).get_by_role("region", name="Job")

    def run(self, *ats: int) -> None:
        """Run the cells in this order."""
        for at in ats:
            self.cell(at).locator(".cm-content").click()
            self.page.keyboard.press("Shift+Enter")

    def run_all(self) -> None:
        menus = self.page.get_by_role("menubar")
        menus.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()

    def ended(self, at: int) -> None:
        """Return when the cell has its number."""
        expect(self.cell(at).locator(".jp-InputPrompt")).to_have_text(re.compile(r"\[\d+\]:"))

    def answer(self, at: int, prompt: str, text: str) -> None:
        """Type the answer at the cell's prompt."""
        asked = self.output(at).locator(".jp-Stdin").filter(has_text=prompt)
        asked.locator("input").fill(text)
        asked.locator("input").press("Enter")

    def interrupt(self) -> None:
        self.page.get_by_role("button", name="Interrupt the kernel").click()

    def restart(self) -> None:
        self.page.get_by_role("button", name="Restart the kernel", exact=True).click()
        self.page.get_by_role("dialog").get_by_role("button", name=_CONFIRM).click()
        self.shown()

    def shut_down(self) -> None:
        """Shut its kernel down."""
        self.page.get_by_role("menubar").get_by_role("menuitem", name="Kernel").click()
        self.page.get_by_role("menuitem", name="Shut Down Kernel", exact=True).click()
        expect(self.page.get_by_role("button", name="No Kernel").first).to_be_visible()

    def saved(self) -> NotebookNode:
        """Save the notebook in the page, and read the file.

        Wait for the checkpoint, which completes JupyterLab's saving. Until then it ignores other
        requests to save.
        """
        with self.page.expect_response(
            lambda r: r.request.method == "POST" and "/checkpoints" in r.url and r.ok
        ):
            self.page.get_by_role("button", name="Save and create checkpoint").click()
        notebook: NotebookNode = nbformat.read(self.path, as_version=4)
        return notebook

    def reload(self) -> None:
        self.load()
        self.shown()
