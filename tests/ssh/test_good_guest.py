"""The load on login node and controller, which is the same for many jobs as for one job."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.magics.kernel import Kernel
from tests.ssh.laptop import PATIENCE_S, Laptop
from tests.ssh.site import Site

_POLL_S = 1.0
"""The interval in the site's profile. One squeue serves all jobs in this time."""
_SHELLS = 4
"""The maximum number of shells: two helpers, the helper that checks files, and its subshell."""
_LOOKS = 60
_LOOK_EVERY_S = 0.1

_BOOKS = ("a.ipynb", "b.ipynb")
_JOBS_EACH = 3
_CELL = """%%slurm --detach --name talks{number}
import pathlib, time
while not (pathlib.Path.home() / {gate!r}).exists():
    print("a line", flush=True)
    time.sleep(1)
"""


@contextmanager
def watched_notebooks(laptop: Laptop) -> Iterator[None]:
    """Run two notebooks with three jobs each, which cards and the queue's widget watch. In
    addition, the widget's log, a waiting cell, and a program in a terminal each watch one job."""
    gate = f"gate-{laptop.home.folder.name}-books"
    with laptop.kernels(*_BOOKS) as kernels:
        run_in_all(kernels, "%load_ext jupyter_slurm")
        cells = []
        for number in range(_JOBS_EACH):
            cells.append(run_in_all(kernels, _CELL.format(number=number, gate=gate)))
            run_in_all(kernels, f"job{number} = _.id")
        run_in_all(kernels, "%slurm")
        for kernel in kernels:
            click(kernel, "shown")
            click(kernel, "log", kernel.run("print(job1)").text.strip())
        followed = kernels[0].run("print(job2)").text.strip()
        attached = [kernel.start("%slurm attach {job0}") for kernel in kernels]
        follower = laptop.start(*laptop.command("attach", followed))
        for kernel in kernels:
            kernel.until(lambda m: "a line" in m["content"].get("text", ""))
            kernel.until(lambda m: "a line" in _traits(m).get("log", ""))
        yield
        laptop.site.run("touch", gate)
        assert "a line" in follower.communicate(timeout=PATIENCE_S)[0]
        assert follower.returncode == 0
        for at, kernel in enumerate(kernels):
            assert kernel.reply(attached[at]).content["status"] == "ok"
            for request in (attached[at], *(cell[at] for cell in cells[1:])):
                kernel.until_card("COMPLETED", request)


def run_in_all(kernels: list[Kernel], code: str) -> list[str]:
    """Run code in all notebooks. Return the requests' IDs once all have succeeded."""
    requests = [kernel.start(code) for kernel in kernels]
    for kernel, request in zip(kernels, requests, strict=True):
        reply = kernel.reply(request)
        assert reply.content["status"] == "ok", reply.content
    return requests


def click(kernel: Kernel, do: str, job_id: str = "") -> None:
    """Send a click on the queue's widget, as a browser does."""
    widget = kernel.until(lambda m: m["msg_type"] == "comm_open" and "_esm" in _traits(m))
    content = {"method": "custom", "content": {"do": do, "id": job_id}}
    message = {"comm_id": widget["content"]["comm_id"], "data": content}
    kernel.client.shell_channel.send(kernel.client.session.msg("comm_msg", message))


def _traits(message: dict[str, Any]) -> dict[str, Any]:
    """Return a widget's traits from its message."""
    traits: dict[str, Any] = message["content"].get("data", {}).get("state", {})
    return traits


def cost(site: Site) -> Counter[str]:
    """Return the processes that are present on the login node in all `_LOOKS` samples. Check that
    the controller is queried only once per `_POLL_S`."""
    site.run("sdiag")  # the cost of the check itself does not count
    site.forget_rpcs()
    began_s = time.monotonic()
    seen: list[Counter[str]] = []
    for _ in range(_LOOKS):
        seen.append(Counter(site.programs()))
        time.sleep(_LOOK_EVERY_S)
    asked = site.rpcs().get("REQUEST_JOB_INFO", 0)
    most_asked = (time.monotonic() - began_s) / _POLL_S + 2
    assert asked <= most_asked
    always = seen[0]
    for one in seen:
        always &= one
    return always


def test_load_on_the_cluster_does_not_grow_with_jobs_and_notebooks(laptop: Laptop) -> None:
    laptop.log_in()
    with watched_notebooks(laptop):
        always = cost(laptop.site)
    assert set(always) == {"sh"}
    assert always.total() <= _SHELLS
