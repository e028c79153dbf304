"""A terminal on the node: a program on a pseudo-terminal, and frames to and from its user.

Runs on the node, Python 3.6 and later, standard library only. Run in a job's script as

    terminal.py hold NAME KEEP_S WORD...

it runs WORD... for whoever comes to the socket NAME (an abstract one, only for this user's
programs). When they go the program runs on, and its last output is kept for when they come back.
When nobody comes for KEEP_S the program is hung up. This process ends with the program.
terminal_step.py comes to NAME, or has a terminal without a holder; terminal_pty.py has the program.

The two ends exchange frames (framing.py). The other end, cli/console.py, sends BEGIN first; until
then nothing is sent from here but SAID and ALIVE.
"""

import collections
import json
import os
import select
import signal
import socket
import struct
import sys
import time

import framing
import terminal_pty

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is not imported on the node
    from typing import Any, Deque, Dict, List, Optional, Tuple  # noqa: F401 - in comments

SETUP = b"S"  # to here, first of all, in a step: JSON (terminal_step.py)
BEGIN = b"B"  # to here: JSON with rows, columns and env of the user's terminal
DATA = b"D"  # both ways
SIZE = b"W"  # to here: rows and columns
SAID = b"T"  # from here: a line of ours for the user, UTF-8
TAKEN = b"L"  # from here, last: another terminal has come
EXIT = b"X"  # from here, last: the program's exit status, as a shell tells it
WINDOW = struct.Struct(">HH")
STATUS = struct.Struct(">i")

SILENCE_S = 90.0
"""A peer that has been silent for so long is gone, even if nothing reported that."""
FIRST_S = 60.0
"""The least time that the first visitor has: a step of srun takes its time on a busy node."""
HANGUP_S = 3.0
FAREWELL_S = 5.0
KEPT_BYTES = 64 * 1024
PENDING_MOST = 256 * 1024
"""No more is read from one side while so much waits for the other."""


class TerminalLine(framing.Line):
    """The line to the user's terminal."""

    begun = False


