"""Variables of cells on this machine: their names, files and digests.

`node/runner_values.py` (pickles) and `node/runner_data.py` (data only) write and read the files on
this machine and on the node. This module turns failures into errors with codes.
"""

from __future__ import annotations

import difflib
import hashlib
import hmac
import keyword
import mmap
import types
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import cloudpickle

from jupyter_slurm.errors import SignatureError, VariableError
from jupyter_slurm.formatting import joined
from jupyter_slurm.wire import OutFormat

if TYPE_CHECKING:  # the modules' names on the node
    import runner_data
    import runner_values
else:
    from jupyter_slurm.node import runner_data, runner_values

MAYBE = "?"
"""The prefix of a digest that may differ for equal values."""
_WITHOUT_ORDER = (b"\x8f", b"\x91", b"cloudpickle")
"""Opcodes of sets and of code. The order of sets differs between processes, and code contains the
name of its file. A false match only costs time."""
_OF_CODE = (
    "co_name co_qualname co_code co_consts co_names co_varnames co_freevars co_cellvars co_flags "
    "co_argcount co_posonlyargcount co_kwonlyargcount co_exceptiontable"
).split()
_PIECE_BYTES = 1 << 20
_OBJECT = b"\x93"
"""The opcode STACK_GLOBAL. Only plain values are pickled without it."""


def check_names(names: Iterable[str], namespace: Mapping[str, object]) -> None:
    """Raise VariableError if a name is not a variable of the notebook."""
    for name in names:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise VariableError(
                f"{name!r} is not a variable name.",
                hint="Separate names by commas: --in data,labels",
            )
        if name not in namespace:
            modules = types.ModuleType
            known = [one for one, value in namespace.items() if not isinstance(value, modules)]
            near = difflib.get_close_matches(name, known, n=1)
            raise VariableError(
                f"Variable {name!r} not found in this notebook.",
                hint=f"Did you mean {''.join(map(repr, near))}?"
                if near
                else "Run the cell that sets it first.",
            )


def check_python(ours: tuple[int, int], theirs: tuple[int, int]) -> None:
    """Raise VariableError if Python version `theirs` cannot read code in the variables, which
    version `ours` pickled."""
    if ours != theirs:
        raise VariableError(
            "The variables contain functions or classes of this notebook, pickled by Python "
            f"{'{}.{}'.format(*ours)}. The cell runs in Python {'{}.{}'.format(*theirs)}, which "
            "cannot read them.",
            hint="Define them in the cell, import them from a module, or run the cell in Python "
            f"{'{}.{}'.format(*ours)}.",
        )


def write_variables(path: Path, names: Sequence[str], namespace: Mapping[str, object]) -> None:
    """Write the variables `names`, all or none, to a file (0600). Raise a VariableError that lists
    the variables that cannot be pickled, with reasons."""
    try:
        failed = runner_values.write(str(path), names, dict(namespace))
    except OSError:
        path.unlink(missing_ok=True)
        raise
    if failed:
        path.unlink()
        reasons = [f"Cannot send {name!r}: {why}." for name, why in failed.items()]
        raise VariableError(
            joined(*reasons),
            hint="Send the data (a path, an array, a dict) and build the object in the cell.",
        )


def check_signature(path: Path, key: bytes, signature: str | None) -> None:
    """Raise SignatureError if the file of variables is not signed with the job's key."""
    if not hmac.compare_digest(runner_values.sign(str(path), key.strip()), signature or ""):
        raise SignatureError(
            f"{path.name} does not have the job's signature, so its variables were not read.",
            hint="Fetch the result again, because the file was changed or truncated.",
        )


def read_variables(
    path: Path, names: Sequence[str] | None = None, out_format: OutFormat = "auto"
) -> tuple[dict[str, object], dict[str, str]]:
    """Return the variables of a file with a checked signature, and the reasons why some cannot be
    read.

    `names` are the requested variables; None for all. Others stay unread. With `out_format` "data",
    nothing is unpickled. Raise VariableError if the file is incomplete. Unpickled arrays are views
    of a private mapping of the file; the file may be deleted.
    """
    try:
        if out_format == "data":
            return runner_data.read(str(path), names or ())
        return runner_values.read(str(path), names)
    except Exception as exc:
        raise VariableError(
            f"{path.name} is not a complete file of variables.", detail=str(exc)
        ) from exc


def holds_code(path: Path) -> bool:
    """Return whether a file of variables contains code by value, which ties it to this Python."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        index = runner_values.read_index(whole)
    return any(one["code"] for one in index["variables"].values())


def digest_inputs(path: Path, names: Sequence[str], namespace: Mapping[str, object]) -> str:
    """Return a digest of the values written to `path`. Equal plain values have equal digests in any
    process. Equal sets and equal code usually have equal digests, too."""
    with path.open("rb") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
            entries = runner_values.read_index(whole)["variables"].values()
            pickles = [one["pickle"] for one in entries]
            found = {
                mark
                for mark in (*_WITHOUT_ORDER, _OBJECT)
                if any(whole.find(mark, at, at + size_bytes) >= 0 for at, size_bytes in pickles)
            }
            left_bytes = whole.rfind(b"\n", 0, len(whole) - 1)  # the bytes before the index
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
    """A pickler for digests. It sorts sets, and omits the source location of code."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # cloudpickle gives the classes of this process random names.
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
