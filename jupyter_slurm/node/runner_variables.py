"""Variables to and from a file, on the node: the format JSLVARS1, and nothing about cells.

Runs on the cluster, Python 3.6 and later, standard library only; the other end is
`outcome/variables.py`. A file is the magic line, eight bytes (big-endian) of header length, the
header (JSON: python, protocol, by_value, names, stream_bytes, buffers, plain_names, plain_bytes,
plain_buffers), the pickle of the list of values that are named in `names`, the JSON of those that
need none (`runner_plain.py`), and each buffer at the next multiple of 64 bytes, the pickle's first:
an array is written straight from its memory, and read as a view of a private mapping of the file.
Nothing long is held twice: a long pickle goes into the file as it is made and is read from there,
behind a header that is filled up with blanks.
"""

import codecs
import collections
import copyreg
import hashlib
import json
import mmap
import os
import pickle
import struct
import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds of every job
    from typing import AbstractSet, Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

    import runner_plain

MAGIC = b"JSLVARS1\n"
ALIGN_BYTES = 64
CHUNK_BYTES = 16 << 20
PIECE_BYTES = 1 << 18
"""How many bytes are read at a time to be hashed: they stay in the processor's cache."""
HASH_THREADS = 4
KEPT_BYTES = 1 << 20
"""The size beyond which a pickle is not kept in memory."""
MOST_BUFFERS = 4096
"""The most buffers of a pickle, which limits the header; further ones lie in its stream."""
NUMBER_BYTES = 24
"""The most bytes that a size in the header takes."""
TEXT_PIECES = 32
"""How many pieces a text is read in at most. CPython's `+=` in a `for` lets a text grow where it
is, but PyPy or a debugger copies it each time."""
MAIN = b"__main__"
SEARCHED_PARTS = 200
REFUSED = "%s, which takes a pickle to come back, and --out-format data lets none in"


class PythonMismatch(Exception):  # noqa: N818 - shown to people under this name
    """One Python wrote something by value that another Python cannot read."""


class VariableError(Exception):
    """A variable cannot be read here."""


# --- writing ----------------------------------------------------------------------------------


def store(
    path: str, names: "Sequence[str]", namespace: "Dict[str, Any]", only_data: bool = False
) -> "Dict[str, Any]":
    """Write those of `names` that can travel; return file, bytes, digest, names and failed.

    `failed` is {name: why not}: a name that does not exist, a value that cannot be pickled, or with
    `only_data` one that would have to be.
    """
    failed = {name: "the cell did not set it" for name in names if name not in namespace}
    present = [name for name in names if name in namespace]
    import runner_plain  # noqa: PLC0415 - what is written, not what is read

    plain, others = runner_plain.Plain.of(present, namespace, only_data)
    if only_data:
        failed.update((name, REFUSED % others[name]) for name in others)
    else:
        plain.leave_out(plain.sharing)
    partial = path + ".partial"
    descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        sink = Sink(descriptor, _room_bytes(present, plain))
        if only_data:
            there, pickled = [], dump([], sink)  # type: Tuple[List[str], Pickled]
        else:
            there, pickled = _pickled(present, plain, namespace, failed, sink)
        size_bytes, digest = write(descriptor, there, pickled, plain)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise
    finally:
        os.close(descriptor)
    return {
        "file": os.path.basename(path),
        "bytes": size_bytes,
        "digest": digest,
        "names": [name for name in present if name not in failed],
        "failed": failed,
    }


def _pickled(
    present: "List[str]",
    plain: "runner_plain.Plain",
    namespace: "Dict[str, Any]",
    failed: "Dict[str, str]",
    sink: "Sink",
) -> "Tuple[List[str], Pickled]":
    """Pickle all variables that are not written as data, and those that share an object with them,
    together, so that it stays shared. Return the names and the pickle."""
    while True:
        rest = [name for name in present if name not in plain.trees and name not in failed]
        try:
            pickled = dump([namespace[name] for name in rest], sink, plain.ids())
        except Exception:
            for name in rest:
                try:
                    dump([namespace[name]])
                except Exception as error:
                    failed[name] = explain(namespace[name], error)
            if failed.keys().isdisjoint(rest):  # each by itself could be pickled
                raise
            continue
        shared = plain.shared_with(pickled.met)
        if not shared:
            return rest, pickled
        plain.leave_out(shared)


