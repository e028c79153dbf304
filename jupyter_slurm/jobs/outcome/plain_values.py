"""Values as data, on this side: what a cell gave back without a pickle, and nothing about files.

`node/runner_plain.py` is the other end, and says what the tree looks like. Nothing in here can run
what a tree says: it names no function, class or module, and a type of NumPy's or pandas' only where
it is one of those listed here.
"""

from __future__ import annotations

import array
import codecs
import importlib
import json
import math
import re
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

_ARRAY_TYPE = re.compile(
    r"[<>|=]?[biufcSUmMV]\d{1,9}(\[\d{0,9}(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?"
)
_ZONED = re.compile(r"datetime64\[(?:s|ms|us|ns), (?!dateutil)[A-Za-z0-9_+:/-]{1,64}\]")
_MASKED = ("IntegerArray", "FloatingArray", "BooleanArray")
_STORAGES = ("python", "pyarrow")
_PIECE_BYTES = 1 << 20
_TEXT_PIECES = 32
"""CPython's `+=` in a `for` lets a text grow where it is. What does not (PyPy, a debugger) copies
it each time, so not more often than this."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Data beside a tree: `view` is mapped, and what an array becomes; `read` gives bytes of it
    from an offset on, for what is made of them, so that nothing is held twice."""

    view: memoryview
    read: Callable[[int, int], bytes]

    def pieces(self, size_bytes: int = _PIECE_BYTES) -> Iterator[bytes]:
        for at in range(0, self.view.nbytes, size_bytes):
            yield self.read(at, min(size_bytes, self.view.nbytes - at))


def unpack(tree: Any, buffers: Sequence[Buffer]) -> Any:
    """Return the value that `tree` stands for, with arrays as views of `buffers`.

    ValueError, TypeError, LookupError, RecursionError: it stands for none. ImportError: it is one
    of a package that is not here.
    """
    return _Unpacker(buffers).value(tree)


