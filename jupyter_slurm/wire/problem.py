"""An error as it leaves a process."""

from __future__ import annotations

from msgspec import Struct


class Problem(Struct, frozen=True, kw_only=True):
    """An error on its way to a person: see `errors.py` for the codes."""

    code: str
    message: str
    hint: str | None = None
    detail: str | None = None
    transient: bool = False
