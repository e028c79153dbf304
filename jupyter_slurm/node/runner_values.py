"""A file with variables, each pickled separately. The local machine uses this module, too.

Python 3.6 and later, standard library and cloudpickle only. The file has the pickle of each
variable, followed by its large buffers at multiples of 64 bytes. The last line is the index in
JSON:

    {"python": "3.11.2", "protocol": 5, "versions": {"numpy": "2.1.0"},
     "variables": {"x": {"pickle": [0, 150], "buffers": [[192, 80000000]], "code": false}}}

`pickle` is the place [offset, bytes] of a pickle, and `buffers` contains the places of its buffers.
`code` is true if the pickle has functions or classes by value, which only the same Python (3.11)
can read. Arrays are written from their memory, and read as views of a private mapping of the file.
"""

import collections
import functools
import json
import mmap
import os
import pickle
import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds of every job
    from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple

ALIGN_BYTES = 64
LARGE_BYTES = 1 << 16
"""Minimum size of a buffer that is stored outside the pickle."""
PIECE_BYTES = 1 << 20
MOST_WRITTEN_BYTES = 1 << 30
"""Maximum size of one write, since write() takes at most 2 GiB."""
PROTOCOL = min(5, pickle.HIGHEST_PROTOCOL)


class Unreadable(Exception):  # it is raised and caught here
    """The pickle cannot be read with this Python. The message gives the reason."""


# --- writing ----------------------------------------------------------------------------------


def write(path: str, names: "Iterable[str]", namespace: "Dict[str, Any]") -> "Dict[str, str]":
    """Write the variables. Return, by name, the reasons why some cannot be pickled. Raises
    OSError."""
    failed, written = {}, {}
    by_value = _ByValue()
    file = File(path)
    try:
        for name in names:
            start = file.size_bytes
            try:
                written[name] = _dump(namespace[name], file, by_value)
            except Exception as error:
                failed[name] = "it cannot be pickled: %s" % reason(error)
                file.cut(start)
        index = {
            "python": "%d.%d.%d" % sys.version_info[:3],
            "protocol": PROTOCOL,
            "versions": versions(),
            "variables": written,
        }
        file.write(b"\n" + json.dumps(index).encode("ascii") + b"\n")
    finally:
        os.close(file.descriptor)
    return failed


