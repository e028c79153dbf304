"""The Slurm calls of an Api in memory: nodes, history, priorities, spending."""

from __future__ import annotations

import threading

import msgspec

from jupyter_slurm.errors import NotFoundError
from jupyter_slurm.wire import (
    JobPriority,
    ListedJob,
    Node,
    NodeChanges,
    Spending,
)


def revision_of(cursor: str) -> int:
    """Return the revision in a cursor; -1 for the beginning."""
    return int(cursor) if cursor.isdecimal() else -1


class QueueSide:
    def __init__(self) -> None:
        self.ended: list[ListedJob] = []
        self.node = Node(name="n1", state="idle", partitions=("all",), cpus=4, cpus_used=0)
        self.priority_rows: list[JobPriority] = []
        self.spent = Spending(cluster="", since_s=0.0, asked_s=1.0, accounting=False)
        self._look = threading.Condition()

    def node_changes(
        self, cluster: str | None = None, cursor: str = "", wait_s: float = 0.0
    ) -> NodeChanges:
        self._must_know(cluster)
        with self._look:
            if revision_of(cursor) >= 0:
                self._look.wait(wait_s)
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

    def history(self, cluster: str | None = None, days: float = 1.0) -> list[ListedJob]:
        self._must_know(cluster)
        return self.ended

    def _must_know(self, cluster: str | None) -> None:
        if cluster == "nosuch":
            raise NotFoundError(f"Cluster {cluster} not found.")
