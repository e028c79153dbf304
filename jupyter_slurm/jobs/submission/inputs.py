"""Digest the variables of a job. Equal values have equal digests as far as possible."""

from __future__ import annotations

import hashlib
import mmap
import types
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import cloudpickle  # type: ignore[import-untyped]

if TYPE_CHECKING:  # by the name that it has on the node
    import runner_values
else:
    from jupyter_slurm.node import runner_values

MAYBE = "?"
"""Prefix of a digest that may differ for equal values."""
_WITHOUT_ORDER = (b"\x8f", b"\x91", b"cloudpickle")
"""Opcodes of sets, whose order differs between processes, and of code, which names its file. A
false match only costs time."""
_OF_CODE = (
    "co_name co_qualname co_code co_consts co_names co_varnames co_freevars co_cellvars co_flags "
    "co_argcount co_posonlyargcount co_kwonlyargcount co_exceptiontable"
).split()
_PIECE_BYTES = 1 << 20
_OBJECT = b"\x93"
"""STACK_GLOBAL: anything but plain values."""


def holds_code(path: Path) -> bool:
    """Return whether a file of variables contains code by value, which ties it to this Python."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        index = runner_values.read_index(whole)
    return any(one["code"] for one in index["variables"].values())


def digest_inputs(path: Path, names: Sequence[str], namespace: Mapping[str, object]) -> str:
    """Digest the values written to `path`. Equal plain values have equal digests in any process;
    sets and code as far as possible."""
    with path.open("rb") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
            entries = runner_values.read_index(whole)["variables"].values()
            pickles = [one["pickle"] for one in entries]
            found = {
                mark
                for mark in (*_WITHOUT_ORDER, _OBJECT)
                if any(whole.find(mark, at, at + size_bytes) >= 0 for at, size_bytes in pickles)
            }
            left_bytes = whole.rfind(b"\n", 0, len(whole) - 1)  # before the index
        maybe = MAYBE if found else ""
        if found.intersection(_WITHOUT_ORDER):
            return maybe + _digest_in_order([namespace[name] for name in names]).hex()
        digest = hashlib.sha256()
        while left_bytes > 0:
            piece = file.read(min(left_bytes, _PIECE_BYTES))
            digest.update(piece)
            left_bytes -= len(piece)
        return maybe + digest.hexdigest()


def _digest_in_order(value: object) -> bytes:
    digest = hashlib.sha256()
    file = types.SimpleNamespace(write=digest.update)
    pickler = _InOrder(file, 5, buffer_callback=lambda one: digest.update(one.raw()))
    pickler.dump(value)
    return digest.digest()


class _InOrder(cloudpickle.Pickler):  # type: ignore[misc]
    """A pickler for digests: sets sorted, code without its position."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # cloudpickle's random names of this process's classes.
        known = getattr(cloudpickle.cloudpickle, "_DYNAMIC_CLASS_TRACKER_BY_CLASS", {})
        self._class_names = frozenset(known.values())

    def persistent_id(self, value: object) -> object:
        kind = type(value)
        if kind is set or kind is frozenset:
            parts = cast("Collection[object]", value)
            return kind.__name__, sorted(map(_digest_in_order, parts))
        if kind is types.CodeType:
            return "code", [getattr(value, name, None) for name in _OF_CODE]
        return "class" if kind is str and value in self._class_names else None