class File:
    """A new private file, written from start to end."""

    def __init__(self, path: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self.descriptor = os.open(path, flags, 0o600)
        self.size_bytes = 0

    def write(self, data: "Any") -> int:
        view = memoryview(data)
        done = 0
        while done < view.nbytes:
            step = os.write(self.descriptor, view[done : done + MOST_WRITTEN_BYTES])
            done += step
            self.size_bytes += step
        return done

    def cut(self, size_bytes: int) -> None:
        """Truncate the file."""
        os.ftruncate(self.descriptor, size_bytes)
        self.size_bytes = os.lseek(self.descriptor, size_bytes, os.SEEK_SET)


def _dump(value: "Any", file: File, by_value: "_ByValue") -> "Dict[str, Any]":
    """Write one variable. Return its entry in the index."""
    start = file.size_bytes
    seen_before = len(by_value.seen)
    buffers = None
    if PROTOCOL >= 5 and "cloudpickle" not in sys.modules:  # its import takes 50 ms
        try:
            buffers = _pickle(_Portable, value, file)
        except Exception:
            file.cut(start)
    if buffers is None:
        buffers = _pickle(by_value, value, file)
    pickle_place = [start, file.size_bytes - start]
    places = []
    for view in buffers:
        file.write(bytes(-file.size_bytes % ALIGN_BYTES))
        places.append([file.size_bytes, view.nbytes])
        file.write(view)
    has_code = len(by_value.seen) > seen_before
    return {"pickle": pickle_place, "buffers": places, "code": has_code}


def _pickle(pickler: "Any", value: "Any", file: File) -> "List[memoryview]":
    """Write the pickle. Return the buffers to store outside of it."""
    buffers: "List[memoryview]" = []

    def keep(buffer: "Any") -> bool:
        view = buffer.raw()
        if view.nbytes >= LARGE_BYTES:
            buffers.append(view)
        return bool(view.nbytes < LARGE_BYTES)

    options = {"buffer_callback": keep} if PROTOCOL >= 5 else {}
    pickler(file, protocol=PROTOCOL, **options).dump(value)
    return buffers


class _Portable(pickle.Pickler):
    """A pickler that rejects objects defined in the cell or notebook, because `__main__` differs in
    another process."""

    def reducer_override(self, value: "Any") -> "Any":
        if getattr(value, "__module__", None) == "__main__":
            raise pickle.PicklingError("it takes cloudpickle")
        return NotImplemented


class _ByValue:
    """cloudpickle's pickler, imported on first use; Python's pickler if cloudpickle is missing
    (Python 3.6, 3.7). `seen` contains the code objects that it has written."""

    def __init__(self) -> None:
        self.seen: "List[Any]" = []
        self.pickler: "Any" = None

    def __call__(self, file: File, **options: "Any") -> "Any":
        if self.pickler is None:
            module = find_cloudpickle()
            self.pickler = self._noting(module.CloudPickler) if module else pickle.Pickler
        return self.pickler(file, **options)

    def _noting(self, base: "Any") -> "Any":
        reduce_code = base.dispatch_table[types.CodeType]

        def noting(code: "Any") -> "Any":
            self.seen.append(code)
            return reduce_code(code)

        table = collections.ChainMap({types.CodeType: noting}, base.dispatch_table)
        return type("Pickler", (base,), {"dispatch_table": table})


def find_cloudpickle() -> "Optional[Any]":
    """Return cloudpickle: the imported module, the copy sent with the job, or the image's copy.
    Return None if it is missing."""
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


def versions() -> "Dict[str, str]":
    """Return the versions of the imported packages."""
    return _versions(len(sys.modules))


@functools.lru_cache(maxsize=1)
def _versions(_modules: int) -> "Dict[str, str]":
    """Return the versions, cached while the number of modules is the same: a notebook has
    thousands."""
    found = {}
    for name, module in list(sys.modules.items()):
        if "." not in name:
            version = getattr(module, "__dict__", {}).get("__version__")
            if isinstance(version, str):
                found[name] = version
    return found


def reason(error: Exception) -> str:
    return "%s: %s" % (type(error).__name__, error)


def sign(path: str, key: bytes) -> str:
    """Return the HMAC-SHA256 of a file, in hexadecimal. Raises OSError."""
    import hashlib  # 5 ms, which a cell with inputs alone does not need
    import hmac

    signature = hmac.new(key, digestmod=hashlib.sha256)
    with open(path, "rb", 0) as file:
        # Use a buffer no larger than the file: clearing a large buffer takes longer than signing a
        # small value.
        size_bytes = os.fstat(file.fileno()).st_size
        piece = memoryview(bytearray(min(PIECE_BYTES, size_bytes + 1)))
        while True:
            size_bytes = file.readinto(piece)
            if not size_bytes:
                return signature.hexdigest()
            signature.update(piece[:size_bytes])


# --- reading ----------------------------------------------------------------------------------


def read(
    path: str, names: "Optional[Sequence[str]]" = None
) -> "Tuple[Dict[str, Any], Dict[str, str]]":
    """Return the variables of a file and, by name, the reasons why some cannot be read. Read only
    the variables `names`, or all if `names` is None. Raise ValueError if the file is incomplete."""
    values, failed = {}, {}
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        index = read_index(mapped)
        found = index["variables"]
        for name in found if names is None else names:
            modules: "Set[str]" = set()
            if name not in found:
                failed[name] = "the file does not contain it"
                continue
            try:
                values[name] = _load(file, memoryview(mapped), index, found[name], modules)
            except Exception as error:
                failed[name] = _explain(error, index["versions"], modules)
    return values, failed


def read_index(mapped: "mmap.mmap") -> "Dict[str, Any]":
    """Return the index of a mapped file. Raises ValueError."""
    start = mapped.rfind(b"\n", 0, len(mapped) - 1) + 1
    index = json.loads(mapped[start:].decode("ascii"))
    if not isinstance(index, dict) or "variables" not in index:
        raise ValueError("it has no index")
    return index


def _load(
    file: "Any",
    whole: memoryview,
    index: "Dict[str, Any]",
    entry: "Dict[str, Any]",
    modules: "Set[str]",
) -> "Any":
    theirs, ours = index["python"], "%d.%d.%d" % sys.version_info[:3]
    if entry["code"] and theirs.split(".")[:2] != ours.split(".")[:2]:
        raise Unreadable(
            "it holds functions or classes of Python %s, and this is Python %s. Import them from a "
            "module, define them in the cell, or use the same Python" % (theirs, ours)
        )
    if index["protocol"] > pickle.HIGHEST_PROTOCOL:
        raise Unreadable(
            "Python %s wrote it, and Python %s is too old to read it. Use Python 3.8 or later"
            % (theirs, ours)
        )
    buffers = [whole[at : at + size_bytes] for at, size_bytes in entry["buffers"]]
    options: "Dict[str, Any]" = {"buffers": buffers} if buffers else {}
    file.seek(entry["pickle"][0])
    unpickler = _Unpickler(file, **options)
    unpickler.modules = modules
    return unpickler.load()


class _Unpickler(pickle.Unpickler):
    modules: "Set[str]" = set()
    """The packages that the pickle names."""

    def find_class(self, module: str, name: str) -> "Any":
        """Find a class, also in NumPy's renamed modules and in the job's cloudpickle. Reject
        classes of `__main__`, which is another program in this process."""
        self.modules.add(module.partition(".")[0])
        if module == "__main__":
            raise Unreadable(
                "it was defined in the cell, whose Python lacks cloudpickle. Use Python 3.8 or "
                "later in the job"
            )
        if module.startswith("cloudpickle"):
            find_cloudpickle()
        known = [module]
        if module.startswith("numpy.core"):
            known.insert(0, module.replace("numpy.core", "numpy._core", 1))
        elif module.startswith("numpy._core"):
            known.append(module.replace("numpy._core", "numpy.core", 1))
        for one in known[:-1]:
            try:
                return super().find_class(one, name)
            except (ImportError, AttributeError):
                continue
        return super().find_class(known[-1], name)


def _explain(error: Exception, theirs: "Dict[str, str]", modules: "Iterable[str]") -> str:
    """Return the reason why a variable cannot be read, such as a missing module or different
    versions."""
    if isinstance(error, Unreadable):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        if package not in sys.modules:
            told = "it needs the module %s, which is not installed here. Install %s for %s"
            return told % (error.name, package, sys.executable)
    ours = versions()
    told = "it cannot be read here: %s" % reason(error)
    differ = [
        "%s %s wrote it, this is %s %s" % (name, theirs[name], name, ours[name])
        for name in sorted(modules)
        if name in theirs and name in ours and theirs[name] != ours[name]
    ]
    if differ:
        return "%s (%s). Use the same version on both sides" % (told, "; ".join(differ))
    return told
