"""Values as data, on the node: what a cell gives back without a pickle, and nothing about files.

Runs on the cluster, Python 3.6 and later, standard library only; `outcome/plain_values.py` is the
other end. A value becomes a tree of JSON and buffers beside it, or `NotPlain` where it would not
come back exactly as it is. In the tree None, bools, numbers, text and lists stand for themselves;
an object has one key, which says what its value stands for. NumPy and pandas are used where the
cell has imported them.
"""

import array
import binascii
import collections
import json
import pickle
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds of every job
    from typing import (  # noqa: F401 - in comments
        Any,
        Callable,
        Dict,
        Iterator,
        List,
        Sequence,
        Set,
        Tuple,
        Union,
    )

MOST_DEEP = 100
MOST_PARTS = 20000
"""The most lists, dicts and the like in a variable: for more, a pickle is made ten times as
fast."""
MOST_TEXT = 16 << 20
"""The most characters in the tree of a variable, which is made at once."""
LONG_TEXT = 1 << 20
"""The most characters of one text, or of all texts in a list; more lies in a buffer, written piece
by piece."""
PIECE_ITEMS = 1 << 17
PIECE_TEXT = 1 << 17
"""The characters of a list of texts that are written at a time."""
INLINE_BYTES = 4096
"""The length beyond which bytes lie in a buffer."""
PACKED_ITEMS = 64
"""How many numbers of one kind become a buffer: as text they would take ten times as long."""
INTS = range(-(1 << 63), 1 << 63)
ARRAY_KINDS = "biufcSUmMV"
NULS = ("", "\0", b"", b"\0")
"""The ends of text that an array does not keep."""
MASKED = ("IntegerArray", "FloatingArray", "BooleanArray")
INDEXES = (
    "Index DatetimeIndex TimedeltaIndex CategoricalIndex Int64Index UInt64Index Float64Index"
).split()


class NotPlain(Exception):  # noqa: N818 - it is no error
    """The value, or one that it holds, would need a pickle; the message says which type that is."""


class Text:
    """A long text as a buffer of UTF-8; only a piece of it is made at a time."""

    def __init__(self, value: str) -> None:
        self.value = value
        self.nbytes = sum(map(len, self.pieces()))

    def pieces(self) -> "Iterator[bytes]":
        for at in range(0, len(self.value), LONG_TEXT):
            yield self.value[at : at + LONG_TEXT].encode("utf-8", "surrogatepass")


class Numbers:
    """Floats ("d") or ints ("q"), little-endian, as a buffer made a piece at a time."""

    def __init__(self, code: str, items: "Sequence[Any]") -> None:
        self.code = code
        self.items = items
        self.nbytes = 8 * len(items)

    def pieces(self) -> "Iterator[memoryview]":
        for at in range(0, len(self.items), PIECE_ITEMS):
            numbers = array.array(self.code, self.items[at : at + PIECE_ITEMS])
            if sys.byteorder == "big":
                numbers.byteswap()
            yield memoryview(numbers).cast("B")


class Texts:
    """A list of texts as a buffer: JSON, a piece at a time, behind the eight bytes of its length.
    A pickle would remember each text while it is made, which takes half as much again."""

    def __init__(self, items: "Sequence[Any]") -> None:
        self.items = items
        self.nbytes = sum(map(len, self.pieces()))

    def pieces(self) -> "Iterator[bytes]":
        first, length = 0, 0
        for at, item in enumerate(self.items, 1):
            length += 8 if item is None else 8 + len(item)
            if length > PIECE_TEXT or at == len(self.items):
                piece = json.dumps(self.items[first:at], ensure_ascii=False)
                data = piece.encode("utf-8", "surrogatepass")
                yield struct.pack("<Q", len(data))
                yield data
                first, length = at, 0


