"""The looking half of an Api in memory: queue, nodes and history, which change when a test says so.

There is no Slurm: `see` is what a squeue would have found new.
"""

from __future__ import annotations

import threading

import msgspec

from jupyter_slurm.errors import NotFoundError
from jupyter_slurm.wire import (
    JobPriority,
    Node,
    NodeChanges,
    QueueChanges,
    QueueEntry,
    Spending,
)


def revision_of(cursor: str) -> int:
    """-1: the beginning."""
    return int(cursor) if cursor.isdecimal() else -1


class QueueSide:
    def __init__(self) -> None:
        self.ended: list[QueueEntry] = []
        self.node = Node(name="n1", state="idle", partitions=("all",), cpus=4, cpus_used=0)
        self.priority_rows: list[JobPriority] = []
        self.spent = Spending(cluster="", since_s=0.0, asked_s=1.0, accounting=False)
        self._listed: dict[str, tuple[int, QueueEntry | None]] = {}
        self._look = 0
        self._looked = threading.Condition()

    # --- what a test does to it ---

    def see(self, *entries: QueueEntry, gone: tuple[str, ...] = ()) -> None:
        """squeue has listed these for the first time, or anew."""
        with self._looked:
            self._look += 1
            for entry in entries:
                self._listed[entry.slurm_id] = (self._look, entry)
            for slurm_id in gone:
                self._listed[slurm_id] = (self._look, None)
            self._looked.notify_all()

    # --- Api ---

    def queue_changes(
        self,
        cluster: str | None = None,
        cursor: str = "",
        wait_s: float = 0.0,
        everyone: bool = False,
    ) -> QueueChanges:
        self._must_know(cluster)
        known = revision_of(cursor)
        with self._looked:
            self._looked.wait_for(lambda: self._look > known, wait_s)
            new = {name: one for name, (look, one) in self._listed.items() if look > known}
            return QueueChanges(
                cluster=cluster or "here",
                cursor=str(self._look),
                whole=known < 0,
                entries=tuple(entry for entry in new.values() if entry is not None),
                gone=tuple(name for name, entry in new.items() if entry is None and known >= 0),
                asked_s=1.0,
                interval_s=10.0,
            )

    def node_changes(
        self, cluster: str | None = None, cursor: str = "", wait_s: float = 0.0
    ) -> NodeChanges:
        self._must_know(cluster)
        with self._looked:
            if revision_of(cursor) >= 0:
                self._looked.wait(wait_s)
            return NodeChanges(
                cluster=cluster or "here",
                cursor="1",
                nodes=(self.node,),
                partitions=(),
                asked_s=1.0,
                interval_s=10.0,
            )

    def priorities(self, job_id: str) -> list[JobPriority]:
        return self.priority_rows

    def spending(self, cluster: str | None = None, since_s: float | None = None) -> Spending:
        self._must_know(cluster)
        since_s = 1.0 if since_s is None else since_s
        return msgspec.structs.replace(self.spent, cluster=cluster or "here", since_s=since_s)

    def history(self, cluster: str | None = None, days: float = 1.0) -> list[QueueEntry]:
        self._must_know(cluster)
        return self.ended

    def _must_know(self, cluster: str | None) -> None:
        if cluster == "nosuch":
            raise NotFoundError(f"There is no cluster {cluster}.")
