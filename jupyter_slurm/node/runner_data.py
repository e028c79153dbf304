"""A file with variables as data, without a pickle. The local machine uses this module, too.

Python 3.6 and later, standard library only; NumPy, pandas, Polars and pyarrow for their own values.
The file is an uncompressed zip. `values.json` contains each variable by name. null, booleans,
numbers (including NaN and Infinity), strings and lists represent themselves. A JSON object
represents any other value. Its only key is the value's type:

    {"dict": [[KEY, VALUE], …]}   {"tuple": [VALUE, …]}, and "set" and "frozenset"
    {"bytes": BASE64}, "bytearray"   {"complex": [REAL, IMAGINARY]}   {"scalar": [DTYPE, BASE64]}
    {"array": FILE}: NumPy's .npy
    {"pandas.DataFrame": FILE}, "pandas.Series", "polars.DataFrame", "pyarrow.Table": Arrow's file
"""

import base64
import json
import os
import sys
import zipfile

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds of every job
    from typing import Any, Callable, Dict, Iterable, List, Tuple

VALUES = "values.json"
MOST_TEXT_BYTES = 256 << 20
"""Maximum size of `values.json`."""
SAFE_ARROW = 15
"""The first pyarrow release that never unpickles data from a file."""
REMEDY = "Return numbers, texts, lists, dicts, NumPy arrays or frames"


class NotData(Exception):  # it is raised and caught here
    """A value is not data. The message names the value."""


# --- writing ----------------------------------------------------------------------------------


def write(path: str, names: "Iterable[str]", namespace: "Dict[str, Any]") -> "Dict[str, str]":
    """Write the variables that are data. Return, by name, the reasons why the other variables
    cannot be stored. Raises OSError."""
    failed, texts = {}, []
    left_bytes = MOST_TEXT_BYTES
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w+b") as file, zipfile.ZipFile(file, "w") as archive:
        for name in names:
            packer = Packer(name)
            try:
                text = "%s: %s" % (json.dumps(name), json.dumps(packer.tree(namespace[name])))
                _check_length(text, left_bytes)
                for member, write_to in packer.members:
                    with archive.open(member, "w", force_zip64=True) as stream:
                        write_to(stream)
            except Exception as error:
                failed[name] = _explain(error)
            else:
                left_bytes -= len(text)
                texts.append(text)
        archive.writestr(VALUES, "{%s}" % ",\n".join(texts))
    return failed


def _check_length(text: str, left_bytes: int) -> None:
    if len(text) > left_bytes:
        raise NotData("it is too long as text. Make it a NumPy array")


def _explain(error: Exception) -> str:
    if isinstance(error, NotData):
        return str(error)
    return "it cannot be stored as data: %s: %s. %s" % (type(error).__name__, error, REMEDY)