class Strided:
    """An array whose items do not lie in a row, as a buffer: it is copied a piece at a time."""

    def __init__(self, value: "Any") -> None:
        self.value = value
        self.nbytes = value.nbytes

    def pieces(self) -> "Iterator[memoryview]":
        step = max(1, LONG_TEXT // self.value.itemsize)
        for at in range(0, self.value.size, step):
            yield memoryview(self.value.flat[at : at + step].view("u1"))


class Beside:
    """The buffers beside a pickle, up to a maximum; those beyond it lie in the pickle's stream."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.buffers = []  # type: List[Buffer]
        self.strided = {}  # type: Dict[int, Tuple[Any, Strided]]

    def keep(self, buffer: "Any") -> bool:
        """Keep the buffer beside the pickle; return whether it has to lie in the stream instead."""
        if id(buffer) in self.strided:
            self.buffers.append(self.strided[id(buffer)][1])
            return False
        if len(self.buffers) == self.most:
            return True
        self.buffers.append(buffer.raw())
        return False

    def reduce(self, value: "Any") -> "Any":
        """Reduce an array as NumPy does, except for a strided one, which NumPy would copy twice."""
        flags = value.flags
        in_a_row = flags.c_contiguous or flags.f_contiguous or value.nbytes <= LONG_TEXT
        if in_a_row or value.dtype.hasobject or len(self.buffers) == self.most:
            return value.__reduce_ex__(5)
        stand_in = pickle.PickleBuffer(bytearray(1))  # novermin: protocol 5 needs Python 3.8
        self.strided[id(stand_in)] = (stand_in, Strided(value))
        return type(value), (value.shape, value.dtype, stand_in)


def pieces(buffer: "Buffer") -> "Iterator[Any]":
    """Return the pieces of a buffer in the order in which they lie in a file."""
    return iter([buffer]) if isinstance(buffer, memoryview) else buffer.pieces()


if TYPE_CHECKING:
    Buffer = Union[memoryview, Text, Numbers, Texts, Strided]


class Plain:
    """The variables that come back without a pickle: name -> tree, and the data that belongs to
    it."""

    def __init__(self) -> None:
        self.trees = {}  # type: Dict[str, Any]
        self.buffers = []  # type: List[Buffer]
        self.numbers = {}  # type: Dict[str, range]
        self.mutable = {}  # type: Dict[str, List[int]]

    @classmethod
    def of(
        cls, names: "Sequence[str]", namespace: "Dict[str, Any]", only_data: bool
    ) -> "Tuple[Plain, Dict[str, str]]":
        """Return the variables that need no pickle, and why each of the others does; with
        `only_data` they may have any size."""
        plain, others = cls(), {}
        for name in names:
            packer = Packer(len(plain.buffers), only_data)
            try:
                plain.trees[name] = packer.pack(namespace[name])
            except NotPlain as reason:
                others[name] = str(reason)
            except Exception as error:  # a NumPy or pandas that is not as we assume
                others[name] = "it is no data as far as can be seen (%r)" % error
            else:
                plain.buffers += packer.buffers
                plain.numbers[name] = range(packer.first, len(plain.buffers))
                plain.mutable[name] = packer.mutable
        return plain, others

    @property
    def sharing(self) -> "List[str]":
        """Return the variables that hold an object twice, or one that another variable holds
        too."""
        met = collections.Counter(one for ids in self.mutable.values() for one in ids)
        return [name for name, ids in self.mutable.items() if any(met[one] > 1 for one in ids)]

    def shared_with(self, met: "Set[int]") -> "List[str]":
        """Return the variables that hold one of these objects."""
        return [name for name in self.trees if not met.isdisjoint(self.mutable[name])]

    def ids(self) -> "Set[int]":
        """Return the ids of the mutable objects in the variables."""
        return set().union(*self.mutable.values())

    def leave_out(self, names: "Sequence[str]") -> None:
        """Remove the variables; their buffers keep their numbers, and are empty."""
        for name in names:
            for at in self.numbers.pop(name):
                self.buffers[at] = memoryview(b"")
            del self.trees[name], self.mutable[name]


class Packer:
    """A packer that turns one value into a tree. `buffers` are the data of the value that lie
    beside the tree; `mutable` has the ids of its mutable objects, once for each time that they were
    met."""

    def __init__(self, first: int, only_data: bool = False) -> None:
        """Set up the packer. `first` is the number of its first buffer; `only_data` means that a
        pickle is not allowed instead."""
        self.first = first
        self.parts_left = float("inf") if only_data else MOST_PARTS
        self.text_left = float("inf") if only_data else MOST_TEXT
        self.buffers = []  # type: List[Buffer]
        self.mutable = []  # type: List[int]
        self.inside = []  # type: List[int]
        self.numpy = sys.modules.get("numpy")  # type: Any
        self.pandas = sys.modules.get("pandas")  # type: Any

    def pack(self, value: "Any") -> "Any":
        kind = type(value)
        if value is None or kind is bool or (kind is int and value in INTS):
            return value
        if kind is float and value - value == 0:
            return value
        if kind is str:
            return self._text(value)
        if kind is int:
            return {"int": "%x" % value}
        if kind is float:
            return {"float": _hex(struct.pack("<d", value))}
        if kind is complex:
            return {"complex": _hex(struct.pack("<dd", value.real, value.imag))}
        if kind is bytes:
            return {"bytes": self._bytes(value)}
        return self._pack_container(value)

    def _pack_container(self, value: "Any") -> "Any":
        if id(value) in self.inside or len(self.inside) > MOST_DEEP:
            raise NotPlain("it holds itself, or is nested very deeply")
        self.parts_left -= 1
        if self.parts_left < 0:
            raise NotPlain("it has very many parts")
        self.inside.append(id(value))
        try:
            kind = type(value)
            if kind in (tuple, frozenset):
                return {kind.__name__: self._items(value if kind is tuple else list(value))}
            if kind not in (list, dict, set, bytearray):
                return self._pack_other(value)
            self.mutable.append(id(value))
            if kind is dict:
                return {"dict": [self._items(list(value)), self._items(list(value.values()))]}
            if kind is bytearray:
                return {"bytearray": self._bytes(value)}
            items = self._items(value)
            return items if kind is list else {"set": items}
        finally:
            self.inside.pop()

    def _items(self, items: "Sequence[Any]") -> "Any":
        kinds = set(map(type, items))
        if kinds <= {str, bool, type(None)}:
            length = sum(len(item) for item in items if type(item) is str)
            longest = max((len(item) for item in items if type(item) is str), default=0)
            if length > LONG_TEXT >= longest and bool not in kinds:
                items = items if isinstance(items, (list, tuple)) else list(items)
                return {"texts": self._buffer(Texts(items))}
            if longest <= LONG_TEXT:
                self._count_text(length)
                if _is_text("".join(item for item in items if type(item) is str)):
                    return list(items)
                self.text_left += length
        elif len(items) >= PACKED_ITEMS and kinds in ({float}, {int}):
            items = items if isinstance(items, (list, tuple)) else list(items)
            if kinds == {float}:
                return {"floats": self._buffer(Numbers("d", items))}
            if min(items) in INTS and max(items) in INTS:
                return {"ints": self._buffer(Numbers("q", items))}
        return [self.pack(item) for item in items]

    def _text(self, value: str) -> "Any":
        if len(value) > LONG_TEXT:
            return {"text": self._buffer(Text(value))}
        self._count_text(len(value))
        return value if _is_text(value) else {"str": _hex(value.encode("utf-8", "surrogatepass"))}

    def _count_text(self, length: int) -> None:
        self.text_left -= length
        if self.text_left < 0:
            raise NotPlain("it has very much text")

    def _bytes(self, value: "Union[bytes, bytearray]") -> "Any":
        if len(value) <= INLINE_BYTES:
            return _hex(value)
        return self._buffer(memoryview(value))

    def _buffer(self, data: "Buffer") -> int:
        self.buffers.append(data)
        return self.first + len(self.buffers) - 1

    def _pack_other(self, value: "Any") -> "Any":
        numpy, pandas = self.numpy, self.pandas
        if numpy is not None and type(value) is numpy.ndarray:
            self.mutable.append(id(value))
            return self._array(value)
        if numpy is not None and isinstance(value, numpy.generic):
            dtype, data = value.dtype, value.tobytes()
            is_whole = dtype.kind not in "SUV" or (dtype.kind != "V" and value[-1:] not in NULS)
            if type(value) is dtype.type and is_whole:
                return {"scalar": [self._dtype(dtype), _hex(data)]}
        if numpy is not None and pandas is not None:
            if type(value) is pandas.DataFrame:
                self.mutable.append(id(value))
                return self._frame(value)
            if type(value) is pandas.Series:
                self.mutable.append(id(value))
                _check_labels(value)
                index = self._index(value.index)
                return {"series": [self._column(value), index, self.pack(value.name)]}
            if isinstance(value, pandas.Index):
                self.mutable.append(id(value))
                return self._index(value)
        raise _not_plain(value)

    # --- NumPy ---

    def _array(self, value: "Any") -> "Any":
        numpy = self.numpy
        shape = list(value.shape)
        if value.dtype == object and value.dtype.metadata is None:
            return {"objects": [shape, self._items(value.ravel().tolist())]}
        name = self._dtype(value.dtype)
        is_fortran = value.flags.f_contiguous and not value.flags.c_contiguous
        data = memoryview(b"")  # type: Buffer
        if value.nbytes and (is_fortran or value.flags.c_contiguous):
            flat = (value.T if is_fortran else value).reshape(-1)
            data = memoryview(flat.view(numpy.uint8))
        elif value.nbytes:
            data = Strided(value)
        return {"array": [name, shape, "F" if is_fortran else "C", self._buffer(data)]}

    def _dtype(self, dtype: "Any") -> "Any":
        """Return a description from which NumPy makes the very same type, at the other end too."""
        if dtype.hasobject or dtype.metadata or dtype.isalignedstruct:
            raise NotPlain("it is an array of %s" % dtype)
        name = dtype.str if dtype.names is None else _as_lists(dtype.descr)
        try:
            same = self.numpy.dtype(_as_tuples(name)) == dtype
        except (TypeError, ValueError):
            same = False
        if not same or (dtype.names is None and dtype.kind not in ARRAY_KINDS):
            raise NotPlain("it is an array of %s" % dtype)
        return name

    # --- pandas ---

    def _frame(self, frame: "Any") -> "Any":
        _check_labels(frame)
        index, columns = self._index(frame.index), self._index(frame.columns)
        one_block = getattr(getattr(frame, "_mgr", None), "nblocks", 0) == 1
        if one_block and isinstance(frame.dtypes.iloc[0], self.numpy.dtype):
            values = frame.to_numpy()  # where it is, not a copy
            if values.dtype != object:
                return {"block": [self._array(values), index, columns]}
        found = [self._column(frame.iloc[:, at]) for at in range(len(frame.columns))]
        return {"frame": [found, index, columns]}

    def _column(self, labelled: "Any") -> "Any":
        """Return the values of a Series or an Index."""
        pandas, dtype = self.pandas, labelled.dtype
        if isinstance(dtype, self.numpy.dtype):
            return self._array(labelled.to_numpy())
        values = labelled.array
        kind = type(dtype).__name__
        if kind == "CategoricalDtype":
            codes, categories = self._array(values.codes), self._index(dtype.categories)
            return {"categories": [codes, categories, bool(dtype.ordered)]}
        if kind == "StringDtype":
            # Missing values are NaN or pandas.NA: these are two types of the same name.
            is_nan = getattr(dtype, "na_value", None) is not pandas.NA
            texts = self.numpy.where(values.isna(), None, values.astype(object)).tolist()
            return {"strings": [dtype.storage, is_nan, self._items(texts)]}
        if kind == "DatetimeTZDtype" and pandas.api.types.pandas_dtype(str(dtype)) == dtype:
            naive = pandas.DatetimeIndex(values).tz_convert("UTC").tz_localize(None)
            return {"zoned": [self._array(naive.to_numpy()), str(dtype)]}
        if type(values).__name__ in MASKED and hasattr(values, "_mask"):
            parts = [self._array(values._data), self._array(values._mask)]
            return {"masked": [type(values).__name__] + parts}
        raise NotPlain("it has values of the type %s" % dtype)

    def _index(self, index: "Any") -> "Any":
        kind = type(index).__name__
        if type(index) is self.pandas.RangeIndex:
            parts = [int(index.start), int(index.stop), int(index.step)]
            return {"range": parts + [self.pack(index.name)]}
        if type(index) is self.pandas.MultiIndex:
            levels = [self._index(level) for level in index.levels]
            codes = [self._array(self.numpy.asarray(one)) for one in index.codes]
            return {"multi": [levels, codes, [self.pack(name) for name in index.names]]}
        if kind not in INDEXES or type(index).__module__.partition(".")[0] != "pandas":
            raise _not_plain(index)
        freq = getattr(index, "freqstr", None)
        return {"index": [self._column(index), self.pack(index.name), freq]}


def _check_labels(labelled: "Any") -> None:
    flags = getattr(labelled, "flags", None)
    if getattr(labelled, "attrs", None) or not getattr(flags, "allows_duplicate_labels", True):
        raise NotPlain("it has attrs or flags of its own")


def _not_plain(value: "Any") -> NotPlain:
    kind = type(value)
    return NotPlain("it is or holds a %s.%s" % (kind.__module__, kind.__qualname__))


def _is_text(value: str) -> bool:
    """Tell whether the text can be written as UTF-8: half a surrogate pair cannot."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _hex(data: "Union[bytes, bytearray]") -> str:
    return binascii.hexlify(data).decode("ascii")


def _as_lists(name: "Any") -> "Any":
    return [_as_lists(one) for one in name] if isinstance(name, (list, tuple)) else name


def _as_tuples(name: "Any") -> "Any":
    """Return a dtype's description as NumPy takes it: a list of tuples, (name, type) or with a
    shape."""
    if not isinstance(name, list):
        return name
    fields = []
    for field in name:
        label = tuple(field[0]) if isinstance(field[0], list) else field[0]
        fields.append((label, _as_tuples(field[1])) + tuple(tuple(part) for part in field[2:]))
    return fields
