"""What is new since a revision: values by key, the latest changed last, and the keys that are gone.

Revisions are numbers that count up; a cursor names one, and means nothing to another agent. Not
thread-safe, and knows nothing of what the values are.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from itertools import takewhile
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

_DIGITS = 20
_GONE_KEPT = 20_000


class Revisions:
    """The number of the latest change, and the cursors that name such numbers."""

    def __init__(self, latest: int = 0) -> None:
        self.latest = latest
        self._epoch = secrets.token_hex(4)

    def cursor(self, revision: int, *more: str) -> str:
        """Return the cursor of a revision, with what else its holder knows."""
        return ".".join((self._epoch, str(revision), *more))

    def read(self, cursor: str) -> tuple[int | None, str]:
        """Return the revision that the cursor's holder knows, and what more the cursor says. None:
        the holder knows nothing, or the cursor is another agent's, or not ours at all."""
        epoch, _, rest = cursor.partition(".")
        revision, _, more = rest.partition(".")
        is_number = revision.isdecimal() and len(revision) < _DIGITS
        if epoch == self._epoch and is_number and int(revision) <= self.latest:
            return int(revision), more
        return None, ""


class News(NamedTuple, Generic[T]):
    whole: bool
    """`values` are all there are."""
    values: tuple[T, ...]
    """In the order in which they have changed."""
    gone: tuple[str, ...]
    """The latest first."""


class Journal(dict[str, T]):
    """Values by key; `revision_of` says at which revision a value came."""

    def __init__(self, revision_of: Callable[[T], int]) -> None:
        self._revision_of = revision_of
        self._gone = deque[tuple[int, str]]()
        self.remembers_since = 0
        """The revision before which it is not known what is gone."""

    def put(self, key: str, value: T) -> None:
        self.pop(key, None)
        self[key] = value

    def remove(self, key: str, revision: int) -> None:
        del self[key]
        self._gone.append((revision, key))
        if len(self._gone) > _GONE_KEPT:
            self.remembers_since, _ = self._gone.popleft()

    def since(self, revision: int | None) -> News[T]:
        """Return what has changed after `revision`, at the cost of what has; all there is for None,
        or for a revision from which that cannot be told."""
        if revision is None or revision < self.remembers_since:
            return News(True, tuple(self.values()), ())
        changed = takewhile(lambda one: self._revision_of(one) > revision, reversed(self.values()))
        gone = takewhile(lambda one: one[0] > revision, reversed(self._gone))
        keys = dict.fromkeys(key for _, key in gone if key not in self)
        return News(False, tuple(changed)[::-1], tuple(keys))
