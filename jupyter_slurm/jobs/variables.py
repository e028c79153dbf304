"""Variables to and from a file, on this side: the format JSLVARS1, and nothing about jobs.

`node/runner_variables.py` is the other end. A file is the magic line, eight bytes (big-endian) of
header length, the header (JSON, `VariablesHeader`), the pickle of the list of values, the JSON of
those that need no pickle (`plain_values.py`), and each buffer of either at the next multiple of
64 bytes. So an array is written straight from its memory (one copy, the kernel's) and read as a
view of a private mapping of the file (none); what is done to such an array afterwards stays in this
process, and the file may be deleted at once.
"""

from __future__ import annotations

import hashlib
import io
import mmap
import os
import pickle
import struct
import sys
import types
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NewType, cast

import cloudpickle  # type: ignore[import-untyped]
import msgspec

from jupyter_slurm.errors import MalformedError, SignatureError, VariableError
from jupyter_slurm.foreign import read_json
from jupyter_slurm.jobs.plain_values import unpack
from jupyter_slurm.jobs.result import check_asked
from jupyter_slurm.wire import OutFormat

Digest = NewType("Digest", str)
"""SHA-256 over the SHA-256 digests of a file's 16 MiB chunks, in hexadecimal."""

_MAGIC = b"JSLVARS1\n"
_LENGTH = struct.Struct(">Q")
_ALIGN_BYTES = 64
_CHUNK_BYTES = 16 << 20
_PIECE_BYTES = 1 << 18
"""What is read at a time to be hashed: it stays in the processor's cache."""
_HASH_THREADS = 4
MAYBE = "?"
"""Begins the digest of values of which equal ones may have another."""
_WITHOUT_ORDER = (b"\x8f", b"\x91", b"cloudpickle")
"""In a pickle: sets, whose order is another one in each process, and code, which names its file. In
bytes that mean something else these only cost the time to look closer."""
_OF_CODE = (
    "co_name co_qualname co_code co_consts co_names co_varnames co_freevars co_cellvars co_flags "
    "co_argcount co_posonlyargcount co_kwonlyargcount co_exceptiontable"
).split()
_OBJECT = b"\x93"
"""STACK_GLOBAL: whatever is not made of plain values alone."""
_SEARCHED_PARTS = 200
_SEARCHED_DEPTH = 8


class VariablesHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What a file of variables says of itself."""

    python: tuple[int, int, int]
    protocol: int
    by_value: bool
    """The pickle holds code, which only the same (major, minor) of Python can read."""
    names: tuple[str, ...]
    """Of what is pickled."""
    stream_bytes: int
    buffers: tuple[int, ...]
    """The sizes in bytes of the out-of-band buffers."""
    plain_names: tuple[str, ...] = ()
    """Of what is not."""
    plain_bytes: int = 0
    plain_buffers: tuple[int, ...] = ()


@dataclass(slots=True)
class _Pickled:
    stream: bytes
    buffers: list[memoryview]
    by_value: bool


# --- writing ----------------------------------------------------------------------------------


def write_variables(
    path: Path, names: Sequence[str], namespace: Mapping[str, object], *, protocol: int = 5
) -> VariablesHeader:
    """Write the variables `names`, all or none; the file is 0600 and put in place by a rename.

    One pickle holds them all, so what they share stays shared. `protocol` 4 is for a Python before
    3.8. Raises VariableError, which names each variable that cannot be pickled and why.
    """
    try:
        pickled = _pickle([namespace[name] for name in names], protocol)
    except Exception as exc:
        raise _cannot_travel(names, namespace, protocol, exc) from exc
    header = VariablesHeader(
        python=sys.version_info[:3],
        protocol=protocol,
        by_value=pickled.by_value,
        names=tuple(names),
        stream_bytes=len(pickled.stream),
        buffers=tuple(buffer.nbytes for buffer in pickled.buffers),
    )
    text = msgspec.json.encode(header)
    partial = path.with_name(path.name + ".partial")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            at = _write_all(file, _MAGIC + _LENGTH.pack(len(text)) + text, 0)
            at = _write_all(file, pickled.stream, at)
            for buffer in pickled.buffers:
                at = _write_all(file, bytes(-at % _ALIGN_BYTES), at)
                at = _write_all(file, buffer, at)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return header


def _write_all(file: io.FileIO, data: bytes | memoryview, at: int) -> int:
    """Write `data`, however long (one call takes 2 GiB at most); gives the offset behind it."""
    view = memoryview(data)
    while view.nbytes:
        done = file.write(view)
        at += done
        view = view[done:]
    return at


def _pickle(values: list[object], protocol: int) -> _Pickled:
    """By the standard library where that does, else by cloudpickle.

    A reference to `__main__` is only good in this process, so a stream that has one is made again
    by cloudpickle, which sends what it means by value.
    """
    with suppress(Exception):  # what cannot be pickled as it is, cloudpickle may be able to
        pickled = _dump(pickle.Pickler, values, protocol)
        if b"__main__" not in pickled.stream:
            return pickled
    seen: list[types.CodeType] = []
    pickled = _dump(_noting_code(seen), values, protocol)
    pickled.by_value = bool(seen)
    return pickled


def _dump(pickler: type[pickle.Pickler], values: list[object], protocol: int) -> _Pickled:
    stream = io.BytesIO()
    buffers: list[memoryview] = []

    def keep(buffer: pickle.PickleBuffer) -> None:
        buffers.append(buffer.raw())

    pickler(stream, protocol, buffer_callback=keep if protocol >= 5 else None).dump(values)
    return _Pickled(stream.getvalue(), buffers, by_value=False)


def _noting_code(seen: list[types.CodeType]) -> type[pickle.Pickler]:
    """A cloudpickle pickler that notes each code object: these tie a stream to one Python."""
    base = cloudpickle.Pickler
    reduce_code = base.dispatch_table[types.CodeType]

    def noting(code: types.CodeType) -> Any:
        seen.append(code)
        return reduce_code(code)

    table = ChainMap({types.CodeType: noting}, base.dispatch_table)
    return type("NotingPickler", (base,), {"dispatch_table": table})


def _cannot_travel(
    names: Sequence[str], namespace: Mapping[str, object], protocol: int, error: Exception
) -> VariableError:
    reasons: list[str] = []
    for name in names:
        try:
            _pickle([namespace[name]], protocol)
        except Exception as exc:  # noqa: BLE001 - whatever a __reduce__ raises is the reason
            reasons.append(
                f"{name!r} cannot be sent: {_innermost(namespace[name], protocol, exc)}."
            )
    return VariableError(
        " ".join(reasons) or f"The variables {', '.join(names)} cannot be sent together: {error}.",
        hint="Send what it is made from (a path, an array, a dict) and build it in the cell.",
    )


def _innermost(value: object, protocol: int, error: Exception) -> str:
    """The reason, down to the part that is to blame: `its .model[3]: cannot pickle 'x' object`."""
    where = ""
    for _ in range(_SEARCHED_DEPTH):
        for label, part in _parts(value):
            try:
                _pickle([part], protocol)
            except Exception as exc:  # noqa: BLE001 - as above
                where, value, error = where + label, part, exc
                break
        else:
            break
    reason = str(error).strip() or type(error).__name__
    return f"its {where}: {reason}" if where else reason


def _parts(value: object) -> Iterator[tuple[str, object]]:
    match value:
        case dict():
            parts = [(f"[{key!r:.40}]", part) for key, part in value.items()]
        case list() | tuple():
            parts = [(f"[{at}]", part) for at, part in enumerate(value[:_SEARCHED_PARTS])]
        case types.FunctionType():
            known = value.__globals__
            names = [name for name in value.__code__.co_names if name in known]
            parts = [(f"global variable {name}", known[name]) for name in names]
            cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
            parts += [(f"variable {name}", cell.cell_contents) for name, cell in cells]
        case type() | types.ModuleType():
            parts = []
        case _:
            parts = [(f".{name}", part) for name, part in getattr(value, "__dict__", {}).items()]
    return iter(parts[:_SEARCHED_PARTS])


# --- telling whether values are the same ------------------------------------------------------


def digest_inputs(path: Path, names: Sequence[str], namespace: Mapping[str, object]) -> str:
    """The digest of the values that were written to `path`, equal for equal plain values, and as
    far as can be for sets and for code, also when another process has made them anew."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        header, at = _parse_header(memoryview(whole), path)
        end = at + header.stream_bytes
        found = {mark: whole.find(mark, at, end) >= 0 for mark in (*_WITHOUT_ORDER, _OBJECT)}
    maybe = MAYBE if any(found.values()) else ""
    if not any(found[mark] for mark in _WITHOUT_ORDER):
        return maybe + digest_file(path)
    return maybe + _digest_in_order([namespace[name] for name in names]).hex()


def _digest_in_order(value: object) -> bytes:
    digest = hashlib.sha256()
    file = types.SimpleNamespace(write=digest.update)
    pickler = _InOrder(file, 5, buffer_callback=lambda one: digest.update(one.raw()))
    pickler.dump(value)
    return digest.digest()


