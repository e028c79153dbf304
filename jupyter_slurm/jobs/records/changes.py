"""Tell what is new of jobs, connections and actions since a cursor: `Api.changes`.

A cursor says up to which revision of the Book its holder knows, and by digests how the connections
and the actions looked then; its holders are not kept here.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.records.book import Book
from jupyter_slurm.wire import Action, Changes, Connection, ConnectionState

if TYPE_CHECKING:
    from jupyter_slurm.jobs.actions import Actions

_QUESTION_PAUSE_S = 1.0
"""A question becomes another caller's when it has lain for long: nobody tells of that."""


def changes(
    book: Book,
    clusters: Clusters,
    actions: Actions,
    cursor: str = "",
    wait_s: float = 0.0,
    caller: str = "",
) -> Changes:
    """Return what `Api.changes` does."""
    deadline_s = time.monotonic() + wait_s
    known, more = book.revisions.read(cursor)
    known_digest, _, known_actions = more.partition(".")
    while True:
        stirs = (clusters.stirs, actions.stirs)
        connections, all_actions = clusters.seen(caller), actions.listed()
        # All but the round trip, which always differs.
        digest = _digest([msgspec.structs.replace(one, round_trip_s=None) for one in connections])
        digest_of_actions = _digest(all_actions)
        revision, news = book.news(known)
        left_s = deadline_s - time.monotonic()
        is_other = (digest, digest_of_actions) != (known_digest, known_actions)
        is_new = news.whole or news.values or news.gone or is_other
        if is_new or left_s <= 0 or book.closed:
            break

        def stirred(stirs: tuple[int, int] = stirs, revision: int = revision) -> bool:
            return book.revision != revision or (clusters.stirs, actions.stirs) != stirs

        asked = any(one.state is ConnectionState.ASKING for one in connections)
        book.wait(stirred, min(left_s, _QUESTION_PAUSE_S) if asked else left_s)
    return Changes(
        cursor=book.revisions.cursor(revision, digest, digest_of_actions),
        whole=news.whole,
        jobs=news.values,
        gone=news.gone,
        connections=None if digest == known_digest else connections,
        actions=None if digest_of_actions == known_actions else all_actions,
    )


def _digest(values: Sequence[Connection] | Sequence[Action]) -> str:
    return hashlib.blake2b(msgspec.json.encode(values), digest_size=8).hexdigest()