class Sink:
    """A place for a pickle: a short one is kept, a long one lies in the file behind `room_bytes`
    for the header. Without a file the sink keeps nothing, and only shows whether pickling works."""

    def __init__(self, descriptor: int = -1, room_bytes: int = 0) -> None:
        self.descriptor = descriptor
        self.room_bytes = room_bytes
        self.clear()

    def clear(self) -> None:
        self.kept = bytearray()
        self.size_bytes = 0
        self.in_file = False
        self.has_main = False
        """Whether the pickle names `__main__`."""
        self.end = b""

    def write(self, data: "Any") -> int:
        self.has_main = self.has_main or MAIN in data or MAIN in self.end + bytes(data[: len(MAIN)])
        self.end = bytes(data[-len(MAIN) :])
        self.size_bytes += len(data)
        if self.descriptor < 0:
            return len(data)
        if not self.in_file and self.size_bytes <= KEPT_BYTES:
            self.kept += data
            return len(data)
        if not self.in_file:
            self.in_file = True
            os.lseek(self.descriptor, self.room_bytes, os.SEEK_SET)
            write_whole(self.descriptor, memoryview(self.kept))
            self.kept = bytearray()
        write_whole(self.descriptor, memoryview(data))
        return len(data)


def write_whole(descriptor: int, data: memoryview) -> None:
    done = 0
    while done < data.nbytes:
        done += os.write(descriptor, data[done : done + CHUNK_BYTES])


class Pickled:
    """A pickle: where its stream is, the buffers beside it, which of the watched objects are in it,
    and whether the stream holds code by value."""

    def __init__(self, stream: Sink, buffers: "List[runner_plain.Buffer]", met: "Set[int]") -> None:
        self.stream = stream
        self.buffers = buffers
        self.met = met
        self.by_value = False


def dump(
    values: "List[Any]", sink: "Optional[Sink]" = None, watched: "AbstractSet[int]" = frozenset()
) -> Pickled:
    """Pickle into `sink`, with the standard library where that works, else with cloudpickle.
    `watched` has the ids of objects to look for in the pickle.

    A reference to `__main__` is only good in the process that made it, so a stream that has one is
    made again by cloudpickle, which sends what it means by value.
    """
    protocol = min(5, pickle.HIGHEST_PROTOCOL)
    sink = Sink() if sink is None else sink
    try:
        pickled = _dump(pickle.Pickler, values, protocol, sink, watched)
    except Exception:
        if cloudpickle() is None:
            raise
        pickled = None
    if pickled is not None and not sink.has_main:
        return pickled
    module = cloudpickle()
    if module is None:
        raise pickle.PicklingError(
            "it was defined in the cell, and the cell's Python %d.%d has no cloudpickle to send "
            "such things" % sys.version_info[:2]
        )
    seen = []  # type: List[bool]
    pickled = _dump(_noting_code(module.CloudPickler, seen), values, protocol, sink, watched)
    pickled.by_value = bool(seen)
    return pickled


def _dump(
    pickler: "Any", values: "List[Any]", protocol: int, sink: Sink, watched: "AbstractSet[int]"
) -> Pickled:
    import runner_plain  # noqa: PLC0415 - what is written, not what is read

    beside = runner_plain.Beside(MOST_BUFFERS)
    met = set()  # type: Set[int]
    changes = {}  # type: Dict[str, Any]
    if watched:  # the pickler's memo would tell too, and a copy of it takes more than the values

        def note(_: "Any", value: "Any") -> None:
            if id(value) in watched:
                met.add(id(value))

        changes["persistent_id"] = note
    options = {}  # type: Dict[str, Any]
    if protocol >= 5:
        options["buffer_callback"] = beside.keep
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            known = getattr(pickler, "dispatch_table", copyreg.dispatch_table)
            changes["dispatch_table"] = dict(known)
            changes["dispatch_table"][numpy.ndarray] = beside.reduce
    sink.clear()
    used = type("Pickler", (pickler,), changes) if changes else pickler
    used(sink, protocol=protocol, **options).dump(values)
    return Pickled(sink, beside.buffers, met)


def _noting_code(pickler: "Any", seen: "List[bool]") -> "Any":
    """Return a pickler class that notes code in the stream, which ties that to one Python."""
    reduce_code = pickler.dispatch_table[types.CodeType]

    def noting(code: "Any") -> "Any":
        seen.append(True)
        return reduce_code(code)

    table = collections.ChainMap({types.CodeType: noting}, pickler.dispatch_table)
    return type("Pickler", (pickler,), {"dispatch_table": table})


def cloudpickle() -> "Optional[Any]":
    """Return cloudpickle: the module in use, else the one sent along, else the image's, or None.

    The one sent along is that of the other end, and cloudpickle reads its own streams only.
    """
    if "cloudpickle" not in sys.modules:
        archive = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cloudpickle.zip")
        sent = sys.version_info >= (3, 8) and os.path.exists(archive)
        if sent:
            sys.path.insert(0, archive)
        try:
            __import__("cloudpickle")
        except ImportError:
            return None
        finally:
            if sent:
                sys.path.remove(archive)
    return sys.modules["cloudpickle"]


