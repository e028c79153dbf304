"""A session in many ranks: each of them runs every cell, and the first makes one result of all.

    python3 -u session_ranks.py JOBDIR ATTEMPT torchrun|mpi

Runs on the cluster, in each rank, Python 3.6 and later, standard library only. Rank 0 is told of
cells as any session is (session.py). What it takes it orders the others to do, by lines of
`cells/orders.N.STEP` in the words of `cells/requests`, and `end`. Each rank R leaves
`output.0.R.jsonl`, but the first `output.0.jsonl`, and `result.0.R.json`, of which the first makes
the cell's result.

A cell that has not ended well in one rank cannot go on in the others, which soon wait for that one.
They are interrupted; where this does not help, or a rank's process has died, all of them get new
processes, for half of a session is of no use. MPI begins in a rank of Slurm's once, so those of MPI
end with exit code 75, and the launcher starts them anew.
"""

import contextlib
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # `python -P` leaves it out
import launch_result
import runner
import runner_ranks
import session
import session_files

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict, List  # noqa: F401 - in comments

HEED_S = 30.0
"""How long they have to heed an interrupt: many calls of PyTorch and MPI do not while they wait."""
LAST_S = 5.0
"""How long rank 0 waits for the others once the session is ended by a signal."""
SELDOM_S = 5.0
"""How often a rank looks for orders that the first one on its node wakes."""
PLACE_OF = {"torchrun": "LOCAL_RANK", "mpi": "SLURM_LOCALID"}
"""The variables that tell a rank which it is on its node."""
WRONG_WORLD = 65
"""EX_DATAERR of sysexits.h."""


class Rank(session.Session):
    """What holds for the first rank and for all others."""

    def __init__(
        self, folder: str, attempt: str, engine: str, rank: int, ranks: int, requests: str
    ) -> None:
        self.ranks = ranks
        self.workers = 0
        self.is_to_begin_anew = False
        super().__init__(folder, attempt, engine, rank, requests)

    def _start_worker(self) -> session.Worker:
        if self.workers:  # what the store of torchrun has from the first processes is not for these
            os.environ["TORCHELASTIC_RESTART_COUNT"] = str(self.workers)
        self.workers += 1
        return super()._start_worker()

    def _renew(self) -> None:
        """End the process that runs the cells; the next one gets another."""
        self.worker.ready = False
        self.worker.kill(signal.SIGKILL)

    def run(self) -> "Dict[str, Any]":
        result = super().run()
        if self.is_to_begin_anew and not self.ended_by:
            raise SystemExit(launch_result.RENEW)
        return result

    def _wake_others(self) -> None:
        """Wake those that are on this machine."""
        for rank in range(1, self.ranks):
            if rank != self.rank:
                session_files.poke(session_files.poke_path(self.folder, rank))


class First(Rank):
    """Rank 0, to which all requests come."""

    def __init__(self, folder: str, attempt: str, engine: str, rank: int, ranks: int) -> None:
        path = os.path.join(folder, "cells", orders_of(attempt))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        self.orders = os.open(path, flags, 0o600)
        self.found = {}  # type: Dict[int, Dict[str, Any]]
        """How the cell has ended, by rank."""
        self.urged = ""
        """What those that still run it were last told: to end it, to be ended."""
        self.give_up_at_s = 0.0
        """Until when they have time for that."""
        super().__init__(folder, attempt, engine, rank, ranks, "requests")

    def _is_over(self) -> bool:
        is_over = super()._is_over() or (self.cell is None and self.is_to_begin_anew)
        if is_over:
            self._order("anew" if self.is_to_begin_anew else "end", "")
        return is_over

    def _order(self, verb: str, cell_id: str) -> None:
        os.write(self.orders, ("%s %s\n" % (verb, cell_id)).encode("ascii"))
        self._wake_others()

    def _begin(self, cell_id: str) -> None:
        super()._begin(cell_id)
        if self.cell is None:
            return
        self.found, self.urged, self.give_up_at_s = {}, "", 0.0
        path = os.path.join(self.cell.folder, "launch.0.jsonl")
        with contextlib.suppress(OSError), open(path, "ab", 0) as file:
            file.write(runner.to_line({"ranks": self.ranks}))
        self._order("run", cell_id)

    def _cancel(self, cell_id: str, verb: str) -> None:
        super()._cancel(cell_id, verb)
        if self.cell is not None and os.path.basename(self.cell.folder) == cell_id:
            self._urge(self.cell, verb)

    def _end(self, cell: session_files.Cell) -> None:
        assert cell.result is not None
        self.found[0] = cell.result
        try:
            cell.write_result("0.0")
        except OSError as error:
            runner.complain("the result of the first rank cannot be written: %s" % error)
        self.look_at_s = 0.0

    def _look(self) -> None:
        is_time = time.monotonic() >= self.look_at_s
        super()._look()
        if self.cell is not None and is_time:
            self._gather(self.cell)

    def _gather(self, cell: session_files.Cell) -> None:
        """Read how the cell has ended in other ranks, and see to it that it ends in all."""
        there = set(os.listdir(cell.folder))
        for rank in range(1, self.ranks):
            name = "result.0.%d.json" % rank
            if rank not in self.found and name in there:
                told = launch_result.read_signed(os.path.join(cell.folder, name), cell.signer)
                if told is not None:
                    self.found[rank] = told
        now_s = time.monotonic()
        is_late = bool(self.ended_by and self.give_up_at_s and now_s > self.give_up_at_s)
        if len(self.found) == self.ranks or (is_late and 0 in self.found):
            self._tell_all(cell)
        elif self.ended_by:
            self.give_up_at_s = self.give_up_at_s if self.urged == "end" else now_s + LAST_S
            self.urged = "end"
        elif any(one["status"] != "ok" for one in self.found.values()):
            self._hasten(cell, now_s)

    def _hasten(self, cell: session_files.Cell, now_s: float) -> None:
        """Have the cell end in the ranks that wait for one in which it has failed."""
        if not self.give_up_at_s:
            self.give_up_at_s = now_s + launch_result.TOGETHER_S
        elif now_s > self.give_up_at_s and self.urged != "kill":
            self._urge(cell, "kill" if self.urged or self._has_died() else "cancel")

    def _has_died(self) -> bool:
        return any(one["status"] == "killed" for one in self.found.values())

    def _urge(self, cell: session_files.Cell, verb: str) -> None:
        self.urged = verb
        self.give_up_at_s = time.monotonic() + HEED_S
        if verb == "kill":
            left = [rank for rank in range(self.ranks) if rank not in self.found]
            if left:
                told = "jupyter-slurm: rank%s %s had to be ended; what the session's cells had set "
                told %= "" if len(left) == 1 else "s", launch_result.listed(left)
                cell.output.write_text("stderr", told + "is lost in all ranks.\n")
            self._renew()
        else:
            cell.cancelled = True
        self._order(verb, os.path.basename(cell.folder))

    def _tell_all(self, cell: session_files.Cell) -> None:
        """Make the cell's result of those of all ranks, and its exit."""
        self.cell = None
        self.stirred_s = time.monotonic()
        if self.urged != "kill" and self._has_died():
            self._urge(cell, "kill")
        self.is_to_begin_anew = self.urged == "kill" and self.engine == "mpi"
        try:
            if len(self.found) == self.ranks:
                result = launch_result.merge(cell.folder, "0", self.ranks, self.found, None, 0)
            else:  # the session is ended from outside, which says more than they could
                result = cell.write_result("0")
            session_files.put_exit_of(cell.folder, result)
        except OSError as error:
            runner.complain("the result of a cell cannot be written: %s" % error)
            self._say(os.path.basename(cell.folder), runner.NO_ROOM_EXIT, "")


