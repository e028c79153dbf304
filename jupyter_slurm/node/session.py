"""A session: a job that runs cells on request, in one process that keeps their variables.

    python3 -u session.py JOBDIR ATTEMPT

Runs on the cluster, Python 3.6 and later, standard library only. Its requests are the lines `run
ID`, `cancel ID` and `kill ID` of `cells/requests`, which only grows. The folder `cells/ID` has the
files of the cell, with the same names as in a separate job. `session_worker.py` runs the user's
code, in a process that is replaced when it dies. `session_ranks.py` is a session in many ranks.
Exit code: 0 (the session was idle for too long), 128 + n (signal n ended it).
"""

import collections
import contextlib
import json
import os
import select
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # `python -P` leaves it out
import runner
import session_files

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Callable, Deque, Dict, List, Optional, Set, Tuple  # noqa: F401 - in comments

LOOKS_PER_QUIET_TIME = 100
"""Ratio of the time since the last request to the time between checks. So if the FIFO does not wake
the session, the session reads a request after at most 1 % of the time since the previous request.
"""
SHORTEST_TICK_S, LONGEST_TICK_S = 0.02, 0.5
INSIST_S = 0.2
"""Seconds between signals to a cell that has to end, because the cell may not handle signals
yet."""
PATIENCE_S = 5.0
"""Seconds for a process to end after its last cell."""
LOST = "the session's variables are lost"
KILLED = runner.FORWARDED[0]  # SIGTERM


class Worker(runner.Supervisor):
    """The process that runs the cells. Its output belongs to the current or last cell."""

    def __init__(self, child: "List[int]", orders: int, wakeup: int, output: runner.Output) -> None:
        super().__init__(child[0], child[1:], wakeup, output)
        self.pipes = child[1:]
        self.orders = orders
        self.heard = set()  # type: Set[int]
        self.ready = False
        """True once the process has written its first record."""

    @property
    def gone(self) -> bool:
        return self.usage is not None

    def listen(self, descriptor: int, heard: "Any") -> None:
        self.others[descriptor] = heard
        self.poll.register(descriptor, select.POLLIN)

    def step(self, timeout_s: float) -> None:
        held = any(stream.held for stream in self.streams.values())
        if not self._step(runner.QUIET_MS if held else int(timeout_s * 1000)):
            self._flush()

    def order(self, cell: session_files.Cell) -> None:
        self.end = None
        self._write_to(cell.output)
        line = os.path.basename(cell.folder).encode("ascii") + b" " + cell.signer.key + b"\n"
        with contextlib.suppress(BrokenPipeError):  # it has just died
            os.write(self.orders, line)

    def drain(self) -> None:
        """Read all that the process has written."""
        deadline_s = time.monotonic() + runner.DRAIN_S
        while self._step(0) and self.gone and time.monotonic() < deadline_s:
            pass
        for stream in self.streams.values():
            stream.close()

    def kill(self, number: int) -> None:
        if not self.gone:
            os.kill(self.child, number)

    def close(self) -> None:
        """Let the process end, or kill it, and close its pipes."""
        os.close(self.orders)
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                self.kill(number)
            deadline_s = time.monotonic() + PATIENCE_S
            while not self.gone and time.monotonic() < deadline_s:
                self.step(0.1)
        self.drain()
        for descriptor in self.pipes:
            os.close(descriptor)

    def _write_to(self, output: runner.Output) -> None:
        before, self.output = self.output, output
        for stream in self.streams.values():
            stream.close()
            stream.output = output
        before.close()

    def _events(self, data: bytes) -> None:
        super()._events(data)
        self.ready = self.ready or not self.line

    def _signals(self, numbers: bytes) -> None:
        pid, status, usage = os.wait4(self.child, os.WNOHANG) if not self.gone else (0, 0, None)
        if pid:
            self.status, self.usage = status, usage
        self.heard.update(set(numbers) - {signal.SIGCHLD})


