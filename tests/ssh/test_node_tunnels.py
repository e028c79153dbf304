"""Tunnels into jobs from a laptop behind a gateway: onto a node that lets the user's key in, and
onto one that has no sshd, by way of the job itself."""

from __future__ import annotations

import json
import sys

import pytest

from tests.ssh.laptop import Laptop
from tests.ssh.waiting import wait_until

_SERVER = """
import http.server, os
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"from " + os.uname().nodename.encode() + b" " + b"x" * 3_000_000)
server = http.server.HTTPServer(("127.0.0.1", 18888), Hello)
print("listens", flush=True)
server.serve_forever()
"""
_BROWSER = """
import sys, urllib.request
page = urllib.request.urlopen(sys.argv[1]).read()
print(page[:7].decode(), len(page))
"""


@pytest.mark.parametrize(("node", "route"), [("c1", "hop"), ("c2", "relay")])
def test_port_that_only_the_node_itself_can_reach_is_reached(
    laptop: Laptop, node: str, route: str
) -> None:
    laptop.log_in()
    (laptop.home.folder / "serve.py").write_text(_SERVER)
    laptop.slurm("submit", "serve.py", "--detach", "--nodelist", node)
    [job] = json.loads(laptop.slurm("jobs", "--json"))
    wait_until(lambda: "listens" in laptop.slurm("logs", job["id"]))

    opened = json.loads(laptop.slurm("tunnel", f"{job['id']}:18888", "--json"))
    url = f"http://127.0.0.1:{opened['local_port']}/"
    assert laptop.run(sys.executable, "-c", _BROWSER, url) == f"from {node} 3000008\n"
    [told] = json.loads(laptop.slurm("tunnel", "--json"))
    assert (told["route"], told["problem"]) == (route, None)

    laptop.slurm("tunnel", "--close", told["id"])
    wait_until(lambda: not any("relay.py" in word for word in laptop.site.words(node)))
    laptop.slurm("cancel", job["id"])
