"""A session in many ranks: each rank runs every cell, and rank 0 merges their results.

    python3 -u session_ranks.py JOBDIR ATTEMPT torchrun|mpi

Runs on the cluster, in each rank, Python 3.6 and later, standard library only. Rank 0 reads the
requests like any session (session.py), and writes them as orders for the other ranks to
`cells/orders.N`. The last order is `end`. Rank R writes `output.0.R.jsonl` (rank 0:
`output.0.jsonl`) and `result.0.R.json`.

If a cell fails in one rank, rank 0 interrupts the others, which would wait for it. If that does not
help, or the process of a rank dies, the session ends.
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
    from typing import Any, Dict, List

HEED_S = 30.0
"""Time to react to an interrupt: many calls of PyTorch and MPI ignore it while they wait."""
LAST_S = 5.0
"""Time that rank 0 waits for the others once a signal has killed the session."""
SELDOM_S = 5.0
"""Seconds between checks for orders in a rank that the first rank on its node wakes."""
PLACE_OF = {"torchrun": "LOCAL_RANK", "mpi": "SLURM_LOCALID"}
"""The variables with a rank's index on its node."""
WRONG_WORLD = 65
"""EX_DATAERR of sysexits.h."""


class Rank(session.Session):
    """The common part of rank 0 and the others."""

    def __init__(
        self, folder: str, attempt: str, engine: str, rank: int, ranks: int, requests: str
    ) -> None:
        self.ranks = ranks
        super().__init__(folder, attempt, engine, rank, requests)

    def _replace_worker(self, cell: session_files.Cell) -> None:
        """Do nothing, because a new process could not join the processes of the other ranks."""

    def _wake_others(self) -> None:
        """Wake the other ranks on this machine."""
        for rank in range(1, self.ranks):
            if rank != self.rank:
                session_files.poke(session_files.poke_path(self.folder, rank))


class First(Rank):
    """Rank 0, which reads the requests."""

    def __init__(self, folder: str, attempt: str, engine: str, rank: int, ranks: int) -> None:
        path = os.path.join(folder, "cells", orders_of(attempt))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        self.orders = os.open(path, flags, 0o600)
        self.found = {}  # type: Dict[int, Dict[str, Any]]
        """Results of the cell by rank."""
        self.urged = ""
        """The last order to end the cell: `cancel`, `kill` or `end`."""
        self.give_up_at_s = 0.0
        self.lost = ""
        """The reason why the session must end."""
        super().__init__(folder, attempt, engine, rank, ranks, "requests")

    def run(self) -> "Dict[str, Any]":
        result = super().run()
        self._order("end", "")
        if self.lost and not self.ended_by:
            result = session_files.ended("error", 1, evalue=self.lost)
            result.update(ename="RankLost", traceback=["RankLost: " + self.lost])
        return result

    def _is_over(self) -> bool:
        return super()._is_over() or bool(self.lost and self.cell is None)

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
            runner.complain("cannot write the result of rank 0: %s" % error)
        self.look_at_s = 0.0

    def _look(self) -> None:
        is_time = time.monotonic() >= self.look_at_s
        super()._look()
        if self.cell is not None and is_time:
            self._gather(self.cell)

    def _gather(self, cell: session_files.Cell) -> None:
        """Read the results of other ranks, and make the cell end in all ranks."""
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
        """End the cell in the ranks that wait for a failed rank."""
        if not self.give_up_at_s:
            self.give_up_at_s = now_s + runner_ranks.TOGETHER_S
        elif now_s > self.give_up_at_s and self.urged != "kill":
            self._urge(cell, "kill" if self.urged or self._has_died() else "cancel")

    def _has_died(self) -> bool:
        return any(one["status"] == "killed" for one in self.found.values())

    def _urge(self, cell: session_files.Cell, verb: str) -> None:
        self.urged = verb
        self.give_up_at_s = time.monotonic() + HEED_S
        cell.cancelled = cell.cancelled or verb == "cancel"
        if verb == "kill":
            left = [rank for rank in range(self.ranks) if rank not in self.found]
            if left:
                told = "jupyter-slurm: killed rank%s %s.\n"
                told %= "" if len(left) == 1 else "s", launch_result.listed(left)
                cell.output.write_text("stderr", told)
            self.worker.kill(signal.SIGKILL)
        self._order(verb, os.path.basename(cell.folder))

    def _tell_all(self, cell: session_files.Cell) -> None:
        """Write the cell's result, merged from the results of all ranks, and its exit file."""
        self.cell = None
        self.stirred_s = time.monotonic()
        if self._has_died():
            died = [rank for rank in sorted(self.found) if self.found[rank]["status"] == "killed"]
            self.lost = "The session lost the process of rank%s %s. Start the session again." % (
                "" if len(died) == 1 else "s",
                launch_result.listed(died),
            )
        try:
            if len(self.found) == self.ranks:
                told = cell.folder, "0", self.ranks, self.found, None, 0, cell.signer
                result = launch_result.merge(*told)
            else:  # the session is killed by a signal, which explains the cell's end
                result = cell.write_result("0")
            session_files.put_exit_of(cell.folder, result)
        except OSError as error:
            runner.complain("cannot write the result of a cell: %s" % error)
            self._say(os.path.basename(cell.folder), runner.NO_ROOM_EXIT, "")


class Other(Rank):
    """Any other rank, which follows the orders of rank 0."""

    def __init__(self, folder: str, attempt: str, engine: str, rank: int, ranks: int) -> None:
        self.is_told_to_end = False
        self.is_first_here = os.environ.get(PLACE_OF[engine], "0") == "0"
        super().__init__(folder, attempt, engine, rank, ranks, orders_of(attempt))

    def _is_over(self) -> bool:
        is_done = self.cell is None and not self.waiting
        return is_done and bool(self.is_told_to_end or self.ended_by)

    def _tick_s(self) -> float:
        is_woken = not self.is_first_here and self.poke.descriptor is not None
        return SELDOM_S if is_woken else super()._tick_s()

    def _take(self, verb: str, cell_id: str) -> None:
        if self.is_first_here:
            self._wake_others()
        if verb == "end":
            self.is_told_to_end = True
        else:
            super()._take(verb, cell_id)

    def _end(self, cell: session_files.Cell) -> None:
        self.cell = None
        self.stirred_s = time.monotonic()
        try:
            cell.write_result(runner.of_rank("0", self.rank))
        except OSError as error:
            runner.complain("cannot write the result of a rank: %s" % error)
            self._say(os.path.basename(cell.folder), runner.NO_ROOM_EXIT, "")
        session_files.poke(session_files.poke_path(self.folder, 0))

    def _leave_out(self, cell_id: str, number: int) -> None:
        cell = self._cell(cell_id)
        name = signal.Signals(number).name
        cell.result = session_files.ended("interrupted", 128 + number, interrupted_by=name)
        cell.result.update(peak_rss_mib=0.0, cpu_s=0.0)
        self._end(cell)

    def _claim(self, cell_id: str) -> bool:
        return True  # rank 0 has claimed it

    def _say(self, cell_id: str, exit_code: int, caught: str) -> None:
        raise SystemExit(exit_code)  # otherwise rank 0 would wait for this rank


def orders_of(attempt: str) -> str:
    """Return the name of the file of orders."""
    return "orders.%s" % attempt


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
    code = session.main(argv, make)
    if code and engine == "torchrun" and code - 128 not in runner.FORWARDED:
        runner_ranks.end_torchrun()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv))
