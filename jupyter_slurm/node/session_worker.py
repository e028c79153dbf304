"""A session's process, which runs the cells one by one and keeps their variables.

Runs on the cluster, Python 3.6 and later, standard library only. `session.py` forks it and writes
each cell's ID and key to a pipe. `runner_cell.py` runs the cell.
"""

import os
import resource
import site
import sys

import runner_cell
import runner_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional


class EventLoop:
    """One event loop for all cells: a cell can await what another cell has opened."""

    def __init__(self) -> None:
        self.loop: "Any" = None

    def run(self, coroutine: "Any") -> "Any":
        """Run the coroutine, and return its value. An interrupt ends it, but not the loop."""
        import asyncio  # 40 ms, for cells that await

        if self.loop is None:
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        task = self.loop.create_task(coroutine)
        try:
            return self.loop.run_until_complete(task)
        finally:
            self._end([task])

    def close(self) -> None:
        if self.loop is not None:
            import asyncio  # already imported

            self._end(asyncio.all_tasks(self.loop))  # novermin: cells await from Python 3.8 on
            self.loop.close()

    def _end(self, tasks: "Any") -> None:
        import asyncio  # already imported

        left = [task for task in tasks if not task.done()]
        for task in left:
            task.cancel()
        if left:
            ended = asyncio.gather(*left, return_exceptions=True)
            self.loop.run_until_complete(ended)


def live(
    session_dir: str,
    orders: int,
    pipes: "List[int]",
    attempt: str,
    rank: "Optional[int]" = None,
) -> int:
    """Run cells until `orders` ends. `pipes` are the pipes for stdout, stderr and events. `rank` is
    the rank of this process, or None in a session with one process."""
    interrupts = runner_process.Interrupts()
    interrupts.armed = False
    publisher = runner_cell.open_process(pipes, interrupts)
    cell = runner_cell.Cell("", "slurm cell", publisher)
    cell.take_rank(session_dir, attempt, rank)
    runner_cell.make_main(cell)
    events = EventLoop()
    cell.run_async = events.run
    import linecache  # noqa: F401 - so that it knows every cell

    interrupts.install()
    with os.fdopen(orders, encoding="ascii") as lines:
        for line in lines:
            cell_id, key = line.split()
            cell.key = key.encode("ascii")
            folder = os.path.join(session_dir, "cells", cell_id)
            publisher.send(run_one(folder, cell, interrupts))
    interrupts.restore()
    events.close()
    return 0


def run_one(
    folder: str, cell: runner_cell.Cell, interrupts: runner_process.Interrupts
) -> "Dict[str, Any]":
    """Run the cell in `folder`, and return its `end` record."""
    before = used()
    try:
        task = runner_cell.read_task(folder)
        cell.source = task["code"]
    except (OSError, ValueError) as error:
        task = {}
        cell.source = "raise RuntimeError(%r)" % ("cannot read the cell: %s" % error)
    cell.name = task.get("cell_name", "slurm cell")
    cell.cache_lines()
    find_user_packages()
    interrupts.arm()
    end = runner_cell.run_cell(task, folder, "0", cell, interrupts)
    after = used()
    end["cpu_s"] = round(after["cpu_s"] - before["cpu_s"], 3)
    end["peak_rss_mib"] = after["peak_rss_mib"]
    return end


def find_user_packages() -> None:
    """Make packages of `pip install --user` importable. Python does so only at its start and only
    if the folder exists, but a cell may create the folder later."""
    if site.ENABLE_USER_SITE:
        folder = site.getusersitepackages()
        if folder not in sys.path and os.path.isdir(folder):
            site.addsitedir(folder)


def used() -> "Dict[str, float]":
    """Return the usage of this process and its children so far."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "cpu_s": sum(usage.ru_utime + usage.ru_stime for usage in usages),
        "peak_rss_mib": round(max(usage.ru_maxrss for usage in usages) / 1024.0, 1),
    }
