"""An error as it leaves a process."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Problem"]


class Problem(Struct, frozen=True, kw_only=True):
    """An error on its way to a person: see `errors.py` for the codes."""

    code: str
    message: str
    hint: str | None = None
    detail: str | None = None
    transient: bool = False
    option: str | None = None
    """The option of `%%slurm` that it is about, by its long name; "": it is about the line, but not
    about a certain option; None: it is not about the line."""
