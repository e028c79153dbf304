"""A program on a pseudo-terminal of its own: its birth, its bytes, its size, its signals, its end.

Runs on the node, Python 3.6 and later, standard library only. The line to its user is in
terminal.py.
"""

import contextlib
import fcntl
import os
import pty
import signal
import struct
import termios
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is not imported on the node
    from typing import Dict, List, Optional  # noqa: F401 - in comments

SWEEP_S = 1.0
IUTF8 = 0o40000  # termios(3); the module of that name lacks it


class Program(object):
    """A program on a pseudo-terminal of its own."""

    def __init__(self, argv, env, rows, columns):
        # type: (List[str], Dict[str, str], int, int) -> None
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            become(argv, env, rows, columns)
        set_up(self.master, rows, columns)  # on both sides: neither may run first without it
        os.set_blocking(self.master, False)
        self.pending = bytearray()
        self.open = True
        self.status = None  # type: Optional[int]

    def read(self):
        # type: () -> bytes
        try:
            data = os.read(self.master, 1 << 15)
        except BlockingIOError:
            return b""
        except OSError:  # EIO: no process has it open any more
            data = b""
        self.open = bool(data)
        return data

    def write(self):
        # type: () -> None
        try:
            while self.pending:
                del self.pending[: os.write(self.master, self.pending[:4096])]
        except BlockingIOError:
            pass
        except OSError:
            del self.pending[:]

    def resize(self, rows, columns):
        # type: (int, int) -> None
        resize(self.master, rows, columns)

    def redraw(self):
        # type: () -> None
        self.signal_front(signal.SIGWINCH)

    def signal_front(self, number):
        # type: (int) -> None
        with contextlib.suppress(OSError):
            group = os.tcgetpgrp(self.master)
            if group > 1:  # 0: there is none any more, and killpg(2) takes that for our own
                os.killpg(group, number)

    def signal(self, number):
        # type: (int) -> None
        """Send a signal to the foreground program, and to the program itself."""
        self.signal_front(number)
        with contextlib.suppress(OSError):
            os.killpg(self.pid, number)

    def close(self):
        # type: () -> None
        os.close(self.master)

    def reap(self):
        # type: () -> None
        if self.status is None:
            pid, told = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                by = os.WTERMSIG(told) if os.WIFSIGNALED(told) else 0
                self.status = 128 + by if by else os.WEXITSTATUS(told)

    def sweep(self):
        # type: () -> None
        """End what the program has left behind in its session: where Slurm tracks processes by
        their parents (proctrack/linuxproc) a shell's `&` would outlive the job."""
        for number in (signal.SIGHUP, signal.SIGKILL):
            give_up_s = time.monotonic() + SWEEP_S
            members = session_of(self.pid)
            for pid in members:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
            while members and time.monotonic() < give_up_s:
                time.sleep(0.02)
                members = session_of(self.pid)


def session_of(leader):
    # type: (int) -> List[int]
    """Return the processes of the session of `leader`."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open("/proc/{}/stat".format(name)) as file:
            state, _, _, session = file.read().rpartition(")")[2].split()[:4]
            if int(session) == leader and state not in "ZX":
                found.append(int(name))
    return found


def resize(fd, rows, columns):
    # type: (int, int, int) -> None
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def set_up(fd, rows, columns):
    # type: (int, int, int) -> None
    """Set the terminal's size, and let the erase key take letters, not bytes."""
    resize(fd, rows, columns)
    modes = termios.tcgetattr(fd)
    modes[0] |= IUTF8
    termios.tcsetattr(fd, termios.TCSANOW, modes)


def become(argv, env, rows, columns):
    # type: (List[str], Dict[str, str], int, int) -> None
    """Become the program, in the child. Stop ignoring the signals that Python, or a shell's `&`,
    told it to ignore."""
    try:
        for number in range(1, signal.NSIG):
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                with contextlib.suppress(OSError, ValueError):
                    signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        set_up(0, rows, columns)
        os.execvpe(argv[0], argv, env)
    except OSError as exc:
        os.write(2, "{}: {}\r\n".format(argv[0], exc.strerror).encode())
    finally:
        os._exit(127)


def dressed(env, theirs):
    # type: (Dict[str, str], Dict[str, str]) -> Dict[str, str]
    """Return the job's environment with the user's terminal settings; add a language only where the
    job has none."""
    # Where no language is set, Python itself sets LC_CTYPE (PEP 538): nobody has chosen that.
    has_language = any(name in env for name in ("LANG", "LC_ALL")) or (
        env.get("LC_CTYPE", "C.UTF-8") not in ("C.UTF-8", "C.utf8", "UTF-8")
    )
    words = {
        name: text
        for name, text in theirs.items()
        if not (has_language and (name == "LANG" or name.startswith("LC_")))
    }
    return dict(env, **words)
