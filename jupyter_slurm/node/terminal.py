"""The terminals of a job: who comes to which, and for how long they wait for anybody.

Runs on the node, Python 3.6 and later, standard library only. Run in a job's script as

    terminal.py hold NAME KEEP_S WORD...

it runs WORD... for whoever comes to the socket NAME (an abstract one, only for this user's
programs), and more terminals for those who ask for them. When they go the programs run on, and
their last output is kept for when they come back. When nobody is at any of them for KEEP_S they
are hung up. This process ends with the last of them.

A visitor's first frame may be SETUP, JSON: {"number": N}, that terminal; {"new": true, "node":
NODE, "run": WORDS}, a new one; without "new", one on that node that nobody is at, or else a new
one; {}, or another first frame: the one that was left last.
terminal_step.py comes to NAME, or has a terminal without a holder; terminal_one.py has a terminal.
"""

import json
import os
import select
import signal
import socket
import sys
import time

import framing
from terminal_one import NUMBER, SETUP, SILENCE_S, Terminal, TerminalLine

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is not imported on the node
    from typing import Any, Dict, List, Optional  # noqa: F401 - in comments

FIRST_S = 60.0
"""The least time that the first visitor has: a step of srun takes its time on a busy node."""


class Terminals(object):
    """The terminals of a job. `listener` None: the one of a step, which ends with its line."""

    def __init__(self, argv, env, listener=None, keep_s=0.0):
        # type: (List[str], Dict[str, str], Optional[socket.socket], float) -> None
        self.env = env
        self.listener = listener
        self.keep_s = keep_s
        self.newcomers = []  # type: List[TerminalLine]
        self.all = []  # type: List[Terminal]
        self.made = 0
        self.node = env.get("SLURMD_NODENAME", "")
        self.first = self.make(self.node, argv)
        self.told_to_end = False
        self.wake_in, self.wake_out = os.pipe()
        os.set_blocking(self.wake_in, False)
        os.set_blocking(self.wake_out, False)
        signal.set_wakeup_fd(self.wake_out)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.end)
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, self.warn)

    def make(self, node, argv):
        # type: (str, List[str]) -> Terminal
        """Return a new terminal. No number is given twice."""
        self.made += 1
        terminal = Terminal(self.made, node, argv, self.env, self.all)
        self.all.append(terminal)
        return terminal

    def end(self, *_):
        # type: (*Any) -> None
        self.told_to_end = True

    def warn(self, number, *_):
        # type: (int, *Any) -> None
        """Tell the users which signal Slurm sent: this is what sbatch's `--signal` is for."""
        for terminal in self.all:
            terminal.tell("Slurm has sent the job {}.".format(signal.Signals(number).name))

    def run(self):
        # type: () -> int
        """Run the programs and return the first one's exit status; 0 when nobody came for it."""
        while self.all:
            self.wait()
            now_s = time.monotonic()
            self.look_at_the_clock(now_s)
            for terminal in list(self.all):
                if terminal.is_over(now_s) or (self.told_to_end and terminal.program is None):
                    terminal.part()
                    self.all.remove(terminal)
        program = self.first.program
        return program.status or 0 if program is not None else 0

    def wait(self):
        # type: () -> None
        """Wait until something can be read or written, or is due, and do it."""
        reads, writes = [self.wake_in], []
        reads += [line.source for line in self.newcomers]
        if self.listener is not None:
            reads.append(self.listener.fileno())
        for terminal in self.all:
            its_reads, its_writes = terminal.wanted()
            reads += its_reads
            writes += its_writes
        ready, free, _ = select.select(reads, writes, [], self.pause_s())
        if self.wake_in in ready:
            os.read(self.wake_in, 4096)
        for terminal in self.all:
            terminal.serve(ready, free)
        for line in [one for one in self.newcomers if one.source in ready]:
            self.greet(line)
        if self.listener is not None and self.listener.fileno() in ready:
            sock = framing.accepted(self.listener)
            if sock is not None:
                self.newcomers.append(TerminalLine(sock.fileno(), sock.fileno(), sock))
        for terminal in self.all:
            terminal.flush()

    def pause_s(self):
        # type: () -> float
        due_s = [one for terminal in self.all for one in terminal.due_s()]
        due_s += [line.heard_s + SILENCE_S for line in self.newcomers]
        if self.is_alone():
            due_s.append(self.alone_since_s() + self.kept_alone_s())
        return max(0.0, min(due_s) - time.monotonic()) + 0.01

    def is_alone(self):
        # type: () -> bool
        """Tell whether nobody is at any of the terminals."""
        return not self.newcomers and all(one.line is None for one in self.all)

    def alone_since_s(self):
        # type: () -> float
        return max(one.left_s for one in self.all)

    def kept_alone_s(self):
        # type: () -> float
        """Return how long to wait for a user to come, in seconds."""
        nobody_yet = self.listener is not None and all(one.program is None for one in self.all)
        return max(self.keep_s, FIRST_S) if nobody_yet else self.keep_s

    def look_at_the_clock(self, now_s):
        # type: (float) -> None
        for line in [one for one in self.newcomers if now_s - one.heard_s > SILENCE_S]:
            self.newcomers.remove(line)
            line.close()
        kept_s = self.kept_alone_s()
        if self.is_alone() and now_s - self.alone_since_s() >= kept_s and not self.told_to_end:
            self.told_to_end = True
            if self.listener is not None:
                print("jupyter-slurm: no terminal has come for {:.0f} s".format(kept_s))
        if self.told_to_end:
            for terminal in self.all:
                terminal.hang_up(now_s)

    def greet(self, line):
        # type: (TerminalLine) -> None
        """Lead a newcomer to the terminal that the first frame asks for."""
        found = line.receive()
        if found == []:
            return
        self.newcomers.remove(line)
        terminal = None
        if found:
            kind, body = found[0]
            terminal = self.wished(json.loads(body.decode()) if kind == SETUP else {})
            if terminal is None:
                others = [one.number for one in self.all]
                line.say(NUMBER, json.dumps({"number": None, "others": others}).encode())
        if found and terminal is not None:
            terminal.meet(line)
            terminal.take(line, found)
        else:
            line.close()

    def wished(self, wish):
        # type: (Dict[str, Any]) -> Optional[Terminal]
        """Return the terminal that a visitor wishes; make it where that is a new one; None: it is
        not there."""
        here = [one for one in self.all if one.farewell_s is None]
        if "number" in wish:
            return next((one for one in here if one.number == wish["number"]), None)
        node = wish.get("node")
        free = [one for one in here if one.line is None and node in (None, one.node)]
        if free and not wish.get("new"):
            return max(free, key=lambda one: one.left_s)
        if here and not wish.get("new") and node is None:
            # One whose laptop was closed is found before one where somebody sits.
            return min(here, key=lambda one: one.line.heard_s if one.line is not None else 0.0)
        return self.make(node or self.node, wish["run"]) if "run" in wish else None


def hold(name, keep_s, argv):
    # type: (str, float, List[str]) -> int
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind("\0" + name)
    listener.listen(8)
    return Terminals(argv, dict(os.environ), listener, keep_s).run()


def run_in_step(argv):
    # type: (List[str]) -> None
    """Run a program on a terminal of this step's, which ends with its line."""
    terminals = Terminals(argv, dict(os.environ))
    terminals.first.meet(TerminalLine(0, 1))
    terminals.run()


if __name__ == "__main__":
    _, _, given_name, given_keep_s, *given_words = sys.argv
    sys.exit(hold(given_name, float(given_keep_s), given_words))
