"""Variables to and from a file, on this side: the format JSLVARS1, and nothing about jobs.

`node/runner_variables.py` is the other end. A file is the magic line, eight bytes (big-endian) of
header length, the header (JSON, `VariablesHeader`), the pickle of the list of values, the JSON of
those that need no pickle (`plain_values.py`), and each buffer of either at the next multiple of
64 bytes. So an array is written straight from its memory (one copy, the kernel's) and read as a
view of a private mapping of the file (none); what is done to such an array afterwards stays in this
process, and the file may be deleted at once. Nothing long is held twice: a long pickle goes into
the file as it is made and is read from there, behind a header that is filled up with blanks.
"""

from __future__ import annotations

import copyreg
import hashlib
import io
import mmap
import os
import pickle
import struct
import sys
import types
from collections import ChainMap, Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NewType

import cloudpickle  # type: ignore[import-untyped]
import msgspec

from jupyter_slurm.errors import MalformedError, SignatureError, VariableError
from jupyter_slurm.foreign import read_json
from jupyter_slurm.jobs.outcome.large_values import Beside, Strided, pieces, without_pickle
from jupyter_slurm.jobs.outcome.plain_values import Buffer, unpack
from jupyter_slurm.jobs.outcome.result import check_asked
from jupyter_slurm.wire import Message, OutFormat, together

Digest = NewType("Digest", str)
"""SHA-256 over the SHA-256 digests of a file's 16 MiB chunks, in hexadecimal."""

_MAGIC = b"JSLVARS1\n"
_LENGTH = struct.Struct(">Q")
_ALIGN_BYTES = 64
_CHUNK_BYTES = 16 << 20
_PIECE_BYTES = 1 << 18
"""The bytes read at a time to be hashed: they stay in the processor's cache."""
_HASH_THREADS = 4
_KEPT_BYTES = 1 << 20
"""A longer pickle is not kept in memory."""
_MOST_BUFFERS = 4096
"""The most buffers of a pickle (what is beyond lies in its stream), so that headers are bounded."""
_NUMBER_BYTES = 24
"""A size in the header takes at most."""
_MAIN = b"__main__"
_SEARCHED_PARTS = 200
_SEARCHED_DEPTH = 8


class VariablesHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a file of variables."""

    python: tuple[int, int, int]
    protocol: int
    by_value: bool
    """The pickle holds code, which only the same (major, minor) of Python can read."""
    names: tuple[str, ...]
    """The names of the pickled variables."""
    stream_bytes: int
    buffers: tuple[int, ...]
    """The sizes in bytes of the out-of-band buffers."""
    plain_names: tuple[str, ...] = ()
    """The names of the others."""
    plain_bytes: int = 0
    plain_buffers: tuple[int, ...] = ()


class _PickleSink:
    """Takes a pickle: a short one is kept, a long one lies in the file behind `room_bytes` for the
    header. Without a file nothing is kept: it is seen whether there can be a pickle."""

    def __init__(self, file: io.FileIO | None = None, room_bytes: int = 0) -> None:
        self._file = file
        self.room_bytes = room_bytes
        self.clear()

    def clear(self) -> None:
        self.kept = bytearray()
        self.size_bytes = 0
        self.in_file = False
        self.has_main = False
        """It names `__main__`."""
        self._end = b""

    def write(self, data: bytes | bytearray) -> int:
        names_main = _MAIN in data or _MAIN in self._end + bytes(data[: len(_MAIN)])
        self.has_main = self.has_main or names_main
        self._end = bytes(data[-len(_MAIN) :])
        self.size_bytes += len(data)
        if self._file is None:
            return len(data)
        if not self.in_file and self.size_bytes <= _KEPT_BYTES:
            self.kept += data
            return len(data)
        if not self.in_file:
            self.in_file = True
            self._file.seek(self.room_bytes)
            _write_all(self._file, self.kept, 0)
            self.kept = bytearray()
        _write_all(self._file, data, 0)
        return len(data)


@dataclass(slots=True)
class _Pickled:
    stream: _PickleSink
    buffers: list[memoryview | Strided]
    by_value: bool
    met: set[int]
    """The watched objects that it holds."""


# --- writing ----------------------------------------------------------------------------------


def write_variables(
    path: Path, names: Sequence[str], namespace: Mapping[str, object], *, protocol: int = 5
) -> VariablesHeader:
    """Write the variables `names`, all or none; the file is 0600 and put in place by a rename.

    One pickle holds them all, so what they share stays shared. `protocol` 4 is for a Python before
    3.8. Raises VariableError, which names each variable that cannot be pickled and why.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            header = _write(file, names, namespace, protocol)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return header


