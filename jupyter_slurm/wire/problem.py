"""An error as a value."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Problem"]


class Problem(Struct, frozen=True, kw_only=True):
    """An error as a value; see `errors.py` for the codes."""

    code: str
    message: str
    hint: str | None = None
    detail: str | None = None
    transient: bool = False
    option: str | None = None
    """The long name of the `%%slurm` option that the error is about; "" if it is about the line as
    a whole, None if it is not about the line."""
