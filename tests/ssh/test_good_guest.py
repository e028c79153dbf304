"""What our being there costs login node and controller: for many jobs the same as for one."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tests.ssh.laptop import PATIENCE_S, Laptop
from tests.ssh.site import Site
from tests.ssh.waiting import wait_until

_POLL_S = 1.0
"""The site's profile says so: one squeue for all jobs in that time."""
_SHELLS = 8
"""Two helpers at most, of three each, and the one that looks at the files, with its subshell."""
_AT_MOST = 15
"""With a subshell and two programs in each helper, and with a `sleep` or `wc`."""
_LOOKS = 60
_LOOK_EVERY_S = 0.1

_TALKS = """#!/bin/bash
while [ ! -e ~/{gate} ]; do echo "a line"; sleep 1; done
"""


@contextmanager
def watched_jobs(laptop: Laptop, count: int) -> Iterator[None]:
    """So many jobs that write a line a second, each followed by a program of its own."""
    gate = f"gate-{laptop.home.folder.name}-{count}"
    script = laptop.home.folder / "talks.sh"
    script.write_text(_TALKS.format(gate=gate))
    followers: list[subprocess.Popen[str]] = []
    for number in range(count):
        words = ("submit", str(script), "--name", f"talks{number}", "--mem-per-cpu", "10")
        followers.append(laptop.start(*laptop.command(*words)))
    running = ("squeue", "-h", "-t", "R", "-o", "%j")
    site = laptop.site
    wait_until(lambda: len(site.run(*running).stdout.split()) >= min(count, 16), PATIENCE_S)
    yield
    site.run("touch", gate)
    for follower in followers:
        follower.communicate(timeout=PATIENCE_S)
        assert follower.returncode == 0


def cost(site: Site) -> tuple[Counter[str], int]:
    """What runs on the login node all the time, and how much at most at once, while `_LOOKS` are
    taken and the controller is asked once in `_POLL_S`."""
    site.run("sdiag")  # the look itself is no cost of ours
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
    return always, max(one.total() for one in seen)


def test_twenty_watched_jobs_cost_the_far_side_no_more_than_one(laptop: Laptop) -> None:
    laptop.log_in()
    site = laptop.site
    with watched_jobs(laptop, 1):
        always, at_most = cost(site)
    with watched_jobs(laptop, 20):
        always_20, at_most_20 = cost(site)
    assert set(always) == {"sh"}
    assert max(always.total(), always_20.total()) <= _SHELLS
    assert max(at_most, at_most_20) <= _AT_MOST
