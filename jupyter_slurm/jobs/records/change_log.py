"""A log of values by key, in the order of their latest changes, and of removed keys.

Each change increments the revision. A cursor names a revision and is valid for one agent only. The
log is not thread-safe.
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


class Cursors:
    """The latest revision, and cursors that name revisions."""

    def __init__(self, latest: int = 0) -> None:
        self.latest = latest
        self._epoch = secrets.token_hex(4)

    def cursor(self, revision: int, *more: str) -> str:
        """Return the cursor for a revision, with the caller's extra state."""
        return ".".join((self._epoch, str(revision), *more))

    def read(self, cursor: str) -> tuple[int | None, str]:
        """Return the revision and the state in the cursor. The revision is None if the cursor is
        empty, malformed or another agent's."""
        epoch, _, rest = cursor.partition(".")
        revision, _, more = rest.partition(".")
        is_number = revision.isdecimal() and len(revision) < _DIGITS
        if epoch == self._epoch and is_number and int(revision) <= self.latest:
            return int(revision), more
        return None, ""


class Delta(NamedTuple, Generic[T]):
    whole: bool
    """Set if `values` contains all values, not only changed values."""
    values: tuple[T, ...]
    """Values, the latest change last."""
    gone: tuple[str, ...]
    """Removed keys, latest first."""


class ChangeLog(dict[str, T]):
    """Values by key; `revision_of` returns the revision of a value."""

    def __init__(self, revision_of: Callable[[T], int]) -> None:
        self._revision_of = revision_of
        self._gone = deque[tuple[int, str]]()
        self.remembers_since = 0
        """The revision after which all removed keys are known."""

    def put(self, key: str, value: T) -> None:
        self.pop(key, None)
        self[key] = value

    def remove(self, key: str, revision: int) -> None:
        del self[key]
        self._gone.append((revision, key))
        if len(self._gone) > _GONE_KEPT:
            self.remembers_since, _ = self._gone.popleft()

    def since(self, revision: int | None) -> Delta[T]:
        """Return the changes since `revision`, in time proportional to their number. Return all
        values for None or a revision that is too old."""
        if revision is None or revision < self.remembers_since:
            return Delta(True, tuple(self.values()), ())
        changed = takewhile(lambda one: self._revision_of(one) > revision, reversed(self.values()))
        gone = takewhile(lambda one: one[0] > revision, reversed(self._gone))
        keys = dict.fromkeys(key for _, key in gone if key not in self)
        return Delta(False, tuple(changed)[::-1], tuple(keys))
