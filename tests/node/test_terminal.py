"""The terminal of a job on this machine: a program that outlives who sits there, and its end."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from jupyter_slurm.jobs.kinds.terminal import Terminal as TerminalKind
from jupyter_slurm.transport import node_program
from jupyter_slurm.transport.local import LocalTransport
from tests.near_end import HungUpError, NearEnd
from tests.ssh.waiting import wait_until

NODE = Path(__file__).parents[2] / "jupyter_slurm" / "node"
PATIENCE_S = 60
HOLD = """
import sys
sys.path.insert(0, {node!r})
import terminal, terminal_one
terminal.SILENCE_S = terminal_one.SILENCE_S = {silence_s!r}
terminal.FIRST_S = {first_s!r}
sys.exit(terminal.hold({name!r}, {keep_s!r}, {argv!r}))
"""


class Held:
    """A terminal that is held, as in a job's script."""

    def __init__(self, argv: list[str], **times_s: float) -> None:
        times_s = {"keep_s": 600.0, "silence_s": 600.0, "first_s": 60.0, **times_s}
        self.name = f"jslurm-test-{secrets.token_hex(8)}"
        code = HOLD.format(node=str(NODE), name=self.name, argv=argv, **times_s)
        self.came: list[NearEnd] = []
        self.process = subprocess.Popen(
            # As what a shell starts by `&`: it ignores SIGINT.
            ["/bin/sh", "-c", 'trap "" INT QUIT; exec "$@"', "sh", sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            # A node has no language, whatever this machine has.
            env={k: v for k, v in os.environ.items() if k != "LANG" and not k.startswith("LC_")},
        )

    def come(self, **wish: object) -> NearEnd:
        """Somebody who comes, and says which terminal they wish where they say anything."""
        near = self._connected()
        if wish:
            near.say(b"S", json.dumps(wish).encode())
        return near

    def another(self, *argv: str, node: str = "n1", **wish: object) -> NearEnd:
        """Somebody who has sat down at a new terminal."""
        near = self.come(new=True, node=node, run=list(argv), **wish)
        near.begin()
        return near

    def _connected(self) -> NearEnd:
        while True:
            sock = socket.socket(socket.AF_UNIX)
            try:
                sock.connect(f"\0{self.name}")
            except ConnectionRefusedError:
                sock.close()
                assert self.process.poll() is None
                time.sleep(0.02)
            else:
                self.came.append(NearEnd(sock))
                return self.came[-1]

    def end(self) -> tuple[int, str]:
        """Its exit status, and what it has printed."""
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out

    def program(self) -> psutil.Process:
        (child,) = psutil.Process(self.process.pid).children()
        return child


Hold = Callable[..., Held]


@pytest.fixture
def hold() -> Iterator[Hold]:
    """Holds a terminal with `WORDS` in it."""
    made: list[Held] = []

    def make(*argv: str, **times_s: float) -> Held:
        made.append(Held(list(argv), **times_s))
        return made[-1]

    yield make
    for held in made:
        for near in held.came:
            near.close()
        if held.process.poll() is None:
            held.process.terminate()
        held.process.communicate(timeout=PATIENCE_S)


def test_the_program_begins_with_who_comes_first_and_has_their_terminal(hold: Hold) -> None:
    held = hold("/bin/sh", "-c", "stty size; echo $TERM $LANG; tty; exit 3")
    near = held.come()
    assert psutil.Process(held.process.pid).children() == []
    near.begin(12, 34, TERM="vt7", LANG="C.UTF-8")
    assert near.status() == 3
    assert near.shown.startswith("12 34\r\nvt7 ")
    assert "/dev/pts/" in near.shown
    near.close()
    assert held.end() == (3, "")


def test_it_runs_on_alone_and_tells_who_comes_back_the_last_that_it_wrote(
    hold: Hold, tmp_path: Path
) -> None:
    code = "read x; seq 100000; echo rea''dy; : >written; read x; echo got $x"
    held = hold("/bin/sh", "-c", f"cd '{tmp_path}'; {code}")
    near = held.come()
    near.begin()
    near.type("begin")
    near.until("begin\r\n")
    near.close()
    wait_until((tmp_path / "written").exists, PATIENCE_S)
    again = held.come()
    again.begin(30, 100)
    again.until("ready")
    assert len(again.shown) < 200_000
    assert "99999\r\n100000\r\nready" in again.shown
    again.type("it")
    assert again.status() == 0
    assert "got it" in again.shown


def test_all_of_a_lot_of_output_comes_to_a_slow_reader(hold: Hold) -> None:
    near = hold("seq", "300000").come()
    near.begin()
    time.sleep(0.2)  # nothing is read meanwhile
    assert near.status() == 0
    assert near.shown == "".join(f"{number}\r\n" for number in range(1, 300001))


def test_what_is_typed_faster_than_it_is_read_is_not_lost(hold: Hold) -> None:
    near = hold("/bin/sh", "-c", "stty raw -echo; echo go; sleep 1; head -c 500000 | cksum").come()
    near.begin()
    near.until("go")
    data = b"0123456789" * 50_000
    for at in range(0, len(data), 10_000):
        near.say(b"D", data[at : at + 10_000])
    cksum = subprocess.run(["cksum"], input=data, stdout=subprocess.PIPE, check=True).stdout
    near.until(cksum.decode().strip())


def test_another_terminal_takes_its_place(hold: Hold) -> None:
    held = hold("/bin/sh", "-c", "read x; echo got $x")
    first = held.come()
    first.begin()
    second = held.come()
    second.begin()
    with pytest.raises(HungUpError, match="taken"):
        first.status()
    second.type("it")
    second.until("got it")


CAT = ("/bin/sh", "-c", 'echo "$0" is here; exec cat', "one")


def at(near: NearEnd) -> str:
    """Which of the programs they sit at."""
    near.until(" is here\r\n")
    return near.shown.split()[0]


def left(held: Held, near: NearEnd) -> None:
    """They go; the holder has noticed, since it has welcomed another since then."""
    near.close()
    knock = held.come(number=999)
    with pytest.raises(HungUpError):
        knock.status()


def test_each_of_many_terminals_is_kept_and_found_again(hold: Hold) -> None:
    held = hold(*CAT)
    first = held.come()
    first.begin()
    second = held.another(*CAT[:3], "two")
    third = held.another(*CAT[:3], "three", node="n2")
    assert [at(near) for near in (first, second, third)] == ["one", "two", "three"]
    assert third.told == {"number": 3, "node": "n2", "others": [1, 2]}
    left(held, third)
    left(held, second)
    came = [held.come(), held.come(node="n2", run=["false"]), held.come(number=1)]
    for near in came:
        near.begin()
    assert [at(near) for near in came] == ["two", "three", "one"]
    with pytest.raises(HungUpError, match="taken"):
        first.status()
    came[2].say(b"D", b"\x04")
    assert came[2].status() == 0
    assert came[2].told == {"number": 1, "node": "", "others": [2, 3]}
    came[0].type("still")
    came[0].until("still\r\nstill\r\n")


def test_who_comes_where_somebody_is_at_each_takes_the_one_that_was_silent_for_longest(
    hold: Hold,
) -> None:
    held = hold(*CAT)
    first = held.come()
    first.begin()
    second = held.another(*CAT[:3], "two")
    assert (at(first), at(second)) == ("one", "two")
    first.type("x")
    first.until("x\r\nx\r\n")
    came = held.come()
    came.begin()
    assert at(came) == "two"
    with pytest.raises(HungUpError, match="taken"):
        second.status()


def test_a_node_on_which_somebody_is_at_each_terminal_gets_another(hold: Hold) -> None:
    held = hold(*CAT)
    held.come().begin()
    second = held.another(*CAT[:3], "two", node="n2")
    assert at(second) == "two"
    third = held.come(node="n2", run=[*CAT[:3], "three"])
    third.begin()
    assert at(third) == "three"


def test_a_terminal_that_is_not_there_is_told_with_those_that_are(hold: Hold) -> None:
    held = hold(*CAT)
    held.come().begin()
    near = held.come(number=2)
    with pytest.raises(HungUpError):
        near.status()
    assert near.told == {"number": None, "others": [1]}


def test_the_job_ends_with_the_last_and_as_the_first_has_ended(hold: Hold) -> None:
    held = hold("/bin/sh", "-c", "exit 3")
    second = held.another(*CAT)
    assert at(second) == "one"
    first = held.come(number=1)
    first.begin()
    assert first.status() == 3
    first.close()
    second.type("on")
    second.until("on\r\non\r\n")
    second.say(b"D", b"\x04")
    assert second.status() == 0
    second.close()
    assert held.end() == (3, "")


def test_who_does_not_hang_up_at_the_end_keeps_nobody_waiting_elsewhere(hold: Hold) -> None:
    held = hold("true")
    second = held.another(*CAT)
    first = held.come(number=1)
    first.begin()
    assert first.status() == 0
    assert at(second) == "one"  # what is typed before that is shown before it
    second.type("at once")
    second.until("at once\r\nat once\r\n")
    with pytest.raises(subprocess.TimeoutExpired):
        held.process.wait(0.0)


def test_nobody_is_gone_from_a_job_while_somebody_is_at_one_of_its_terminals(hold: Hold) -> None:
    held = hold(*CAT, keep_s=0.5)
    first = held.come()
    first.begin()
    second = held.another(*CAT[:3], "two")
    assert (at(first), at(second)) == ("one", "two")
    first.close()
    with pytest.raises(subprocess.TimeoutExpired):
        held.process.wait(2.0)
    second.close()
    assert held.end() == (129, "jupyter-slurm: no terminal has come for 0 s\n")


def test_all_terminals_end_with_the_job(hold: Hold) -> None:
    held = hold("/bin/sh", "-c", "trap '' HUP TERM; echo $0 is here; while :; do sleep 1; done")
    first = held.come()
    first.begin()
    second = held.another(*CAT)
    assert at(first)
    assert at(second)
    held.process.terminate()
    assert (first.status(), second.status()) == (137, 129)
    assert (first.said, second.said) == (["The job is being ended."],) * 2
    first.close()
    second.close()
    assert held.end()[0] == 137


def test_ctrl_c_and_the_erase_key_are_those_of_a_terminal(hold: Hold) -> None:
    near = hold("/bin/sh", "-c", "trap 'echo int' INT; cat; echo done").come()
    near.begin()
    near.say(b"D", "xé\x7fy\r".encode())
    near.until("xy\r\n")
    near.say(b"D", b"\x03")
    near.until("int\r\ndone")


def test_nobody_for_long_hangs_the_program_up(hold: Hold) -> None:
    held = hold("sleep", "1000", keep_s=0.5)
    near = held.come()
    near.begin()
    wait_until(lambda: psutil.Process(held.process.pid).children() != [], PATIENCE_S)
    near.close()
    assert held.end() == (129, "jupyter-slurm: no terminal has come for 0 s\n")


def test_nobody_at_all_is_an_end_as_well(hold: Hold) -> None:
    status, said = hold("sleep", "1000", keep_s=0.0, first_s=1.0).end()
    assert (status, said) == (0, "jupyter-slurm: no terminal has come for 1 s\n")


def test_who_comes_first_may_take_longer_than_the_shell_is_kept(hold: Hold) -> None:
    held = hold("cat", keep_s=0.0)
    with pytest.raises(subprocess.TimeoutExpired):
        held.process.wait(2.0)
    near = held.come()
    near.begin()
    near.type("x")
    near.until("x\r\nx\r\n")
    near.close()
    assert held.end() == (129, "jupyter-slurm: no terminal has come for 0 s\n")


def test_who_is_silent_is_gone(hold: Hold) -> None:
    held = hold("cat", silence_s=5.0)
    near = held.come()
    near.begin()
    with pytest.raises(HungUpError):
        near.status()
    again = held.come()
    again.begin()
    again.type("still")
    again.until("still\r\nstill\r\n")


def test_a_program_that_ignores_the_end_of_the_job_is_killed(hold: Hold) -> None:
    held = hold("/bin/sh", "-c", "trap '' HUP TERM; echo rea''dy; while :; do sleep 1; done")
    near = held.come()
    near.begin()
    near.until("ready")
    held.process.terminate()
    assert near.status() == 137
    assert near.said == ["The job is being ended."]
    near.close()
    assert held.end()[0] == 137


def test_a_warning_of_slurms_is_told(hold: Hold) -> None:
    held = hold("cat")
    near = held.come()
    near.begin()
    near.type("x")
    near.until("x\r\nx\r\n")
    held.process.send_signal(signal.SIGUSR1)
    near.type("y")
    near.until("y\r\ny\r\n")
    assert near.said == ["Slurm has sent the job SIGUSR1."]


def test_what_a_shell_has_put_aside_ends_with_it(hold: Hold) -> None:
    held = hold("bash", "-ic", "sleep 4711 & (trap '' HUP; exec sleep 4711) & jobs -p; exit 5")
    near = held.come()
    near.begin()
    assert near.status() == 5
    pids = {int(line) for line in near.shown.split() if line.isdecimal()}
    near.close()
    assert held.end()[0] == 5
    assert len(pids) == 2
    wait_until(lambda: not any(map(psutil.pid_exists, pids)), PATIENCE_S)


def test_a_socket_of_somebody_else_gets_nothing(hold: Hold) -> None:
    if os.geteuid() != 0:
        pytest.skip("Only root can be somebody else.")
    held = hold("cat")
    held.come().close()
    code = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('\\0{held.name}')\n"
    code += "s.settimeout(60); print(s.recv(1))"
    # Others may not look into the folder of this very Python.
    argv = ["/usr/bin/python3", "-c", code]
    done = subprocess.run(argv, user=65534, cwd="/", capture_output=True, text=True, check=False)
    assert done.stdout == "b''\n" or "ConnectionResetError" in done.stderr


def stepped(setup: dict[str, object]) -> NearEnd:
    """What runs in a step, here without srun."""
    names = [*TerminalKind.node_files, "terminal_step.py"]
    channel, _ = node_program.begin(
        LocalTransport().converse, lambda words: words, sys.executable, node_program.TERMINAL, names
    )
    near = NearEnd(channel)
    near.say(b"S", json.dumps(setup).encode())
    return near


def test_a_terminal_in_a_step_ends_with_its_program() -> None:
    near = stepped({"run": ["/bin/sh", "-c", "stty size; exit 9"]})
    near.begin(5, 50)
    assert near.status() == 9
    assert near.shown == "5 50\r\n"
    near.close()


def test_a_program_in_a_step_ends_with_its_terminal() -> None:
    near = stepped({"run": ["/bin/sh", "-c", "echo at $$; exec sleep 1000"]})
    near.begin()
    near.until("at ")
    pid = int(near.until("\r\n"))
    near.close()
    wait_until(lambda: not psutil.pid_exists(pid), PATIENCE_S)


def test_a_step_comes_to_the_terminal_that_the_job_holds(hold: Hold) -> None:
    held = hold("cat")
    near = stepped({"hold": held.name})
    near.begin()
    near.type("through")
    near.until("through\r\nthrough\r\n")
    near.close()
    held.come().begin()