class Session:
    """The requests of a session, the running cell, and the session's end."""

    def __init__(
        self,
        folder: str,
        attempt: str,
        engine: "Optional[str]" = None,
        rank: int = 0,
        requests: str = "requests",
    ) -> None:
        """Open the session's files and start its process. `engine` is the launcher of this rank,
        and `requests` the name of the file of requests in `cells`."""
        self.folder = folder
        self.attempt = attempt
        self.engine = engine
        self.rank = rank
        with open(os.path.join(folder, "task.json"), encoding="utf-8") as file:
            self.idle_s = float(json.load(file)["idle_s"])
        self.signer = runner.job_signer(folder)
        os.makedirs(os.path.join(folder, "cells"), mode=0o700, exist_ok=True)
        self.requests = session_files.Requests(os.path.join(folder, "cells", requests))
        self.poke = session_files.Poke(session_files.poke_path(folder, rank))
        self.wakeup = runner.hear_signals()
        self.known = set()  # type: Set[str]
        self.waiting = collections.deque()  # type: Deque[str]
        self.untold = []  # type: List[Tuple[str, int, str]]
        self.cell = None  # type: Optional[session_files.Cell]
        self.ended_by = 0
        self.stirred_s = time.monotonic()
        self.look_at_s = 0.0
        self.insist_at_s = 0.0
        self.worker = self._start_worker()

    def run(self) -> "Dict[str, Any]":
        """Run cells until the session ends, and return its result."""
        while not self._is_over():
            self.worker.step(self._tick_s())
            self._hear()
            self._look()
            self._advance()
        self.worker.close()
        if self.ended_by:
            name = signal.Signals(self.ended_by).name
            return session_files.ended("interrupted", 128 + self.ended_by, interrupted_by=name)
        return session_files.ended(
            "ok", 0, evalue="It was idle for %s." % session_files.span(self.idle_s)
        )

    def _is_over(self) -> bool:
        if self.cell is not None or self.waiting:
            return False
        if self.ended_by:
            return True
        return time.monotonic() - self.stirred_s > self.idle_s

    def _tick_s(self) -> float:
        quiet_s = time.monotonic() - self.stirred_s
        return min(max(quiet_s / LOOKS_PER_QUIET_TIME, SHORTEST_TICK_S), LONGEST_TICK_S)

    # --- requests ---

    def _poked(self, _data: bytes) -> None:
        self.look_at_s = 0.0

    def _look(self) -> None:
        now_s = time.monotonic()
        if now_s < self.look_at_s:
            return
        for line in self.requests.new():
            self.stirred_s = now_s
            verb, _, cell_id = line.partition(" ")
            self._take(verb, cell_id)
        self.look_at_s = time.monotonic() + self._tick_s()
        self.untold = [one for one in self.untold if not self._tell(*one)]

    def _take(self, verb: str, cell_id: str) -> None:
        if verb == "run" and cell_id.isalnum() and cell_id not in self.known:
            self.known.add(cell_id)
            self.waiting.append(cell_id)
        elif verb in ("cancel", "kill"):
            self._cancel(cell_id, verb)

    def _cancel(self, cell_id: str, verb: str) -> None:
        if cell_id in self.waiting:
            self.waiting.remove(cell_id)
            self._leave_out(cell_id, signal.SIGINT)
        elif self.cell is not None and os.path.basename(self.cell.folder) == cell_id:
            self.cell.cancelled = True
            if verb == "kill":  # it was cancelled, and still runs
                self.worker.kill(signal.SIGKILL)

    def _leave_out(self, cell_id: str, number: int) -> None:
        """Report that a signal killed a cell before it started."""
        if self._claim(cell_id):
            self._say(cell_id, 128 + number, signal.Signals(number).name[3:])

    def _hear(self) -> None:
        """Handle signals: USR1 and USR2 go to the running cell, the others end the session."""
        for number in self.worker.heard:
            if number in (signal.SIGTERM, signal.SIGINT):
                self.ended_by = self.ended_by or number
            elif self.cell is not None:
                self.worker.kill(number)
        self.worker.heard.clear()
        while self.ended_by and self.waiting:
            self._leave_out(self.waiting.popleft(), KILLED)

    # --- the running cell ---

    def _advance(self) -> None:
        cell = self.cell
        has_ended = self.worker.end is not None or self.worker.gone
        if cell is not None and cell.result is None and has_ended:
            self._finish(cell)
        can_begin = self.worker.ready or self.worker.gone
        if self.cell is None and self.waiting and can_begin and not self.ended_by:
            self._begin(self.waiting.popleft())
        cell = self.cell
        if cell is not None and cell.result is None and (cell.cancelled or self.ended_by):
            now_s = time.monotonic()
            if now_s >= self.insist_at_s:
                self.insist_at_s = now_s + INSIST_S
                self.worker.kill(KILLED if self.ended_by else signal.SIGINT)

    def _begin(self, cell_id: str) -> None:
        if not self._claim(cell_id):
            return
        self.cell = self._cell(cell_id)
        if self.worker.gone:
            self._replace_worker(self.cell)
        self.insist_at_s = 0.0
        self.worker.order(self.cell)
        if self.rank:
            return
        try:  # while the cell runs
            self.cell.report_start()
        except OSError as error:
            runner.complain("cannot report the start of cell %s: %s" % (cell_id, error))

    def _replace_worker(self, cell: session_files.Cell) -> None:
        text = "jupyter-slurm: the session's process ended: %s.\n" % LOST
        cell.output.write_text("stderr", text)
        self.worker.close()
        self.worker = self._start_worker()

    def _finish(self, cell: session_files.Cell) -> None:
        self.worker.drain()
        died = self.worker.end is None
        cell.result = result = self.worker.result()
        if died:
            usage = self.worker.usage
            result["peak_rss_mib"] = round(usage.ru_maxrss / 1024.0, 1)
            result["cpu_s"] = round(usage.ru_utime + usage.ru_stime, 3)
            where = "" if self.engine is None else " in all ranks"
            result["evalue"] += "; %s%s" % (LOST, where)
            if cell.cancelled:
                result["interrupted_by"] = "SIGINT"
            error = {"type": "error", "ename": result["ename"], "evalue": result["evalue"]}
            result["traceback"] = ["%(ename)s: %(evalue)s" % error]
            if self.engine is None or self.rank:  # `First` shows the failures of all ranks
                cell.output.write(runner.to_line(dict(error, traceback=result["traceback"])))
        self.worker.end = None
        self._end(cell)

    def _end(self, cell: session_files.Cell) -> None:
        """Write the cell's result and exit."""
        self.cell = None
        self.stirred_s = time.monotonic()
        try:
            cell.finish()
        except OSError as error:
            runner.complain("cannot write the result of a cell: %s" % error)
            self._say(os.path.basename(cell.folder), runner.NO_ROOM_EXIT, "")

    def _start_worker(self) -> Worker:
        of_rank = runner.of_rank(self.attempt, self.rank or None)
        output = runner.Output(os.path.join(self.folder, "output.%s.jsonl" % of_rank))
        reading, orders = os.pipe()

        def live(pipes: "List[int]") -> int:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(orders)
            output.close()
            if self.poke.descriptor is not None:
                os.close(self.poke.descriptor)
            import session_worker  # the forking process does not need it

            told = self.attempt, None if self.engine is None else self.rank
            return session_worker.live(self.folder, reading, pipes, *told)

        child = runner.start(live)
        os.close(reading)
        worker = Worker(child, orders, self.wakeup, output)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, runner.FORWARDED + (signal.SIGCHLD,))
        if self.poke.descriptor is not None:
            worker.listen(self.poke.descriptor, self._poked)
        return worker

    # --- a cell's folder ---

    def _folder(self, cell_id: str) -> str:
        return os.path.join(self.folder, "cells", cell_id)

    def _cell(self, cell_id: str) -> session_files.Cell:
        return session_files.Cell(self._folder(cell_id), self.signer, self.rank)

    def _claim(self, cell_id: str) -> bool:
        """Claim a cell. A session that Slurm has restarted does not repeat cells."""
        try:
            os.mkdir(os.path.join(self._folder(cell_id), "claim.0"), 0o700)
        except FileExistsError:
            if not os.path.exists(os.path.join(self._folder(cell_id), "exit.0.json")):
                self._say(cell_id, 128 + KILLED, "TERM")  # it ended with the last attempt
            return False
        except OSError as error:
            runner.complain("cannot claim cell %s: %s" % (cell_id, error))
            self._say(cell_id, runner.NO_ROOM_EXIT, "")
            return False
        return True

    def write(self, started_s: float, result: "Dict[str, Any]") -> int:
        """Write the session's result, and return its exit code."""
        usage = self.worker.usage
        result.update(
            started_s=started_s,
            ended_s=time.time(),
            peak_rss_mib=round(usage.ru_maxrss / 1024.0, 1) if usage else 0.0,
            cpu_s=round(usage.ru_utime + usage.ru_stime, 3) if usage else 0.0,
        )
        if "JSLURM_ENGINE" in os.environ:
            runner.add_peak(result, self.folder, self.attempt)
        name = runner.of_rank(self.attempt, None if self.engine is None else self.rank)
        try:
            self.signer.write(os.path.join(self.folder, "result.%s.json" % name), result)
        except OSError as error:
            runner.complain("cannot write the session's result: %s" % error)
            return runner.NO_ROOM_EXIT
        return int(result["exit_code"])

    def _say(self, cell_id: str, exit_code: int, caught: str) -> None:
        if not self._tell(cell_id, exit_code, caught):
            self.untold.append((cell_id, exit_code, caught))

    def _tell(self, cell_id: str, exit_code: int, caught: str) -> bool:
        """Write the cell's exit file. Return False if the caller has to try again, because the disk
        is full."""
        try:
            session_files.put_exit(self._folder(cell_id), exit_code, caught)
        except FileNotFoundError:  # the user has forgotten the cell
            return True
        except OSError:
            return False
        return True


def main(argv: "List[str]", make: "Callable[[str, str], Session]" = Session) -> int:
    folder, attempt = os.path.abspath(argv[1]), argv[2]
    runner.register_errors()
    started_s = time.time()
    try:
        session = make(folder, attempt)
    except OSError as error:
        runner.complain("cannot set up the session: %s" % error)
        return runner.NO_ROOM_EXIT
    end_dashboards = runner.start_dashboards(folder, attempt, argv[3:], runner.complain)
    try:
        result = session.run()
    finally:
        end_dashboards()
    return session.write(started_s, result)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