class _Unpacker:
    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self._buffers = buffers

    def value(self, tree: Any) -> Any:
        match tree:
            case None | bool() | int() | float() | str():
                return tree
            case list():
                if set(map(type, tree)).isdisjoint((list, dict)):
                    return tree
                return [self.value(part) for part in tree]
            case dict() if len(tree) == 1:
                [(name, content)] = tree.items()
                return _KINDS[name](self, content)
            case _:
                raise ValueError("neither a value nor what stands for one")

    def _buffer(self, at: Any) -> Buffer:
        if not isinstance(at, int) or isinstance(at, bool) or at < 0:
            raise ValueError("not the number of a buffer")
        return self._buffers[at]

    def as_bytes(self, content: Any) -> bytes:
        if isinstance(content, str):
            return bytes.fromhex(content)
        buffer = self._buffer(content)
        return buffer.read(0, buffer.view.nbytes)

    def as_bytearray(self, content: Any) -> bytearray:
        if isinstance(content, str):
            return bytearray.fromhex(content)
        buffer = self._buffer(content)
        found, at = bytearray(buffer.view.nbytes), 0
        for piece in buffer.pieces():
            found[at : at + len(piece)] = piece
            at += len(piece)
        return found

    def as_long_text(self, content: Any) -> str:
        decoder = codecs.getincrementaldecoder("utf-8")("surrogatepass")
        buffer = self._buffer(content)
        found = ""
        for piece in buffer.pieces(max(_PIECE_BYTES, buffer.view.nbytes // _TEXT_PIECES)):
            found += decoder.decode(piece)
        return found + decoder.decode(b"", final=True)

    def as_texts(self, content: Any) -> list[Any]:
        buffer = self._buffer(content)
        found: list[Any] = []
        at = 0
        while at < buffer.view.nbytes:
            (length,) = struct.unpack("<Q", buffer.read(at, 8))
            if length > buffer.view.nbytes - at - 8:
                raise ValueError("a piece that is longer than its buffer")
            items = json.loads(buffer.read(at + 8, length).decode("utf-8", "surrogatepass"))
            if not set(map(type, items)) <= {str, type(None)}:
                raise TypeError("not a list of texts")
            same: dict[Any, Any] = {}
            found.extend(map(same.setdefault, items, items))
            at += 8 + length
        return found

    def as_text(self, content: Any) -> str:
        return bytes.fromhex(content).decode("utf-8", "surrogatepass")

    def as_int(self, content: Any) -> int:
        return int(content, 16)

    def as_float(self, content: Any) -> float:
        (found,) = struct.unpack("<d", bytes.fromhex(content))
        return float(found)

    def as_complex(self, content: Any) -> complex:
        return complex(*struct.unpack("<dd", bytes.fromhex(content)))

    def as_floats(self, content: Any) -> list[Any]:
        return self._numbers("d", content)

    def as_ints(self, content: Any) -> list[Any]:
        return self._numbers("q", content)

    def _numbers(self, code: str, content: Any) -> list[Any]:
        found: list[Any] = []
        for piece in self._buffer(content).pieces():
            numbers = array.array(code, piece)
            if sys.byteorder == "big":
                numbers.byteswap()
            found.extend(numbers)
        return found

    def as_tuple(self, content: Any) -> tuple[Any, ...]:
        return tuple(self._list(content))

    def as_set(self, content: Any) -> set[Any]:
        return set(self._list(content))

    def as_frozenset(self, content: Any) -> frozenset[Any]:
        return frozenset(self._list(content))

    def as_dict(self, content: Any) -> dict[Any, Any]:
        names, values = content
        return dict(zip(self._list(names), self._list(values), strict=True))

    def _list(self, tree: Any) -> list[Any]:
        found = self.value(tree)
        if not isinstance(found, list):
            raise TypeError("not a list")
        return found

    # --- NumPy ---

    def as_array(self, content: Any) -> Any:
        import numpy  # noqa: PLC0415

        name, shape, order, at = content
        dtype = numpy.dtype(_array_type(name))
        if dtype.hasobject or order not in ("C", "F"):
            raise ValueError("not an array of data")
        data = self._buffer(at).view
        count = math.prod(_shape(shape))
        if count * dtype.itemsize != data.nbytes:
            raise ValueError("an array of another size than its data")
        if not data.nbytes:
            return numpy.empty(shape, dtype, order)
        return numpy.frombuffer(data, dtype).reshape(shape, order=order)

    def as_objects(self, content: Any) -> Any:
        import numpy  # noqa: PLC0415

        shape, items = content
        found = self._list(items)
        flat = numpy.empty(len(found), object)
        for at, one in enumerate(found):  # as one assignment, lists in it would be taken apart
            flat[at] = one
        return flat.reshape(_shape(shape))

    def as_scalar(self, content: Any) -> Any:
        import numpy  # noqa: PLC0415

        name, data = content
        (found,) = numpy.frombuffer(bytes.fromhex(data), numpy.dtype(_array_type(name)), 1)
        return found

    # --- pandas ---

    def as_series(self, content: Any) -> Any:
        pandas = _pandas()
        values, index, name = content
        return self._column(values, pandas.Series, index=self.value(index), name=self.value(name))

    def as_block(self, content: Any) -> Any:
        pandas = _pandas()
        values, index, columns = map(self.value, content)
        return pandas.DataFrame(values, index, columns, copy=False)

    def as_frame(self, content: Any) -> Any:
        pandas = _pandas()
        parts, index, columns = content[0], self.value(content[1]), self.value(content[2])
        found = {
            at: self._column(part, pandas.Series, index=index) for at, part in enumerate(parts)
        }
        frame = pandas.DataFrame(found, index=index, copy=False)
        frame.columns = columns
        return frame

    def as_range(self, content: Any) -> Any:
        pandas = _pandas()
        start, stop, step, name = content
        return pandas.RangeIndex(start, stop, step, name=self.value(name))

    def as_index(self, content: Any) -> Any:
        pandas = _pandas()
        values, name, freq = content
        found = self._column(values, pandas.Index, name=self.value(name))
        if freq is not None:
            if not isinstance(found, pandas.DatetimeIndex | pandas.TimedeltaIndex):
                raise ValueError("a frequency of no times")
            found.freq = str(freq)  # ValueError: the values do not have it
        return found

    def as_multi(self, content: Any) -> Any:
        pandas = _pandas()
        levels, codes, names = content
        return pandas.MultiIndex(
            levels=[self.value(level) for level in levels],
            codes=[self.value(one) for one in codes],
            names=[self.value(name) for name in names],
        )

    def as_categories(self, content: Any) -> Any:
        pandas = _pandas()
        codes, categories, ordered = content
        kind = pandas.CategoricalDtype(self.value(categories), ordered=bool(ordered))
        return pandas.Categorical.from_codes(self.value(codes), dtype=kind)

    def as_strings(self, content: Any) -> Any:
        import numpy  # noqa: PLC0415

        pandas = _pandas()
        storage, is_nan, texts = content
        if storage not in _STORAGES:
            raise ValueError("no storage of pandas'")
        missing = {"na_value": numpy.nan} if is_nan else {}
        try:
            kind = pandas.StringDtype(storage, **missing)
        except ImportError:  # they are the same texts without pyarrow
            kind = pandas.StringDtype("python", **missing)
        return pandas.array(self._list(texts), dtype=kind)

    def as_zoned(self, content: Any) -> Any:
        pandas = _pandas()
        values, name = content
        if not _ZONED.fullmatch(name):
            raise ValueError("no time zone")
        kind = pandas.api.types.pandas_dtype(name)
        return pandas.DatetimeIndex(self.value(values)).tz_localize("UTC").tz_convert(kind.tz).array

    def as_masked(self, content: Any) -> Any:
        pandas = _pandas()
        name, values, mask = content
        if name not in _MASKED:
            raise ValueError("no masked array of pandas'")
        return getattr(pandas.arrays, name)(self.value(values), self.value(mask))

    def _column(self, tree: Any, kind: Callable[..., Any], **labels: Any) -> Any:
        """Return a Series or an Index of these values, of their very type."""
        values = self.value(tree)
        return kind(values, dtype=values.dtype, copy=False, **labels)


_KINDS: Mapping[str, Callable[[_Unpacker, Any], Any]] = MappingProxyType(
    {
        "str": _Unpacker.as_text,
        "text": _Unpacker.as_long_text,
        "texts": _Unpacker.as_texts,
        "int": _Unpacker.as_int,
        "float": _Unpacker.as_float,
        "complex": _Unpacker.as_complex,
        "bytes": _Unpacker.as_bytes,
        "bytearray": _Unpacker.as_bytearray,
        "floats": _Unpacker.as_floats,
        "ints": _Unpacker.as_ints,
        "tuple": _Unpacker.as_tuple,
        "set": _Unpacker.as_set,
        "frozenset": _Unpacker.as_frozenset,
        "dict": _Unpacker.as_dict,
        "array": _Unpacker.as_array,
        "objects": _Unpacker.as_objects,
        "scalar": _Unpacker.as_scalar,
        "series": _Unpacker.as_series,
        "block": _Unpacker.as_block,
        "frame": _Unpacker.as_frame,
        "range": _Unpacker.as_range,
        "index": _Unpacker.as_index,
        "multi": _Unpacker.as_multi,
        "categories": _Unpacker.as_categories,
        "strings": _Unpacker.as_strings,
        "zoned": _Unpacker.as_zoned,
        "masked": _Unpacker.as_masked,
    }
)


def _pandas() -> Any:
    """Import pandas where a value is one of its own. ImportError."""
    return importlib.import_module("pandas")


def _shape(shape: Any) -> list[int]:
    if not isinstance(shape, list) or not all(type(one) is int and one >= 0 for one in shape):
        raise ValueError("no shape of an array")
    return shape


def _array_type(name: Any) -> Any:
    """Return a description for `numpy.dtype`, of nothing but numbers, text and times."""
    if isinstance(name, str) and _ARRAY_TYPE.fullmatch(name):
        return name
    if not isinstance(name, list):
        raise TypeError("no type of an array's")
    fields = []
    for label, kind, *shape in name:
        names = tuple(map(str, label)) if isinstance(label, list) else str(label)
        fields.append((names, _array_type(kind), *(tuple(_shape(one)) for one in shape)))
    return fields