def explain(value: "Any", error: Exception) -> str:
    """Return why a value cannot be pickled, down to the innermost part that is to blame."""
    where = ""
    for _ in range(8):
        for label, part in _parts(value):
            try:
                dump([part])
            except Exception as deeper:
                where, value, error = where + label, part, deeper
                break
        else:
            break
    reason = str(error).strip() or type(error).__name__
    return "it cannot be pickled: %s%s" % (where and "its %s: " % where, reason)


def _parts(value: "Any") -> "Iterator[Tuple[str, Any]]":
    if isinstance(value, dict):
        parts = [("[%.40r]" % (key,), part) for key, part in list(value.items())[:SEARCHED_PARTS]]
    elif isinstance(value, (list, tuple)):
        parts = [("[%d]" % at, part) for at, part in enumerate(value[:SEARCHED_PARTS])]
    elif isinstance(value, types.FunctionType):
        parts = [
            ("global variable " + name, value.__globals__[name])
            for name in value.__code__.co_names
            if name in value.__globals__
        ]
        cells = zip(value.__code__.co_freevars, value.__closure__ or ())  # noqa: B905 - 3.10
        parts += [("variable " + name, cell.cell_contents) for name, cell in cells]
    elif isinstance(value, (type, types.ModuleType)):
        parts = []
    else:
        state = getattr(value, "__dict__", {})
        parts = [("." + name, part) for name, part in list(state.items())[:SEARCHED_PARTS]]
    return iter(parts)


def _room_bytes(names: "Sequence[str]", plain: "runner_plain.Plain") -> int:
    """Return a size larger than the start of the file can take with a header of these names."""
    sizes = NUMBER_BYTES * (MOST_BUFFERS + len(plain.buffers))
    return 1024 + len(json.dumps(list(names) * 2)) + sizes


def write(
    descriptor: int, names: "Sequence[str]", pickled: Pickled, plain: "runner_plain.Plain"
) -> "Tuple[int, str]":
    """Write all that is not in the file yet; return its size in bytes and its digest."""
    import runner_plain  # noqa: PLC0415 - what is written, not what is read

    stream = pickled.stream
    data = json.dumps(plain.trees, ensure_ascii=False, allow_nan=False).encode("utf-8")
    header = json.dumps(
        {
            "python": list(sys.version_info[:3]),
            "protocol": min(5, pickle.HIGHEST_PROTOCOL),
            "by_value": pickled.by_value,
            "names": list(names),
            "stream_bytes": stream.size_bytes,
            "buffers": [buffer.nbytes for buffer in pickled.buffers],
            "plain_names": list(plain.trees),
            "plain_bytes": len(data),
            "plain_buffers": [buffer.nbytes for buffer in plain.buffers],
        }
    ).encode("ascii")
    if stream.in_file:
        header = header.ljust(stream.room_bytes - len(MAGIC) - 8)
    digest = TreeDigest(descriptor)
    start = MAGIC + struct.pack(">Q", len(header)) + header + bytes(stream.kept)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.ftruncate(descriptor, stream.room_bytes + stream.size_bytes if stream.in_file else 0)
    write_whole(descriptor, memoryview(start))
    at = os.lseek(descriptor, 0, os.SEEK_END)
    digest.advance(at)
    at = _write_all(descriptor, memoryview(data), at, digest)
    for buffer in pickled.buffers + plain.buffers:
        padding = memoryview(bytes(-at % ALIGN_BYTES))
        at = _write_all(descriptor, padding, at, digest)
        for piece in runner_plain.pieces(buffer):
            at = _write_all(descriptor, memoryview(piece), at, digest)
    return at, digest.finish(at)


def _write_all(descriptor: int, data: memoryview, at: int, digest: "TreeDigest") -> int:
    for start in range(0, data.nbytes, CHUNK_BYTES):
        write_whole(descriptor, data[start : start + CHUNK_BYTES])
        digest.advance(min(at + start + CHUNK_BYTES, at + data.nbytes))
    return at + data.nbytes


