"""From a laptop through a gateway that asks for a password and a code: one login, and everything
works: notebooks, the terminal, files, tunnels. All of it real, each in its own network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pexpect
import pytest

from tests.ssh.site import Home, Site
from tests.ssh.waiting import wait_until

PATIENCE_S = 120

_CELL = """%%slurm --out where
import os, socket
print("hello from", socket.gethostname())
where = (os.environ["SLURM_JOB_ID"], socket.gethostname())"""

_SERVER = """
import http.server, os
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"from " + os.uname().nodename.encode())
    def log_message(self, *words): pass
server = http.server.HTTPServer(("", 0), Hello)
print("port", server.server_port, flush=True)
server.serve_forever()
"""

_BROWSER = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())"
_EXECUTE = str(Path(sys.executable).with_name("jupyter-execute"))


class Laptop:
    """What its user types, and what they see."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.home: Home = site.home()
        self.home.write_profile()

    def slurm(self, *words: str) -> str:
        """What `jupyter slurm WORDS` prints, without a terminal: nobody can be asked."""
        return self.run(sys.executable, "-m", "jupyter_slurm", *words)

    def run(self, *argv: str) -> str:
        with self.start(*argv) as process:
            out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, out + err
        return str(out)

    def start(self, *argv: str) -> subprocess.Popen[Any]:
        pipe = subprocess.PIPE
        return self.site.laptop(
            list(argv), self.home, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
        )

    def terminal(self, *words: str) -> pexpect.spawn[str]:
        """The same in a terminal, where somebody answers."""
        argv = self.site.laptop_machine.argv(sys.executable, "-m", "jupyter_slurm", *words)
        return pexpect.spawn(
            argv[0],
            argv[1:],
            env={**self.home.env, "TERM": "dumb"},
            cwd=str(self.home.folder),
            encoding="utf-8",
            timeout=PATIENCE_S,
            dimensions=(40, 200),
        )

    def log_in(self) -> str:
        """With password and code; what the terminal showed."""
        with self.terminal("login") as terminal:
            terminal.expect("Password: ")
            terminal.sendline(self.site.person.password)
            terminal.expect("Verification code: ")
            terminal.sendline(self.site.person.code())
            terminal.expect(pexpect.EOF)
            shown = str(terminal.before)
        assert terminal.exitstatus == 0, shown
        return shown

    def notebook(self, name: str, *cells: str) -> Path:
        made = nbformat.v4.new_notebook()
        made.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
        path = self.home.folder / f"{name}.ipynb"
        nbformat.write(made, path)
        return path

    def close(self) -> None:
        """Ends the agent, whose jobs are gone by then."""
        status = json.loads(self.slurm("status", "--json"))
        if pid := (status.get("agent") or {}).get("pid"):
            os.kill(pid, 15)
            wait_until(lambda: not Path(f"/proc/{pid}").exists())


@pytest.fixture
def laptop(ssh_site: Site) -> Iterator[Laptop]:
    laptop = Laptop(ssh_site)
    yield laptop
    laptop.close()


def test_one_code_serves_two_notebooks_a_terminal_files_and_a_tunnel(laptop: Laptop) -> None:
    site = laptop.site
    before = site.logins()
    shown = laptop.log_in()
    assert site.person.password not in shown

    books = [laptop.notebook(name, "%load_ext jupyter_slurm", _CELL, "where") for name in "ab"]
    running = [laptop.start(_EXECUTE, "--inplace", str(book)) for book in books]
    for process in running:
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, out + err
    found = [nbformat.read(book, as_version=4).cells[2].outputs[0].data for book in books]
    assert all("c" in one["text/plain"] for one in found)
    assert found[0] != found[1]

    assert "c1" in laptop.slurm("queue") or "No jobs" in laptop.slurm("queue")
    (laptop.home.folder / "code").mkdir()
    (laptop.home.folder / "code" / "say it.py").write_text("print('pushed', 6 * 7)")
    laptop.slurm("push", "code", "code")
    assert site.run("python3", "code/say it.py").stdout == "pushed 42\n"

    port = _serve(site)
    laptop.slurm("tunnel", f"c2:{port}", "--local-port", "18765")
    assert laptop.run(sys.executable, "-c", _BROWSER, "http://127.0.0.1:18765/") == "from c2\n"
    assert site.logins() == before + 1


def _serve(site: Site) -> int:
    """A web server on c2; it ends with the site."""
    argv = site.machines["c2"].argv("python3", "-c", _SERVER, user=site.person.account.name)
    server = subprocess.Popen(argv, cwd="/", stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    return int(server.stdout.readline().split()[1])
