"""Report changes of jobs and connections since a cursor: `Api.changes`.

A cursor holds the revision of the jobs and a digest of the connections; the agent keeps no list of
its holders.
"""

from __future__ import annotations

import hashlib
import time

import msgspec

from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.records.registry import JobRegistry
from jupyter_slurm.wire import Changes, Connection, ConnectionState

_QUESTION_PAUSE_S = 1.0
"""Seconds between looks while a login waits for an answer: after a while its question goes to other
callers too, without a notification."""


def changes(
    registry: JobRegistry,
    clusters: Clusters,
    cursor: str = "",
    wait_s: float = 0.0,
    caller: str = "",
) -> Changes:
    """Return what `Api.changes` does."""
    deadline_s = time.monotonic() + wait_s
    known, known_digest = registry.cursors.read(cursor)
    while True:
        count = clusters.change_count
        connections = clusters.seen(caller)
        digest = _digest(connections)
        revision, news = registry.changes_since(known)
        left_s = deadline_s - time.monotonic()
        is_new = news.whole or news.values or news.gone or digest != known_digest
        if is_new or left_s <= 0 or registry.closed:
            break

        def changed(count: int = count, revision: int = revision) -> bool:
            return registry.revision != revision or clusters.change_count != count

        asked = any(one.state is ConnectionState.ASKING for one in connections)
        registry.wait(changed, min(left_s, _QUESTION_PAUSE_S) if asked else left_s)
    return Changes(
        cursor=registry.cursors.cursor(revision, digest),
        whole=news.whole,
        jobs=news.values,
        gone=news.gone,
        connections=None if digest == known_digest else connections,
    )


def _digest(connections: tuple[Connection, ...]) -> str:
    """Return a digest of everything but the round trip, which always differs."""
    values = [msgspec.structs.replace(one, round_trip_s=None) for one in connections]
    return hashlib.blake2b(msgspec.json.encode(values), digest_size=8).hexdigest()