class TreeDigest:
    """SHA-256 over the SHA-256 digests of a file's 16 MiB chunks, in hexadecimal.

    Chunks are hashed by threads as soon as they are written: hashlib lets go of the GIL.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.pool = None  # type: Any
        self.chunks = []  # type: List[Any]

    def advance(self, size_bytes: int) -> None:
        """Record that the file is complete up to `size_bytes`."""
        while (len(self.chunks) + 1) * CHUNK_BYTES <= size_bytes:
            if self.pool is None:
                from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - 15 ms

                self.pool = ThreadPoolExecutor(HASH_THREADS)
            self.chunks.append(self.pool.submit(self._hash, len(self.chunks)))

    def finish(self, size_bytes: int) -> str:
        self.advance(size_bytes)
        digests = [chunk.result() for chunk in self.chunks]
        if len(digests) * CHUNK_BYTES < size_bytes:
            digests.append(self._hash(len(digests)))
        if self.pool is not None:
            self.pool.shutdown()
        return hashlib.sha256(b"".join(digests)).hexdigest()

    def _hash(self, chunk: int) -> bytes:
        digest = hashlib.sha256()
        end = (chunk + 1) * CHUNK_BYTES
        for at in range(chunk * CHUNK_BYTES, end, PIECE_BYTES):
            digest.update(os.pread(self.descriptor, PIECE_BYTES, at))
        return digest.digest()


# --- reading ----------------------------------------------------------------------------------


def load(path: str) -> "Dict[str, Any]":
    """Return the variables of a file. Raise PythonMismatch or VariableError, with a sentence."""
    with open(path, "rb") as file:
        whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        (header_bytes,) = struct.unpack_from(">Q", whole, len(MAGIC))
        at = len(MAGIC) + 8
        header = json.loads(bytes(whole[at : at + header_bytes]).decode("utf-8"))
        _check_python(header)
        stream_at = at + header_bytes
        at = stream_at + header["stream_bytes"]
        texts = json.loads(bytes(whole[at : at + header["plain_bytes"]]).decode("utf-8"))
        at += header["plain_bytes"]
        places = []
        for size_bytes in header["buffers"] + header["plain_buffers"]:
            at += -at % ALIGN_BYTES
            places.append((at, size_bytes))
            at += size_bytes
        count = len(header["buffers"])
        buffers = [whole[at : at + size_bytes] for at, size_bytes in places[:count]]
        file.seek(stream_at)
        try:
            values = _unpickle(file, buffers)
        except ImportError as error:
            names = ", ".join(header["names"])
            raise VariableError(
                "the variables in (%s) cannot be read here: %s. What they are made of must be "
                "installed for the Python that the cell runs in (%s), in a version like the "
                "notebook's." % (names, error, sys.executable)
            ) from error
        found = dict(zip(header["names"], values))  # noqa: B905 - 3.10
        for name, tree in texts.items():
            [(kind, number)] = tree.items()
            place = places[count + number]
            if kind == "text":
                found[name] = _read_text(file, *place)
                continue
            items = _each(file, *place)
            pairs = zip(items, items)  # noqa: B905 - 3.10
            found[name] = list(items) if kind == "texts" else dict(pairs)
    return found


def _read_text(file: "Any", at: int, size_bytes: int) -> str:
    """Read a long text a piece at a time, since the other end accepts long texts as data."""
    file.seek(at)
    decoder = codecs.getincrementaldecoder("utf-8")("surrogatepass")
    step = max(PIECE_BYTES, size_bytes // TEXT_PIECES)
    whole = ""
    for start in range(0, size_bytes, step):
        whole += decoder.decode(file.read(min(step, size_bytes - start)))
    return whole


def _each(file: "Any", at: int, size_bytes: int) -> "Iterator[Any]":
    """Yield the texts and keys that `runner_plain.Texts` writes; equal ones of a piece are one
    object."""
    file.seek(at)
    while file.tell() < at + size_bytes:
        (length,) = struct.unpack("<Q", file.read(8))
        items = json.loads(file.read(length).decode("utf-8", "surrogatepass"))
        for item in map({}.setdefault, items, items):
            yield item


def _check_python(header: "Dict[str, Any]") -> None:
    theirs, ours = tuple(header["python"][:2]), tuple(sys.version_info[:2])
    if header["protocol"] > pickle.HIGHEST_PROTOCOL:
        raise PythonMismatch(
            "the variables in were written by Python %d.%d in a form that the cell's Python "
            "%d.%d cannot read: take Python 3.8 or later there" % (theirs + ours)
        )
    if header["by_value"] and theirs != ours:
        raise PythonMismatch(
            "the variables in hold functions or classes that the notebook defines, as Python "
            "%d.%d wrote them, and the cell runs in Python %d.%d: define them in the cell, import "
            "them from a module, or take Python %d.%d there" % (theirs + ours + theirs)
        )


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> "Any":
        """Find a class as usual, but also numpy's inner modules, whose names changed with 2.0, and
        cloudpickle, which may have been sent along."""
        if module.startswith("cloudpickle"):
            cloudpickle()
        try:
            return super().find_class(module, name)
        except ImportError:
            if module.split(".")[:2] != ["numpy", "_core"]:
                raise
            return super().find_class(module.replace("numpy._core", "numpy.core", 1), name)


def _unpickle(file: "Any", buffers: "List[memoryview]") -> "Any":
    if buffers:
        return _Unpickler(file, buffers=buffers).load()  # type: ignore[call-arg,unused-ignore]
    return _Unpickler(file).load()
