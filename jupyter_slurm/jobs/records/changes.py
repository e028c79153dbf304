"""The changes to jobs and connections since a cursor, for `Api.changes`.

A cursor contains the revision of the jobs, digests of connections and queue statuses, and the
revision of each cluster's listed jobs. The agent does not keep a list of clients.
"""

from __future__ import annotations

import hashlib
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import msgspec

from jupyter_slurm.errors import JupyterSlurmError
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.records.change_log import Delta
from jupyter_slurm.jobs.records.registry import JobRegistry
from jupyter_slurm.wire import Changes, ConnectionState, Job, QueueStatus

if TYPE_CHECKING:
    from jupyter_slurm.jobs.watching.listing import Listing

_QUESTION_PAUSE_S = 1.0
"""Seconds between checks while a login waits for an answer. Another caller may get the question
later, without a notification."""


def changes(
    registry: JobRegistry,
    clusters: Clusters,
    cursor: str = "",
    wait_s: float = 0.0,
    caller: str = "",
    look: tuple[str, ...] = (),
    everyone: bool = False,
    ended: bool = False,
) -> Changes:
    """Return the changes since a cursor; see `Api.changes`."""
    deadline_s = time.monotonic() + wait_s
    known, more = registry.cursors.read(cursor)
    digests, _, tables = more.rpartition(".")
    looked, unknown = _listings(clusters, look, everyone)
    with ExitStack() as viewing:
        for listing in looked:
            viewing.enter_context(listing.view())
        while True:
            counts = (clusters.change_count, *(one.change_count for one in looked))
            connections = clusters.seen(caller)
            # Ignore the round trip, which always differs.
            alike = [msgspec.structs.replace(one, round_trip_s=None) for one in connections]
            queues = (*(one.status() for one in looked), *unknown)
            ages = [(one.cluster, one.is_old, one.asked_s is None, one.problem) for one in looked]
            current = (_digest(alike), _digest(ages))
            with registry.lock():
                revision, news = registry.changes_since(known)
                of_tables = _read_tables(tables) if known is not None else {}
                listed = [(one, one.table.since(of_tables.get(one.cluster))) for one in looked]
            if everyone:
                news = _unfinished(news, {one.cluster for one in looked})
            left_s = deadline_s - time.monotonic()
            is_new = (
                _is_news(news, ended)
                or any(any(rows) for _, rows in listed)
                or ".".join(current) != digests
            )
            if is_new or left_s <= 0 or registry.closed or any(one.closed for one in looked):
                break

            def changed(counts: tuple[int, ...] = counts, revision: int = revision) -> bool:
                if any(one.closed for one in looked):
                    return True
                now = (clusters.change_count, *(one.change_count for one in looked))
                if now != counts:
                    return True
                newest, news = registry.changes_since(revision)
                return newest != revision and (not ended or _is_news(news, ended))

            asked = any(one.state is ConnectionState.ASKING for one in connections)
            registry.wait(changed, min(left_s, _QUESTION_PAUSE_S) if asked else left_s)
    known_digest = digests.partition(".")[0]
    of_tables |= {one.cluster: revision for one in looked}
    return Changes(
        cursor=registry.cursors.cursor(revision, *current, _written_tables(of_tables)),
        whole=news.whole,
        jobs=news.values,
        listed=tuple(row for _, rows in listed for row in rows.values),
        listed_whole=tuple(one.cluster for one, rows in listed if rows.whole),
        gone=(*news.gone, *(key for _, rows in listed for key in rows.gone)),
        queues=queues,
        connections=None if current[0] == known_digest else connections,
    )


def _is_news(news: Delta[Job], ended: bool) -> bool:
    jobs = [job for job in news.values if job.state.final] if ended else news.values
    return any((news.whole, jobs, news.gone))


def _listings(
    clusters: Clusters, look: tuple[str, ...], everyone: bool
) -> tuple[list[Listing], list[QueueStatus]]:
    """Return the listings of these clusters, and the status of unusable clusters."""
    found, unknown = [], []
    for name in dict.fromkeys(look):
        try:
            queue = clusters.watch(clusters.named(name)).listing
        except JupyterSlurmError as exc:
            unknown.append(QueueStatus(cluster=name, problem=exc.problem(), interval_s=0.0))
        else:
            found.append(queue.everyone if everyone else queue.mine)
    return found, unknown


def _unfinished(news: Delta[Job], clusters: set[str]) -> Delta[Job]:
    """Return the changes to unfinished jobs in the queues of these clusters. Ended jobs are in
    `gone`."""
    there = [job for job in news.values if job.cluster in clusters and job.slurm_id is not None]
    live = tuple(job for job in there if not job.state.final)
    ended = () if news.whole else tuple(job.id for job in there if job.state.final)
    return Delta(news.whole, live, (*news.gone, *ended))


def _read_tables(text: str) -> dict[str, int]:
    """Return the revision of the listed jobs, by cluster."""
    try:
        return msgspec.json.decode(urlsafe_b64decode(text), type=dict[str, int])
    except (ValueError, msgspec.MsgspecError):
        return {}


def _written_tables(known: Mapping[str, int]) -> str:
    return urlsafe_b64encode(msgspec.json.encode(dict(sorted(known.items())))).decode()


def _digest(values: Sequence[object]) -> str:
    return hashlib.blake2b(msgspec.json.encode(values), digest_size=8).hexdigest()