class Terminal(object):
    """A program on a pseudo-terminal and the line to its user. `listener` None: there is only this
    one line, and the program ends with it."""

    def __init__(
        self,
        argv,  # type: List[str]
        env,  # type: Dict[str, str]
        line=None,  # type: Optional[TerminalLine]
        listener=None,  # type: Optional[socket.socket]
        keep_s=0.0,  # type: float
    ):
        # type: (...) -> None
        self.argv = argv
        self.env = env
        self.line = line
        self.listener = listener
        self.keep_s = keep_s
        self.alone_s = time.monotonic()
        self.program = None  # type: Optional[terminal_pty.Program]
        self.kept = collections.deque()  # type: Deque[bytes]
        self.kept_bytes = 0
        self.kill_s = None  # type: Optional[float]
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

    def end(self, *_):
        # type: (*Any) -> None
        self.told_to_end = True

    def warn(self, number, *_):
        # type: (int, *Any) -> None
        """Tell the user which signal Slurm sent: this is what sbatch's `--signal` is for."""
        self.tell("Slurm has sent the job {}.".format(signal.Signals(number).name))

    def run(self):
        # type: () -> int
        """Run the program and return its exit status; 0 when nobody came for it."""
        while True:
            self.wait()
            self.look_at_the_clock()
            if self.program is None:
                if self.told_to_end:
                    return 0
                continue
            self.program.reap()
            if self.program.status is not None:
                self.take_leave(self.program)
                self.program.sweep()
                return self.program.status

    def wait(self):
        # type: () -> None
        """Wait until something can be read or written, or is due, and do it."""
        line, program = self.line, self.program
        reads, writes = self.wanted()
        ready, free, _ = select.select(reads, writes, [], self.pause_s())
        if self.wake_in in ready:
            os.read(self.wake_in, 4096)
        if program is not None and program.master in ready:
            self.take_output(program)
        if program is not None and program.master in free:
            program.write()
        if line is not None and line.source in ready:
            self.take_frames(line)
        if self.listener is not None and self.listener.fileno() in ready:
            self.welcome(self.listener)
        if self.line is not None and not self.line.flush():
            self.part()

    def wanted(self):
        # type: () -> Tuple[List[int], List[int]]
        """Return what to read from and to write to: nothing from one side that the other has no
        room for."""
        line, program = self.line, self.program
        reads, writes = [self.wake_in], []
        if self.listener is not None:
            reads.append(self.listener.fileno())
        if line is not None and (program is None or len(program.pending) < PENDING_MOST):
            reads.append(line.source)
        if line is not None and line.outbox:
            writes.append(line.sink)
        if program is not None and program.open:
            if line is None or len(line.outbox) < PENDING_MOST:
                reads.append(program.master)
            if program.pending:
                writes.append(program.master)
        return reads, writes

    def pause_s(self):
        # type: () -> float
        alone_until_s = self.alone_s + self.kept_alone_s()
        due_s = alone_until_s if self.line is None else self.line.heard_s + SILENCE_S
        if self.kill_s is not None:
            due_s = min(due_s, self.kill_s)
        return max(0.0, due_s - time.monotonic()) + 0.01

    def kept_alone_s(self):
        # type: () -> float
        """Return how long to wait for a user to come, in seconds."""
        nobody_yet = self.listener is not None and self.program is None
        return max(self.keep_s, FIRST_S) if nobody_yet else self.keep_s

    def look_at_the_clock(self):
        # type: () -> None
        now_s = time.monotonic()
        if self.line is not None and now_s - self.line.heard_s > SILENCE_S:
            self.part()
        kept_s = self.kept_alone_s()
        if self.line is None and now_s - self.alone_s >= kept_s and not self.told_to_end:
            self.told_to_end = True
            if self.listener is not None:
                print("jupyter-slurm: no terminal has come for {:.0f} s".format(kept_s))
        if self.told_to_end and self.program is not None:
            self.hang_up(self.program, now_s)

    def hang_up(self, program, now_s):
        # type: (terminal_pty.Program, float) -> None
        if self.kill_s is None:
            self.kill_s = now_s + HANGUP_S
            program.signal(signal.SIGHUP)
            program.signal(signal.SIGCONT)
            self.tell("The job is being ended.")
        elif now_s > self.kill_s:
            self.kill_s = now_s + HANGUP_S
            program.signal(signal.SIGKILL)

    def tell(self, text):
        # type: (str) -> None
        if self.line is not None:
            self.line.say(SAID, text.encode())

    def take_output(self, program):
        # type: (terminal_pty.Program) -> None
        data = program.read()
        if not data:
            return
        self.kept.append(data)
        self.kept_bytes += len(data)
        while self.kept_bytes - len(self.kept[0]) >= KEPT_BYTES:
            self.kept_bytes -= len(self.kept.popleft())
        if self.line is not None and self.line.begun:
            self.line.say(DATA, data)

    def take_frames(self, line):
        # type: (TerminalLine) -> None
        found = line.receive()
        if found is None:
            self.part()
            return
        for kind, body in found:
            if kind == BEGIN:
                self.begin(line, json.loads(body.decode()))
            elif self.program is not None and kind == DATA:
                self.program.pending += body
            elif self.program is not None and kind == SIZE:
                self.program.resize(*WINDOW.unpack(body))
        if self.program is not None:
            self.program.write()

    def begin(self, line, told):
        # type: (TerminalLine, Dict[str, Any]) -> None
        line.begun = True
        if self.program is None:
            env = terminal_pty.dressed(self.env, told["env"])
            self.program = terminal_pty.Program(self.argv, env, told["rows"], told["columns"])
            return
        if self.kept:
            line.say(DATA, b"".join(self.kept))
        self.program.resize(told["rows"], told["columns"])
        self.program.redraw()

    def welcome(self, listener):
        # type: (socket.socket) -> None
        sock = framing.accepted(listener)
        if sock is None:
            return
        if self.line is not None:
            self.line.say(TAKEN)
            self.part()
        self.line = TerminalLine(sock.fileno(), sock.fileno(), sock)

    def part(self):
        # type: () -> None
        if self.line is not None:
            self.line.close()
            self.line = None
            self.alone_s = time.monotonic()

    def take_leave(self, program):
        # type: (terminal_pty.Program) -> None
        """Send the program's last output and its status; wait until the user's end hangs up, which
        shows that it has them."""
        for _ in range(64):
            if not program.open or not select.select([program.master], [], [], 0)[0]:
                break
            self.take_output(program)
        assert program.status is not None
        if self.line is None:
            return
        self.line.say(EXIT, STATUS.pack(program.status))
        give_up_s = time.monotonic() + FAREWELL_S
        while self.line.flush() and time.monotonic() < give_up_s:
            sinks = [self.line.sink] if self.line.outbox else []
            ready, _, _ = select.select([self.line.source], sinks, [], 0.5)
            if ready and self.line.receive() is None:
                break


def hold(name, keep_s, argv):
    # type: (str, float, List[str]) -> int
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind("\0" + name)
    listener.listen(8)
    return Terminal(argv, dict(os.environ), listener=listener, keep_s=keep_s).run()


if __name__ == "__main__":
    _, _, given_name, given_keep_s, *given_words = sys.argv
    sys.exit(hold(given_name, float(given_keep_s), given_words))
