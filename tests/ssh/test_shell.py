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
