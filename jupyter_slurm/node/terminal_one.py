"""One terminal: a program on a pseudo-terminal, and the line to whoever is there.

Runs on the node, Python 3.6 and later, standard library only. terminal.py has the terminals of a
job, decides who comes to which, and waits; terminal_pty.py has the program.

The two ends exchange frames (framing.py). The other end, cli/console.py, sends BEGIN first; until
then nothing is sent from here but SAID and ALIVE.
"""

import collections
import json
import select
import signal
import struct
import time

import framing
import terminal_pty

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is not imported on the node
    from typing import Any, Deque, Dict, List, Optional, Tuple  # noqa: F401 - in comments

SETUP = b"S"  # to here, first of all: JSON (terminal_step.py, terminal.py)
BEGIN = b"B"  # to here: JSON with rows, columns and env of the user's terminal
DATA = b"D"  # both ways
SIZE = b"W"  # to here: rows and columns
NUMBER = b"N"  # from here: JSON with the terminal's number and node, and the job's other terminals
SAID = b"T"  # from here: a line of ours for the user, UTF-8
TAKEN = b"L"  # from here, last: another terminal has come
EXIT = b"X"  # from here, last: the program's exit status, as a shell tells it
WINDOW = struct.Struct(">HH")
STATUS = struct.Struct(">i")

SILENCE_S = 90.0
"""A peer that has been silent for so long is gone, even if nothing reported that."""
HANGUP_S = 3.0
FAREWELL_S = 5.0
KEPT_BYTES = 64 * 1024
PENDING_MOST = 256 * 1024
"""No more is read from one side while so much waits for the other."""


class TerminalLine(framing.Line):
    """The line to the user's terminal."""

    begun = False


class Terminal(object):
    """A program on a pseudo-terminal, which begins with the first who comes, and their line."""

    def __init__(self, number, node, argv, env, company):
        # type: (int, str, List[str], Dict[str, str], List[Terminal]) -> None
        """`company`: the terminals of the job, this one among them once it is there."""
        self.number = number
        self.node = node
        self.argv = argv
        self.env = env
        self.company = company
        self.line = None  # type: Optional[TerminalLine]
        self.left_s = time.monotonic()
        self.program = None  # type: Optional[terminal_pty.Program]
        self.kept = collections.deque()  # type: Deque[bytes]
        self.kept_bytes = 0
        self.kill_s = None  # type: Optional[float]
        self.farewell_s = None  # type: Optional[float]
        """Set once the program has ended: until then its user may take to hang up."""

    def wanted(self):
        # type: () -> Tuple[List[int], List[int]]
        """Return what to read from and to write to: nothing from one side that the other has no
        room for."""
        line, program = self.line, self.program
        reads, writes = [], []  # type: Tuple[List[int], List[int]]
        if line is not None and (program is None or len(program.pending) < PENDING_MOST):
            reads.append(line.source)
        if line is not None and line.outbox:
            writes.append(line.sink)
        if program is not None and program.open and self.farewell_s is None:
            if line is None or len(line.outbox) < PENDING_MOST:
                reads.append(program.master)
            if program.pending:
                writes.append(program.master)
        return reads, writes

    def due_s(self):
        # type: () -> List[float]
        """Return when to look at the clock again."""
        silent_s = None if self.line is None else self.line.heard_s + SILENCE_S
        kill_s = self.kill_s if self.farewell_s is None else None
        return [one for one in (silent_s, kill_s, self.farewell_s) if one is not None]

    def serve(self, ready, free):
        # type: (List[int], List[int]) -> None
        """Read and write what can be."""
        line, program = self.line, self.program
        if program is not None and program.master in ready:
            self.take_output(program)
        if program is not None and program.master in free:
            program.write()
        if line is not None and line.source in ready:
            found = line.receive()
            if found is None:
                self.part()
            else:
                self.take(line, found)

    def flush(self):
        # type: () -> None
        if self.line is not None and not self.line.flush():
            self.part()

    def is_over(self, now_s):
        # type: (float) -> bool
        """Notice that the user has gone, or that the program has ended; then send its last output
        and its status, and wait until the user's end hangs up, which shows that it has them."""
        if self.line is not None and now_s - self.line.heard_s > SILENCE_S:
            self.part()
        if self.program is None:
            return False
        if self.farewell_s is None:
            self.program.reap()
            if self.program.status is None:
                return False
            self.farewell_s = now_s + FAREWELL_S
            self.take_leave(self.program)
        if self.line is not None and now_s < self.farewell_s:
            return False
        self.part()
        self.program.sweep()
        self.program.close()
        return True

    def take_leave(self, program):
        # type: (terminal_pty.Program) -> None
        for _ in range(64):
            if not program.open or not select.select([program.master], [], [], 0)[0]:
                break
            self.take_output(program)
        assert program.status is not None
        if self.line is not None:
            self.line.say(NUMBER, self.told())
            self.line.say(EXIT, STATUS.pack(program.status))
            self.flush()

    def told(self):
        # type: () -> bytes
        """Return a frame's data: this terminal's number and node, and the others' numbers."""
        others = [one.number for one in self.company if one is not self]
        told = {"number": self.number, "node": self.node, "others": others}
        return json.dumps(told).encode()

    def hang_up(self, now_s):
        # type: (float) -> None
        program = self.program
        if program is None or self.farewell_s is not None:
            return
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

    def take(self, line, found):
        # type: (TerminalLine, List[Tuple[bytes, bytes]]) -> None
        """Do what the user's frames say."""
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
        line.say(NUMBER, self.told())
        if self.program is None:
            env = terminal_pty.dressed(self.env, told["env"])
            self.program = terminal_pty.Program(self.argv, env, told["rows"], told["columns"])
            return
        if self.kept:
            line.say(DATA, b"".join(self.kept))
        self.program.resize(told["rows"], told["columns"])
        self.program.redraw()

    def meet(self, line):
        # type: (TerminalLine) -> None
        """Take a line in; whoever is there has to go."""
        if self.line is not None:
            self.line.say(TAKEN)
            self.part()
        self.line = line

    def part(self):
        # type: () -> None
        if self.line is not None:
            self.line.close()
            self.line = None
            self.left_s = time.monotonic()