def _write(
    file: io.FileIO, names: Sequence[str], namespace: Mapping[str, object], protocol: int
) -> VariablesHeader:
    large = {name: one for name in names if (one := without_pickle(namespace[name])) is not None}
    room_bytes = (
        1024 + len(msgspec.json.encode(names)) + _NUMBER_BYTES * (_MOST_BUFFERS + len(large))
    )
    sink = _PickleSink(file, room_bytes)
    others = [name for name in names if name not in large]
    try:
        ids = {name: id(namespace[name]) for name in large if type(namespace[name]) is not str}
        pickled = _pickle([namespace[name] for name in others], protocol, sink, {*ids.values()})
        found = Counter([*ids.values(), *pickled.met])
        shared = {name for name, one in ids.items() if found[one] > 1}
        if shared:  # and stays so
            large = {name: one for name, one in large.items() if name not in shared}
            others = [name for name in names if name not in large]
            pickled = _pickle([namespace[name] for name in others], protocol, sink)
    except OSError:
        raise
    except Exception as exc:
        raise _cannot_travel(others, namespace, protocol, exc) from exc
    stream = pickled.stream
    plain = msgspec.json.encode(
        {name: {one.kind: at} for at, (name, one) in enumerate(large.items())}
    )
    header = VariablesHeader(
        python=sys.version_info[:3],
        protocol=protocol,
        by_value=pickled.by_value,
        names=tuple(others),
        stream_bytes=stream.size_bytes,
        buffers=tuple(buffer.nbytes for buffer in pickled.buffers),
        plain_names=tuple(large),
        plain_bytes=len(plain),
        plain_buffers=tuple(one.nbytes for one in large.values()),
    )
    start = msgspec.json.encode(header)
    if stream.in_file:
        start = start.ljust(room_bytes - len(_MAGIC) - _LENGTH.size)
    file.seek(0)
    file.truncate(room_bytes + stream.size_bytes if stream.in_file else 0)
    _write_all(file, _MAGIC + _LENGTH.pack(len(start)) + start + stream.kept, 0)
    at = _write_all(file, plain, file.seek(0, os.SEEK_END))
    for buffer in [*pickled.buffers, *large.values()]:
        at = _write_all(file, bytes(-at % _ALIGN_BYTES), at)
        for piece in pieces(buffer):
            at = _write_all(file, piece, at)
    return header


def _write_all(file: io.FileIO, data: bytes | bytearray | memoryview, at: int) -> int:
    """Write `data`, however long (one call takes 2 GiB at most); gives the offset behind it."""
    view = memoryview(data)
    while view.nbytes:
        done = file.write(view)
        at += done
        view = view[done:]
    return at


def _pickle(
    values: list[object], protocol: int, sink: _PickleSink, watched: Set[int] = frozenset()
) -> _Pickled:
    """Pickle by the standard library where that works, else by cloudpickle; `watched`: ids of
    objects to look for in the values.

    A reference to `__main__` is only good in this process, so a stream that has one is made again
    by cloudpickle, which sends what it means by value.
    """
    with suppress(Exception):  # what cannot be pickled as it is, cloudpickle may be able to
        pickled = _dump(pickle.Pickler, values, protocol, sink, watched)
        if not sink.has_main:
            return pickled
    seen: list[types.CodeType] = []
    pickled = _dump(_noting_code(seen), values, protocol, sink, watched)
    pickled.by_value = bool(seen)
    return pickled


def _dump(
    pickler: type[pickle.Pickler],
    values: list[object],
    protocol: int,
    sink: _PickleSink,
    watched: Set[int],
) -> _Pickled:
    beside = Beside(_MOST_BUFFERS)
    met: set[int] = set()
    changes: dict[str, object] = {}

    def note(_: object, value: object) -> None:
        if id(value) in watched:
            met.add(id(value))

    if watched:
        changes["persistent_id"] = note
    numpy = sys.modules.get("numpy")
    if numpy is not None and protocol >= 5:
        known = getattr(pickler, "dispatch_table", copyreg.dispatch_table)
        changes["dispatch_table"] = {**known, numpy.ndarray: beside.reduce}
    used = type("Pickler", (pickler,), changes) if changes else pickler
    sink.clear()
    used(sink, protocol, buffer_callback=beside.keep if protocol >= 5 else None).dump(values)
    return _Pickled(sink, beside.buffers, by_value=False, met=met)


def _noting_code(seen: list[types.CodeType]) -> type[pickle.Pickler]:
    """Return a cloudpickle pickler that notes code objects: they tie a stream to one Python."""
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
    reasons: list[Message] = []
    for name in names:
        try:
            _pickle([namespace[name]], protocol, _PickleSink())
        except Exception as exc:  # noqa: BLE001 - whatever a __reduce__ raises is the reason
            reasons.append(
                Message.of(
                    "{name} cannot be sent: {why}.",
                    name=repr(name),
                    why=_innermost(namespace[name], protocol, exc),
                )
            )
    return VariableError(
        together(*reasons) or "The variables {names} cannot be sent together: {error}.",
        hint="Send what it is made from (a path, an array, a dict) and build it in the cell.",
        names=", ".join(names),
        error=error,
    )


def _innermost(value: object, protocol: int, error: Exception) -> str:
    """Return the reason, down to the part to blame: `its .model[3]: cannot pickle 'x' object`."""
    where = ""
    for _ in range(_SEARCHED_DEPTH):
        for label, part in _parts(value):
            try:
                _pickle([part], protocol, _PickleSink())
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


