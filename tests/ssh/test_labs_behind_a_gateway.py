"""A lab on a node without sshd, from a laptop behind a gateway that asks for a one-time code."""

from __future__ import annotations

import json
import re
import sys

from tests.ssh.laptop import Laptop
from tests.ssh.waiting import wait_until

_BROWSER = """
import http.cookiejar, json, re, sys, urllib.parse, urllib.request
page = open(sys.argv[1]).read()
login = re.search('action="([^"]*)"', page)[1]
token = re.search('name="token" value="([^"]*)"', page)[1]
host, port = re.match("http://([^:/]*):([0-9]*)/", login).groups()
jar = http.cookiejar.CookieJar()
opener = urllib.request.build_opener(
    urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(jar)
)
def ask(path, data=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data)
    request.add_header("Host", f"{host}:{port}")
    return opener.open(request, timeout=60)
form = urllib.parse.urlencode({"token": token, "password": token}).encode()
print(ask("/login?next=%2Fapi%2Fstatus", form).geturl().rpartition("/")[2])
print(json.load(ask("/api/kernelspecs"))["default"])
"""


def test_a_lab_is_reached_through_two_hops_in_one_login_also_with_closed_ports(
    laptop: Laptop,
) -> None:
    laptop.home.write_profile(python=sys.executable)
    laptop.log_in()
    job_id = used_lab(laptop)

    assert "running and ends in" in laptop.slurm("lab", "extend", "far", "--time", "20m")

    with laptop.site.closed_nodes():
        assert is_usable(laptop, job_id)

    stop(laptop)


def test_a_lab_is_reached_on_a_node_whose_ports_do_not_answer(laptop: Laptop) -> None:
    laptop.home.write_profile(python=sys.executable)
    laptop.log_in()
    with laptop.site.closed_nodes(silent=True):
        used_lab(laptop)
        stop(laptop)


def used_lab(laptop: Laptop) -> str:
    """The id of a lab on c2 that somebody has been in."""
    words = ("--nodelist", "c2", "--no-browser", "--name", "far")
    address = laptop.slurm("lab", "start", *words).strip()
    assert re.fullmatch(r"http://lab-[a-z2-7]{8}-[0-9a-f]{20}\.localhost:[0-9]+/", address)
    [job] = json.loads(laptop.slurm("lab", "list", "--json"))
    assert is_usable(laptop, job["id"])
    return str(job["id"])


def is_usable(laptop: Laptop, job_id: str) -> bool:
    [page] = laptop.home.folder.rglob(f"labs/{job_id}.html")
    return laptop.run(sys.executable, "-c", _BROWSER, str(page)) == "status\npython3\n"


def stop(laptop: Laptop) -> None:
    laptop.slurm("lab", "stop")
    wait_until(lambda: json.loads(laptop.slurm("lab", "list", "--json"))[0]["lab"] is None)
    wait_until(lambda: not [one for one in laptop.site.words("c2") if "jupyterlab" in one])