class _InOrder(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles what is only to be digested: sets in an order, code without where it stood."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # What cloudpickle calls the classes of this process, at random.
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


# --- reading ----------------------------------------------------------------------------------


def digest_file(path: Path) -> Digest:
    """The digest of a file, computed by a few threads: hashlib lets go of the GIL."""

    def digest_chunk(chunk: int) -> bytes:
        digest = hashlib.sha256()
        start, end = chunk * _CHUNK_BYTES, (chunk + 1) * _CHUNK_BYTES
        for at in range(start, end, _PIECE_BYTES):
            digest.update(os.pread(file.fileno(), min(_PIECE_BYTES, end - at), at))
        return digest.digest()

    with path.open("rb") as file:
        chunks = range(-(-os.fstat(file.fileno()).st_size // _CHUNK_BYTES))
        if len(chunks) <= 1:
            digests = [digest_chunk(chunk) for chunk in chunks]
        else:
            with ThreadPoolExecutor(_HASH_THREADS) as pool:
                digests = list(pool.map(digest_chunk, chunks))
    return Digest(hashlib.sha256(b"".join(digests)).hexdigest())


def read_variables(
    path: Path,
    expect: str | None,
    *,
    names: Collection[str] | None = None,
    out_format: OutFormat = "auto",
) -> dict[str, object]:
    """The variables of a file, arrays as views of a private mapping of it.

    `expect` is the digest that the job has signed, `names` the variables that were asked for; None,
    both, where the file is this side's own. Raises SignatureError before anything is unpickled
    where the digest is another, where the file holds what was not asked for, or where it holds a
    pickle that `out_format` does not let in; and VariableError where the file is cut off or made by
    a Python (or by packages) that this one cannot follow.
    """
    if expect is not None and digest_file(path) != expect:
        raise SignatureError(
            f"The variables in {path.name} are not what the job wrote, so they were not read.",
            hint="The file was changed or cut off on its way: fetch the result again.",
        )
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            raise _cut_off(path)
        whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    header, at = _parse_header(whole, path)
    held = (*header.names, *header.plain_names)
    if names is not None:
        check_asked(held, names)
    if header.names and out_format == "data":
        raise _pickled(header.names)
    _check_readable(header)
    stream = whole[at : at + header.stream_bytes]
    at += header.stream_bytes
    plain = whole[at : at + header.plain_bytes]
    at += header.plain_bytes
    buffers: list[memoryview] = []
    for size_bytes in (*header.buffers, *header.plain_buffers):
        at += -at % _ALIGN_BYTES
        buffers.append(whole[at : at + size_bytes])
        at += size_bytes
    if at > whole.nbytes:
        raise _cut_off(path)
    count = len(header.buffers)
    try:
        found = _read_plain(header, plain, buffers[count:])
        if header.names:
            values = _Unpickler(io.BytesIO(bytes(stream)), buffers=buffers[:count]).load()
            found |= zip(header.names, values, strict=True)
    except Exception as exc:
        raise VariableError(
            f"The variables {', '.join(held)} came back, but cannot be read here: "
            f"{type(exc).__name__}: {exc}.",
            hint="The packages they are made of must be installed here, in versions like the "
            "image's; or bring back plain values (numbers, dicts, NumPy arrays).",
        ) from exc
    return {name: found[name] for name in names or held if name in found}


def _read_plain(
    header: VariablesHeader, text: memoryview, buffers: Sequence[memoryview]
) -> dict[str, object]:
    if not header.plain_names:
        return {}
    trees = msgspec.json.decode(text, type=dict[str, Any])
    return {name: unpack(trees[name], buffers) for name in header.plain_names}


def _pickled(names: Sequence[str]) -> SignatureError:
    told = ", ".join(f"`{name}`" for name in names)
    return SignatureError(
        f"{told} came back as a pickle, which `--out-format data` does not let in, so nothing of "
        "the result was read.",
        hint="The cell's own Python would not have written it: something else has, with the key "
        "that lies in the job's folder.",
    )


def _parse_header(whole: memoryview, path: Path) -> tuple[VariablesHeader, int]:
    """The header and the offset of the stream behind it."""
    at = len(_MAGIC) + _LENGTH.size
    if bytes(whole[: len(_MAGIC)]) != _MAGIC or whole.nbytes < at:
        raise _cut_off(path)
    (size_bytes,) = _LENGTH.unpack_from(whole, len(_MAGIC))
    try:
        header = read_json(whole[at : at + size_bytes], VariablesHeader)
    except MalformedError as exc:
        raise _cut_off(path) from exc
    sizes = (header.stream_bytes, header.plain_bytes, *header.buffers, *header.plain_buffers)
    if min(sizes) < 0:
        raise _cut_off(path)
    return header, at + size_bytes


def _cut_off(path: Path) -> VariableError:
    return VariableError(f"{path.name} is no whole file of variables.")


def _check_readable(header: VariablesHeader) -> None:
    theirs, ours = header.python[:2], sys.version_info[:2]
    if header.by_value and theirs != ours:
        raise VariableError(
            f"The variables {', '.join(header.names)} hold functions or classes that the cell "
            f"defines, as Python {theirs[0]}.{theirs[1]} wrote them; this is Python "
            f"{ours[0]}.{ours[1]}, which cannot read them.",
            hint="Bring back plain values (numbers, dicts, NumPy arrays), or use an image with "
            f"Python {ours[0]}.{ours[1]}.",
        )


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """As ever, but for numpy, whose inner modules have other names before and after 2.0."""
        if module.startswith("numpy.core"):
            with suppress(ImportError, AttributeError):
                return super().find_class(module.replace("numpy.core", "numpy._core", 1), name)
        try:
            return super().find_class(module, name)
        except ImportError:
            if not module.startswith("numpy._core"):
                raise
            return super().find_class(module.replace("numpy._core", "numpy.core", 1), name)