class Packer:
    """The tree of one variable. `members` contains the variable's other files, each with the
    function that writes it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: "List[Tuple[str, Callable[[Any], None]]]" = []

    def tree(self, value: "Any") -> "Any":
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if kind is list:
            return [self.tree(part) for part in value]
        if kind is dict:
            return {"dict": [[self.tree(key), self.tree(part)] for key, part in value.items()]}
        if kind in (tuple, set, frozenset):
            return {kind.__name__: [self.tree(part) for part in value]}
        if kind in (bytes, bytearray):
            return {kind.__name__: _base64(value)}
        if kind is complex:
            return {"complex": [value.real, value.imag]}
        package = kind.__module__.partition(".")[0]
        return self._packed(value, "%s.%s" % (package, kind.__name__))

    def _packed(self, value: "Any", kind: str) -> "Any":
        numpy: "Any" = sys.modules.get("numpy")
        if kind == "numpy.ndarray" and not value.dtype.hasobject:
            write_array = numpy.lib.format.write_array
            write_to = lambda file: write_array(file, value, allow_pickle=False)  # noqa: E731
            return {"array": self._member("npy", write_to)}
        if numpy is not None and isinstance(value, numpy.generic) and value.dtype.kind not in "OV":
            return {"scalar": [value.dtype.str, _base64(value.tobytes())]}
        if kind not in ("pandas.DataFrame", "pandas.Series", "polars.DataFrame", "pyarrow.Table"):
            raise NotData(
                "it is or contains a %s.%s, which is not data. %s"
                % (type(value).__module__, type(value).__qualname__, REMEDY)
            )
        table = _table(value, kind)
        return {kind: self._member("arrow", lambda file: _write_table(file, table))}

    def _member(self, extension: str, write_to: "Callable[[Any], None]") -> str:
        number = ".%d" % len(self.members) if self.members else ""
        member = "%s%s.%s" % (self.name, number, extension)
        self.members.append((member, write_to))
        return member


def _base64(data: "Any") -> str:
    return base64.b64encode(data).decode("ascii")


def _table(value: "Any", kind: str) -> "Any":
    """Return a frame as an Arrow table."""
    pyarrow = _pyarrow()
    if kind == "pandas.DataFrame":
        return pyarrow.Table.from_pandas(value)
    if kind == "pandas.Series":
        named = "value" if value.name is None else value.name
        table = pyarrow.Table.from_pandas(value.to_frame(named))
        return table.replace_schema_metadata(
            dict(table.schema.metadata, named=b"%d" % (value.name is not None))
        )
    return value if kind == "pyarrow.Table" else value.to_arrow()


def _write_table(file: "Any", table: "Any") -> None:
    import pyarrow  # already imported

    with pyarrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _pyarrow() -> "Any":
    try:
        import pyarrow  # for frames
    except ImportError:
        pyarrow = None
    if pyarrow is None or int(pyarrow.__version__.partition(".")[0]) < SAFE_ARROW:
        raise NotData(
            "a frame needs pyarrow %d or later to be stored as data. Install it for %s, or return "
            "the columns as arrays" % (SAFE_ARROW, sys.executable)
        )
    return pyarrow


# --- reading ----------------------------------------------------------------------------------


def read(path: str, names: "Iterable[str]") -> "Tuple[Dict[str, Any], Dict[str, str]]":
    """Return the variables `names` of a file and, by name, the reasons why some cannot be read.
    Raise ValueError, KeyError or zipfile.BadZipFile if the file is incomplete."""
    values, failed = {}, {}
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
            raise ValueError("it is compressed")
        if any(info.filename == VALUES and info.file_size > MOST_TEXT_BYTES for info in infos):
            raise ValueError("%s is too large" % VALUES)
        trees = json.loads(archive.read(VALUES).decode("ascii"))
        for name in names:
            if name not in trees:
                failed[name] = "the file does not contain it"
                continue
            try:
                values[name] = _value(trees[name], archive)
            except Exception as error:
                failed[name] = _explain_unread(error)
    return values, failed


def _explain_unread(error: Exception) -> str:
    if isinstance(error, NotData):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        told = "it needs the module %s, which is not installed here. Install it for %s"
        return told % (error.name, sys.executable)
    return "it cannot be read here: %s: %s" % (type(error).__name__, error)


def _value(tree: "Any", archive: zipfile.ZipFile) -> "Any":
    if isinstance(tree, list):
        return [_value(part, archive) for part in tree]
    if not isinstance(tree, dict):
        return tree
    [(kind, content)] = tree.items()
    if kind == "dict":
        return {_value(key, archive): _value(part, archive) for key, part in content}
    if kind in ("tuple", "set", "frozenset"):
        made: "Any" = {"tuple": tuple, "set": set, "frozenset": frozenset}[kind]
        return made(_value(part, archive) for part in content)
    if kind in ("bytes", "bytearray"):
        data = base64.b64decode(content)
        return data if kind == "bytes" else bytearray(data)
    if kind == "complex":
        return complex(*content)
    if kind in ("array", "scalar"):
        import numpy  # for arrays

        if kind == "scalar":
            [found] = numpy.frombuffer(base64.b64decode(content[1]), str(content[0]))
            return found
        with archive.open(content) as file:
            return numpy.lib.format.read_array(file, allow_pickle=False)
    return _frame(kind, archive.read(content))


def _frame(kind: str, data: bytes) -> "Any":
    pyarrow = _pyarrow()
    table = pyarrow.ipc.open_file(pyarrow.py_buffer(data)).read_all()
    if kind == "pyarrow.Table":
        return table
    if kind == "polars.DataFrame":
        import polars  # for its frames

        return polars.from_arrow(table)
    frame = table.to_pandas()
    if kind == "pandas.DataFrame":
        return frame
    if kind == "pandas.Series":
        series = frame.iloc[:, 0]
        return series if table.schema.metadata.get(b"named") == b"1" else series.rename(None)
    raise ValueError("unknown type %r" % kind)