# --- reading ----------------------------------------------------------------------------------


def digest_file(path: Path) -> Digest:
    """Compute the digest of a file in a few threads: hashlib lets go of the GIL."""

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
    """Return the variables of a file, with arrays as views of a private mapping of it.

    `expect` is the digest that the job has signed, `names` the variables that were asked for; None,
    both, where the file is this side's own. Raises SignatureError before anything is unpickled
    where the digest is another, where the file holds what was not asked for, or where it holds a
    pickle that `out_format` does not let in; and VariableError where the file is cut off or made by
    a Python (or by packages) that this one cannot follow.
    """
    if expect is not None and digest_file(path) != expect:
        raise SignatureError(
            "The variables in {name} are not what the job wrote, so they were not read.",
            hint="The file was changed or cut off on its way: fetch the result again.",
            name=path.name,
        )
    with path.open("rb") as file:
        return _read(file, path, names, out_format)


def _read(
    file: BinaryIO, path: Path, names: Collection[str] | None, out_format: OutFormat
) -> dict[str, object]:
    if not os.fstat(file.fileno()).st_size:
        raise _cut_off(path)
    whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    header, at = parse_header(whole, path)
    held = (*header.names, *header.plain_names)
    if names is not None:
        check_asked(held, names)
    if header.names and out_format == "data":
        raise _pickled(header.names)
    _check_readable(header)
    stream_at = at
    at += header.stream_bytes
    plain = whole[at : at + header.plain_bytes]
    at += header.plain_bytes
    buffers: list[Buffer] = []
    for size_bytes in (*header.buffers, *header.plain_buffers):
        at += -at % _ALIGN_BYTES
        buffers.append(Buffer(whole[at : at + size_bytes], partial(_read_at, file, at)))
        at += size_bytes
    if at > whole.nbytes:
        raise _cut_off(path)
    count = len(header.buffers)
    try:
        found = _read_plain(header, plain, buffers[count:])
        if header.names:
            file.seek(stream_at)
            views = [buffer.view for buffer in buffers[:count]]
            values = _Unpickler(file, buffers=views).load()
            found |= zip(header.names, values, strict=True)
    except Exception as exc:
        missing = exc.name if isinstance(exc, ModuleNotFoundError) else None
        package = (missing or "").partition(".")[0]
        raise VariableError(
            "The variables {held} came back, but cannot be read here: {error}: {exc}.",
            hint="Install {package} for this notebook's Python, in a version like the job's; or "
            "bring back plain values (numbers, texts, lists, dicts)."
            if package
            else "The packages they are made of must be installed here, in versions like the "
            "job's; or bring back plain values (numbers, dicts, NumPy arrays).",
            package=package,
            held=", ".join(held),
            error=type(exc).__name__,
            exc=exc,
        ) from exc
    return {name: found[name] for name in names or held if name in found}


def _read_at(file: BinaryIO, buffer_at: int, at: int, size_bytes: int) -> bytes:
    file.seek(buffer_at + at)
    return file.read(size_bytes)


def _read_plain(
    header: VariablesHeader, text: memoryview, buffers: Sequence[Buffer]
) -> dict[str, object]:
    if not header.plain_names:
        return {}
    trees = msgspec.json.decode(text, type=dict[str, Any])
    return {name: unpack(trees[name], buffers) for name in header.plain_names}


def _pickled(names: Sequence[str]) -> SignatureError:
    told = ", ".join(f"`{name}`" for name in names)
    return SignatureError(
        "{told} came back as a pickle, which `--out-format data` does not let in, "
        "so nothing of the result was read.",
        hint="The cell's own Python would not have written it: something else has, with the key "
        "that lies in the job's folder.",
        told=told,
    )


def parse_header(whole: memoryview, path: Path) -> tuple[VariablesHeader, int]:
    """Return the header and the offset of the stream behind it."""
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
    return VariableError("{name} is not a complete file of variables.", name=path.name)


def _check_readable(header: VariablesHeader) -> None:
    theirs, ours = header.python[:2], sys.version_info[:2]
    if header.by_value and theirs != ours:
        raise VariableError(
            "The variables {names} hold functions or classes that the cell defines, as "
            "Python {theirs} wrote them; this is Python {ours}, "
            "which cannot read them.",
            hint="Bring back plain values (numbers, dicts, NumPy arrays), or use an image "
            "with Python {ours}.",
            names=", ".join(header.names),
            theirs="{}.{}".format(*theirs),
            ours="{}.{}".format(*ours),
        )


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Find as usual, but for numpy, whose inner modules were renamed in 2.0."""
        if module.startswith("numpy.core"):
            with suppress(ImportError, AttributeError):
                return super().find_class(module.replace("numpy.core", "numpy._core", 1), name)
        try:
            return super().find_class(module, name)
        except ImportError:
            if not module.startswith("numpy._core"):
                raise
            return super().find_class(module.replace("numpy._core", "numpy.core", 1), name)
