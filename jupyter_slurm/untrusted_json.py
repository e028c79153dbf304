"""JSON from a cluster, read with limits on size, depth and number of values. No I/O.

The callers interpret the values.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Annotated, Final, TypeVar

import msgspec

from jupyter_slurm.errors import MalformedError
from jupyter_slurm.formatting import brief, visible

MOST_BYTES: Final = 16 * 2**20
MOST_DEPTH: Final = 64
"""Maximum depth. It is far below Python's stack limit, so a program that can read a value can also
write it."""
MOST_VALUES: Final = 1_000_000
"""Maximum number of values. An empty list takes three bytes of JSON and seventy bytes of memory."""

_MOST_DETAIL: Final = 200

_STRING: Final = re.compile(rb'"[^"]*"')
_DEEPER: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1, ord(","): 0}
_NOT_SHAPE: Final = bytes(set(range(256)) - {*_DEEPER, ord('"')})

LATEST_S: Final = 253_402_300_799
"""The last second of the year 9999, the latest that Python and browsers can format."""
Moment = Annotated[float, msgspec.Meta(ge=0, le=LATEST_S)]
"""A point in time, in UTC epoch seconds."""

_T = TypeVar("_T")


def read_json(data: bytes | str | memoryview, kind: type[_T], most_bytes: int = MOST_BYTES) -> _T:
    """Return the value of `kind` in `data`. Raise MalformedError if the value has another type or
    exceeds a limit."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else bytes(data)
    check_json(raw, most_bytes)
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise MalformedError(
            "The cluster sent malformed data.",
            detail=brief(visible(str(exc)), _MOST_DETAIL),
        ) from None


def unreadable(error: Exception) -> MalformedError:
    """Return the error for a job whose rows or files cannot be read."""
    return MalformedError(
        "Cannot read the cluster's data about this job.",
        hint="Wait; the agent tries again.",
        detail=brief(visible(f"{type(error).__name__}: {error}"), _MOST_DETAIL),
    )


def check_json(data: bytes, most_bytes: int = MOST_BYTES) -> None:
    """Raise MalformedError if `data` exceeds a limit. `data` need not be valid JSON.

    >>> check_json(b'{"a": "[[[[", "b": [1, 2]}')
    """
    if len(data) > most_bytes:
        raise MalformedError(f"JSON of {len(data)} bytes is more than the {most_bytes} allowed.")
    openings = data.count(b"[") + data.count(b"{")
    if openings <= MOST_DEPTH and data.count(b",") <= MOST_VALUES - openings:
        return
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NOT_SHAPE)
    shape = _STRING.sub(b"", plain).replace(b'"', b"")
    if len(shape) - shape.count(b"]") - shape.count(b"}") > MOST_VALUES:
        raise MalformedError(f"JSON has more than {MOST_VALUES} values.")
    if max(accumulate(map(_DEEPER.__getitem__, shape)), default=0) > MOST_DEPTH:
        raise MalformedError(f"JSON is nested more than {MOST_DEPTH} levels deep.")
