"""A cluster's nodes and partitions for viewers.

One thread lists them, and is idle without viewers. `offers.py` asks Slurm.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from jupyter_slurm.errors import JupyterSlurmError
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.preflight import offers
from jupyter_slurm.jobs.watching.on_demand import OnDemand, backed_off_s
from jupyter_slurm.wire import NodeChanges, Problem

_SELDOMER = 5.0
"""The interval between listings of nodes, as a multiple of the queue's interval."""

_log = logging.getLogger(__name__)


class Nodes:
    """Nodes and partitions. The first viewer starts the thread."""

    def __init__(self, cluster: SlurmCluster, closed: Callable[[], bool]) -> None:
        self._cluster = cluster
        self._interval_s = cluster.profile.poll_s * _SELDOMER
        self._stop = threading.Event()
        self._shown = OnDemand(self._interval_s, lambda: closed() or self._stop.is_set())
        self._found = offers.NodeList()
        self._wake = threading.Event()
        self._now = threading.Event()
        self._thread: threading.Thread | None = None

    def changes(self, cursor: str, wait_s: float) -> NodeChanges:
        """Return the changes of nodes; see `Api.node_changes`."""
        shown = self._shown
        with shown.look(cursor, wait_s, self._begin):
            return NodeChanges(
                cluster=self._cluster.name,
                cursor=shown.cursor,
                nodes=self._found.nodes,
                partitions=self._found.partitions,
                reservations=self._found.reservations,
                asked_s=shown.asked_s,
                problem=shown.problem,
                interval_s=shown.interval_s,
            )

    def way_opened(self) -> None:
        """Ask again at once after a reconnect, if the last request failed."""
        if self._shown.problem is not None:
            self._now.set()

    def wake(self) -> None:
        """Make waiting calls check their condition."""
        self._shown.wake()

    def close(self) -> None:
        """Make waiting and later calls return, and end the thread. `join` waits for the thread."""
        self._stop.set()
        self._shown.wake()
        self._wake.set()
        self._now.set()

    def join(self, timeout_s: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout_s)

    # --- the thread ---

    def _begin(self) -> None:
        if not self._shown.due_s:
            self._now.set()
        self._wake.set()
        if self._thread is None and not self._stop.is_set():
            name = f"{self._cluster.name}: nodes"
            self._thread = threading.Thread(target=self._keep, name=name, daemon=True)
            self._thread.start()

    def _keep(self) -> None:
        errors = 0
        while not self._stop.is_set():
            if not self._shown.has_viewers:
                self._wake.wait()
                self._wake.clear()
                self._now.wait(self._shown.due_s)
                self._now.clear()
                continue
            problem = self._ask()
            pause_s = self._interval_s
            if problem is not None:
                errors += 1
                self._shown.failed(problem)
                pause_s = backed_off_s(self._cluster.profile.poll_s, errors)
            else:
                errors = 0
            self._now.wait(pause_s)
            self._now.clear()

    def _ask(self) -> Problem | None:
        """Ask for the nodes, and return the problem, if any."""
        try:
            found = offers.nodes(self._cluster)
        except JupyterSlurmError as exc:
            return exc.problem()
        except Exception as exc:  # noqa: BLE001 (a thread must not die silently)
            _log.exception("reading the nodes of %s failed", self._cluster.name)
            sentence = f"Cannot read the nodes: {exc!r}."
            return Problem(code="internal", message=sentence)
        with self._shown.lock:
            changed = found != self._found
            self._found = found
            self._shown.answered(changed=changed)
        return None