class Other(Rank):
    """Any other rank, which does what the first one orders."""

    def __init__(self, folder: str, attempt: str, engine: str, rank: int, ranks: int) -> None:
        self.is_told_to_end = False
        self.is_first_here = os.environ.get(PLACE_OF[engine], "0") == "0"
        super().__init__(folder, attempt, engine, rank, ranks, orders_of(attempt))

    def _is_over(self) -> bool:
        is_done = self.cell is None and not self.waiting
        return is_done and bool(self.is_told_to_end or self.is_to_begin_anew or self.ended_by)

    def _tick_s(self) -> float:
        is_woken = not self.is_first_here and self.poke.descriptor is not None
        return SELDOM_S if is_woken else super()._tick_s()

    def _take(self, verb: str, cell_id: str) -> None:
        if self.is_first_here:
            self._wake_others()
        if verb == "end":
            self.is_told_to_end = True
        elif verb == "anew":
            self.is_to_begin_anew = True
        elif verb == "kill":
            if cell_id in self.waiting:
                self._cancel(cell_id, verb)
            self._renew()
        else:
            super()._take(verb, cell_id)

    def _end(self, cell: session_files.Cell) -> None:
        self.cell = None
        self.stirred_s = time.monotonic()
        try:
            cell.write_result(runner.of_rank("0", self.rank))
        except OSError as error:
            runner.complain("the result of a rank cannot be written: %s" % error)
            self._say(os.path.basename(cell.folder), runner.NO_ROOM_EXIT, "")
        session_files.poke(session_files.poke_path(self.folder, 0))

    def _leave_out(self, cell_id: str, number: int) -> None:
        cell = session_files.Cell(self._folder(cell_id), self.rank)
        name = signal.Signals(number).name
        cell.result = session_files.ended("interrupted", 128 + number, interrupted_by=name)
        cell.result.update(peak_rss_mib=0.0, cpu_s=0.0)
        self._end(cell)

    def _claim(self, cell_id: str) -> bool:
        return True  # the first one has

    def _say(self, cell_id: str, exit_code: int, caught: str) -> None:
        raise SystemExit(exit_code)  # the first one would wait for this one


def orders_of(attempt: str) -> str:
    """Return the name of the file with the orders, for ranks that have begun together."""
    return "orders.%s.%s" % (attempt, os.environ.get("SLURM_STEP_ID", ""))


def main(argv: "List[str]") -> int:
    engine = argv[3]
    rank = int(os.environ[runner.RANK_OF[engine]])
    world = runner_ranks.read_world(os.path.abspath(argv[1]), argv[2])
    try:
        runner_ranks.check_size(world)
    except runner_ranks.WrongWorld as error:
        runner.complain(str(error))
        return WRONG_WORLD
    kind = Other if rank else First
    make = lambda *job: kind(job[0], job[1], engine, rank, world["ranks"])  # noqa: E731
    return session.main(argv, make)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
