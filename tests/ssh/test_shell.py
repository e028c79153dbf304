"""A terminal on a node, from the laptop through the gateway and the login node."""

from __future__ import annotations

from collections import Counter

import pexpect

from tests.on_terminal import SLEEPS, answered, prompted
from tests.ssh.laptop import PATIENCE_S, Laptop
from tests.ssh.waiting import wait_until


def sruns(laptop: Laptop) -> int:
    """Return the srun processes on the login node."""
    return Counter(laptop.site.programs())["srun"]


def test_shell_on_a_node_behind_a_gateway_works_as_a_terminal(laptop: Laptop) -> None:
    with laptop.terminal("shell", "--nodelist", "c2", "--mem", "50", "--name", "mine") as terminal:
        laptop.answer(terminal)  # the first command that needs a login asks for it
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
