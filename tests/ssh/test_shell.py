"""A terminal on a node, from the laptop through gateway and login node."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pexpect  # type: ignore[import-untyped]

from tests.on_terminal import SLEEPS, answered, prompted
from tests.ssh.laptop import PATIENCE_S, Laptop
from tests.ssh.waiting import wait_until


def sruns(laptop: Laptop) -> int:
    """On the login node."""
    return Counter(laptop.site.programs())["srun"]


def test_shells_on_nodes_behind_the_gateway_are_as_on_a_terminal_there(laptop: Laptop) -> None:
    with laptop.terminal("shell", "--nodelist", "c2", "--mem", "50", "--name", "mine") as terminal:
        laptop.answer(terminal)  # the first to need a login asks for it
        prompted(terminal)
        answered(terminal, "uname -n; stty size; echo größe $PWD", "c2\r\n40 200\r\ngröße /")
        terminal.setwinsize(11, 77)
        resized = "while [ \"$(stty size)\" != '11 77' ]; do sleep 0.1; done; echo so"
        answered(terminal, resized, "so")
        terminal.sendline(f"trap 'echo caught' INT; {SLEEPS}; printf '\\033[31m%s\\n' rot")
        terminal.expect("sleeps")
        terminal.sendintr()
        terminal.expect_exact("\x1b[31mrot")
        terminal.expect("ready> ")
        assert laptop.agent.jobs() == []
        terminal.sendline("sleep 1000 & exit 3")
        terminal.expect(pexpect.EOF)
    assert terminal.exitstatus == 3
    wait_until(lambda: sruns(laptop) == 0, PATIENCE_S)
    laptop.site.wait_until_empty("c2")


def test_shell_in_a_job_outlives_the_agent_and_ends_with_the_line(laptop: Laptop) -> None:
    laptop.notice_soon()
    laptop.log_in()
    script = laptop.home.folder / "job.sh"
    script.write_text("#!/bin/sh\nsleep 1000\n")
    laptop.slurm("submit", "--detach", "--nodes", "2", "--mem", "50", str(script))
    wait_until(lambda: len(laptop.job().nodes) == 2, PATIENCE_S)
    job = laptop.job()
    there = job.nodes[1]
    with laptop.terminal("shell", "--job", job.id, "--node", there) as terminal:
        prompted(terminal)
        answered(terminal, "uname -n; stty size", f"{there}\r\n40 200\r\n")
        pid = laptop.agent_pid()
        assert pid is not None
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: laptop.agent_pid() is None, PATIENCE_S)
        answered(terminal, "echo st''ill", "still")
        terminal.sendline("trap '' HUP TERM; exec sleep 1000")
        laptop.site.restart_gateway()
        terminal.expect(pexpect.EOF)
    assert terminal.exitstatus == 255
    laptop.log_in()
    wait_until(lambda: sruns(laptop) == 0, PATIENCE_S)
    laptop.slurm("cancel", job.id)
    for node in job.nodes:
        laptop.site.wait_until_empty(node)
