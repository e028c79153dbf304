"""A terminal on a node, from the laptop through gateway and login node; what it costs them."""

from __future__ import annotations

from collections import Counter

import pexpect  # type: ignore[import-untyped]

from tests.cli.test_shell import answered, prompted
from tests.ssh.laptop import PATIENCE_S, Laptop
from tests.ssh.waiting import wait_until

_AT_MOST = 14
"""The shells of the connection, and for each terminal one with an srun, which is two processes."""


def sruns(laptop: Laptop) -> int:
    """On the login node."""
    return Counter(laptop.site.programs())["srun"]


def test_shell_on_a_node_behind_the_gateway_and_what_it_costs(laptop: Laptop) -> None:
    with laptop.terminal("shell", "--nodelist", "c2", "--mem", "50") as terminal:
        laptop.answer(terminal)  # the first to need a login asks for it
        prompted(terminal)
        answered(terminal, "uname -n; stty size; echo größe", "c2\r\n40 200\r\ngröße")
        job = laptop.job()
        programs = laptop.site.programs()
        assert Counter(programs)["srun"] == 2
        assert len(programs) <= _AT_MOST
        with laptop.terminal("shell", "--job", job.id, "--new") as beside:
            prompted(beside)
            answered(beside, "echo $SLURM_JOB_ID.", f"{job.slurm_id}.")
            assert sruns(laptop) == 4
            beside.sendline("exit 5")
            beside.expect(pexpect.EOF)
        assert beside.exitstatus == 5
        wait_until(lambda: sruns(laptop) == 2, PATIENCE_S)
        terminal.sendline("exit 7")
        terminal.expect(pexpect.EOF)
    assert terminal.exitstatus == 7
    wait_until(lambda: sruns(laptop) == 0, PATIENCE_S)
    wait_until(lambda: set(laptop.site.programs()) <= {"sh"}, PATIENCE_S)
    laptop.site.wait_until_empty("c2")


def test_terminals_of_two_nodes_outlive_a_line_that_is_cut_and_cost_the_login_node_nothing(
    laptop: Laptop,
) -> None:
    laptop.notice_soon()
    laptop.log_in()
    with laptop.terminal("shell", "--nodes", "2", "--mem", "50") as first:
        prompted(first)
        answered(first, "mine=my1; echo se''en", "seen")
        wait_until(lambda: len(laptop.job().nodes) == 2, PATIENCE_S)
        job = laptop.job()
        there = job.nodes[1]
        with laptop.terminal("shell", "--job", job.id, "--node", there) as second:
            second.expect_exact(f"[terminal 2 of 2, node {there}]")
            second.sendline("PS1='ready''> '; stty -echo; echo be''gun")
            second.expect("begun\r\n")
            second.expect("ready> ")
            answered(second, "mine=my2; uname -n; stty size", f"{there}\r\n40 200\r\n")
            assert sruns(laptop) == 4
            ran = laptop.agent.status().commands
            # One of them is asked for its version.
            assert sum(count for name, count in ran.items() if "srun" in name) <= 3
            laptop.site.restart_gateway()
            for terminal in (first, second):
                terminal.expect("The terminal is lost")
                terminal.expect(pexpect.EOF)
    wait_until(lambda: sruns(laptop) == 0, PATIENCE_S)
    laptop.log_in()
    with laptop.terminal("shell", "--job", job.id, "--node", there) as second:
        second.expect_exact(f"[terminal 2 of 2, node {there}]")
        answered(second, "echo $mine on $(uname -n).", f"my2 on {there}.")
        with laptop.terminal("shell", "--job", job.id) as first:
            first.expect_exact("[terminal 1 of 2")
            answered(first, "echo $mine.", "my1.")
            first.sendline("exit")
            first.expect_exact("its other terminals: 2")
            first.expect(pexpect.EOF)
        second.sendline("exit")
        second.expect(pexpect.EOF)
    wait_until(lambda: sruns(laptop) == 0, PATIENCE_S)
    for node in job.nodes:
        laptop.site.wait_until_empty(node)


def test_shell_outlives_a_line_that_is_cut(laptop: Laptop) -> None:
    laptop.notice_soon()
    laptop.log_in()
    with laptop.terminal("shell", "--nodelist", "c1", "--mem", "50") as terminal:
        prompted(terminal)
        answered(terminal, "kept='the same'; echo se''en", "seen")
        job = laptop.job()
        laptop.site.restart_gateway()
        terminal.expect("The terminal is lost")
        terminal.expect(f"jupyter slurm shell --job {job.id}")
        terminal.expect(pexpect.EOF)
    assert terminal.exitstatus == 255
    laptop.log_in()
    with laptop.terminal("shell", "--job", job.id) as again:
        again.expect("seen")
        answered(again, "echo $kept shell", "the same shell")
        again.sendline("exit")
        again.expect(pexpect.EOF)
    assert again.exitstatus == 0
    wait_until(lambda: sruns(laptop) == 0, PATIENCE_S)
    laptop.site.wait_until_empty("c1")
