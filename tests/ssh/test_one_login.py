"""Work from a laptop through a gateway with password and code. After one login, notebooks, the
terminal, files and tunnels work. All machines are real network namespaces."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import nbformat

from tests.ssh.laptop import Laptop
from tests.ssh.site import Site

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


def test_one_login_serves_notebooks_terminal_files_and_tunnel(laptop: Laptop) -> None:
    site = laptop.site
    before = site.logins()
    shown = laptop.log_in()
    assert site.person.password not in shown

    books = [laptop.notebook(name, "%load_ext jupyter_slurm", _CELL, "where") for name in "ab"]
    laptop.execute(*books)
    found = [nbformat.read(book, as_version=4).cells[2].outputs[0].data for book in books]
    assert all("c" in one["text/plain"] for one in found)
    assert found[0] != found[1]

    (laptop.home.folder / "say.sh").write_text("#!/bin/sh\necho said on $SLURMD_NODENAME\n")
    assert "said on c" in laptop.slurm("submit", "say.sh")

    (laptop.home.folder / "code").mkdir()
    (laptop.home.folder / "code" / "say it.py").write_text("print('pushed', 6 * 7)")
    laptop.slurm("push", "code", "code")
    assert site.run("python3", "code/say it.py").stdout == "pushed 42\n"

    with served(site) as port:
        laptop.slurm("tunnel", f"c2:{port}", "--local-port", "18765")
        page = laptop.run(sys.executable, "-c", _BROWSER, "http://127.0.0.1:18765/")
    assert page == "from c2\n"
    assert site.logins() == before + 1


@contextmanager
def served(site: Site) -> Iterator[int]:
    """Run a web server on c2, and yield its port."""
    argv = site.machines["c2"].argv(
        "/usr/bin/python3", "-c", _SERVER, user=site.person.account.name
    )
    server = subprocess.Popen(argv, cwd="/", stdout=subprocess.PIPE, text=True)
    with server:
        assert server.stdout is not None
        yield int(server.stdout.readline().split()[1])
        server.kill()
