"""The process of a cell: the order of its output, its interrupt by signals, and the end of forked
processes.

Runs on the cluster, Python 3.6 and later, standard library only.
"""

import contextlib
import faulthandler
import fcntl
import gc
import io
import os
import signal
import sys
import termios
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds of every job
    from typing import Any, Callable, List, Optional

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
TURN_S = 1.0
"""Seconds to wait for the supervisor to read the other pipes. The order of output does not justify
a longer wait."""


class Interrupts:
    """A handler that turns Slurm's first signal into a KeyboardInterrupt in the main thread.
    `first` is the number of that signal. It ignores later signals, because they would break an
    `except KeyboardInterrupt:` that saves data. As a context manager it delays signals until the
    end of the block."""

    def __init__(self) -> None:
        self.first: "Optional[int]" = None
        self.armed = True
        self.shields = 0
        self.pending = False

    def install(self) -> None:
        for number in SIGNALS:
            signal.signal(number, self._handle)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGCHLD,))
        self._unblock()
        # Restore the default handlers in forked processes: multiprocessing relies on SIGTERM to end
        # them, even right after the fork. Python 3.6 does not have a hook that runs in forked
        # processes.
        register = getattr(os, "register_at_fork", None)
        if register is not None:
            register(
                before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS),
                after_in_parent=self._unblock,
                after_in_child=self._forget,
            )

    def arm(self) -> None:
        """Prepare for another cell, which the next signal interrupts."""
        self.first, self.pending, self.armed = None, False, True

    def hold(self) -> None:
        """Delay signals until `release`."""
        self.shields += 1

    def release(self) -> None:
        """Stop delaying signals. Raise KeyboardInterrupt if a signal has arrived since `hold`."""
        if self.shields:
            self.__exit__()

    def restore(self) -> None:
        """Let signals end the process again after the cell."""
        for number in SIGNALS:
            if signal.getsignal(number) == self._handle:
                signal.signal(number, signal.SIG_DFL)

    @staticmethod
    def _unblock() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def _forget(self) -> None:
        for number in SIGNALS:
            if signal.getsignal(number) == self._handle:
                ours = number == signal.SIGINT
                signal.signal(number, signal.default_int_handler if ours else signal.SIG_DFL)
        self._unblock()

    def _handle(self, number: int, _frame: "Any") -> None:
        if self.first is not None or not self.armed:
            return
        self.first = number
        if self.shields:
            self.pending = True
        else:
            raise KeyboardInterrupt

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self.shields += 1

    def __exit__(self, *_: "Any") -> None:
        if threading.current_thread() is threading.main_thread():
            self.shields -= 1
            if self.pending and not self.shields:
                self.pending = False
                raise KeyboardInterrupt


# --- the end of the process ---------------------------------------------------------------------


def end_forked(
    error: "Optional[BaseException]", trace_of: "Callable[[BaseException], Any]"
) -> None:
    """End a process that the cell forked, with Python's exit code. Do not run exit handlers, which
    would remove the parent's temporary folders and end its workers."""
    code = 0
    try:
        if isinstance(error, SystemExit):
            code = exit_code(error) if error.code else 0
            if code and not isinstance(error.code, int):
                print(error.code, file=sys.stderr)
        elif error is not None:
            import traceback  # for errors

            code, trace, hook = 1, trace_of(error), sys.excepthook
            hook = traceback.print_exception if hook is sys.__excepthook__ else hook
            hook(type(error), error, trace)
        threading._shutdown()  # type: ignore[attr-defined,unused-ignore] # as multiprocessing does
        for thing in gc.get_objects():
            if issubclass(type(thing), (io.BufferedWriter, io.TextIOWrapper)) and not thing.closed:
                with contextlib.suppress(OSError, ValueError):
                    thing.flush()
    finally:
        os._exit(code)


def exit_code(error: BaseException) -> int:
    """Return Python's exit code after this error. It is never 0."""
    code = error.code if isinstance(error, SystemExit) else 1
    return code & 0xFF or 1 if isinstance(code, int) else 1


# --- streams ------------------------------------------------------------------------------------


class Turns:
    """A guard for the order of stdout, stderr and events, which are three pipes. Before a write to
    one pipe, it waits until the supervisor has emptied the others."""

    def __init__(self, pipes: "List[int]") -> None:
        self.pipes = pipes

    def wait(self, descriptor: int = -1) -> None:
        """Wait for the other pipes. `descriptor` is a pipe, 1 for stdout or 2 for stderr."""
        deadline_s: "Optional[float]" = None
        for at, pipe in enumerate(self.pipes):
            while descriptor not in (at + 1, pipe) and self._filled(pipe):
                now_s = time.monotonic()
                deadline_s = deadline_s or now_s + TURN_S
                if now_s > deadline_s:
                    return
                time.sleep(0.0001)

    @staticmethod
    def _filled(pipe: int) -> bool:
        try:
            return fcntl.ioctl(pipe, termios.FIONREAD, b"\0\0\0\0") != b"\0\0\0\0"
        except OSError:
            return False

    def audit(self, event: str, _arguments: "Any") -> None:
        """Wait for the pipes before another program starts."""
        if event in ("subprocess.Popen", "os.system", "os.posix_spawn"):
            self.wait()


class Pipe(io.RawIOBase):
    """The raw stream of sys.stdout or sys.stderr."""

    def __init__(self, descriptor: int, turns: Turns) -> None:
        super().__init__()
        self.descriptor = descriptor
        self.turns = turns

    def fileno(self) -> int:
        return self.descriptor

    def writable(self) -> bool:
        return True

    def write(self, data: "Any") -> int:
        view = memoryview(data).cast("B")
        self.turns.wait(self.descriptor)
        done = 0
        while done < len(view):
            done += os.write(self.descriptor, view[done:])
        return done


def open_streams(pipes: "List[int]") -> Turns:
    """Use the pipes as stdout and stderr of Python, C code and subprocesses."""
    turns = Turns(pipes)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, descriptor in ((nothing, 0), (pipes[0], 1), (pipes[1], 2)):
        os.dup2(source, descriptor)
    os.close(nothing)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - as long as the process
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = io.TextIOWrapper(
            Pipe(descriptor, turns),  # type: ignore[type-var,unused-ignore]
            encoding="utf-8",
            errors="surrogatepass",
            newline="\n",
            write_through=True,
        )
        stream.mode = "w"  # type: ignore[misc,unused-ignore]
        setattr(sys, name, stream)
        setattr(sys, "__%s__" % name, stream)
    faulthandler.enable(2, all_threads=True)  # a crash prints its traceback
    add_hook = getattr(sys, "addaudithook", None)  # Python 3.8
    if add_hook is not None:
        add_hook(turns.audit)
    return turns
