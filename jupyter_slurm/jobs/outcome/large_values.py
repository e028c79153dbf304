"""PURE: large values as buffers in a file of variables, of which a piece at a time is made.

`node/runner_plain.py` has the same for the other way.
"""

from __future__ import annotations

import json
import pickle
import struct
import sys
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, islice
from typing import Any, cast

LONG_TEXT = 1 << 20
"""Characters of a text, or of all in a list or dict. Pickle would make two copies of a longer text,
and remember each of the others, which takes half as much again."""
_PIECE_TEXT = 1 << 17
"""Characters of a list at a time."""
_LENGTH = struct.Struct("<Q")
_ATOMS = (str, bytes, bytearray, int, float, complex)
_HOLDERS = (dict, list, tuple, set, frozenset)
_INTS = range(-(1 << 63), 1 << 63)


class Text:
    """A long text: UTF-8."""

    kind = "text"

    def __init__(self, value: str) -> None:
        self._value = value
        self.nbytes = sum(map(len, self.pieces()))

    def pieces(self) -> Iterator[bytes]:
        for at in range(0, len(self._value), LONG_TEXT):
            yield self._value[at : at + LONG_TEXT].encode("utf-8", "surrogatepass")


class Texts:
    """A list of texts, or a dict of them: JSON, each piece behind the eight bytes of its length. In
    a dict each key, a text or an int, stands before its text."""

    def __init__(self, value: list[str] | dict[str, str] | dict[int, str]) -> None:
        self._value = value
        self.kind = "texts" if isinstance(value, list) else "pairs"
        self.nbytes = sum(map(len, self.pieces()))

    def pieces(self) -> Iterator[bytes]:
        value = self._value
        items: Iterable[str | int]
        items = value if isinstance(value, list) else chain.from_iterable(value.items())
        piece: list[str | int] = []
        length = 0
        for item in items:
            piece.append(item)
            length += 8 + (len(item) if isinstance(item, str) else 0)
            if length > _PIECE_TEXT:
                yield from _piece(piece)
                piece, length = [], 0
        if piece:
            yield from _piece(piece)


def _piece(items: list[str | int]) -> Iterator[bytes]:
    data = json.dumps(items, ensure_ascii=False).encode("utf-8", "surrogatepass")
    yield _LENGTH.pack(len(data))
    yield data


def without_pickle(value: object) -> Text | Texts | None:
    """Return what `value` is as a buffer where a pickle of it would take much memory."""
    if type(value) is str:
        return Text(value) if len(value) > LONG_TEXT else None
    if type(value) is list:
        return Texts(value) if _are_texts(value) else None
    if type(value) is dict and _are_texts(value.values()) and _are_keys(value):
        return Texts(value)
    return None


def _are_texts(items: Collection[Any]) -> bool:
    """Tell whether they are texts, none of them long and all together long."""
    if set(map(type, items)) != {str}:
        return False
    return sum(map(len, items)) > LONG_TEXT >= max(map(len, items))


def _are_keys(keys: Collection[Any]) -> bool:
    kinds = set(map(type, keys))
    if kinds == {int}:
        return min(keys) in _INTS and max(keys) in _INTS
    return kinds == {str} and max(map(len, keys)) <= LONG_TEXT


def weigh(value: object, most: int = 1000) -> int:
    """Return about how many bytes Python's own objects take, rather too few: of many parts so many
    are weighed, each object among them once. Of what others define only its attributes count."""
    kind = type(value)
    if kind in _ATOMS or (kind in _HOLDERS and not most):
        return sys.getsizeof(value)
    if kind is dict:
        holders: list[Collection[Any]] = [cast("dict[Any, Any]", value).values()]
        holders.append(cast("dict[Any, Any]", value).keys())
    elif kind in _HOLDERS:
        holders = [cast("Collection[Any]", value)]
    else:
        attributes = getattr(value, "__dict__", None)
        return weigh(attributes, most) if type(attributes) is dict and most else 0
    weight = sys.getsizeof(value)
    for holder in holders:
        step = max(1, len(holder) // most)
        taken = list(islice(holder, 0, None, step))
        parts = {id(part): part for part in taken}.values()
        weight += step * sum(weigh(part, most // 30) for part in parts)
    return weight


class Strided:
    """An array whose items do not lie in a row."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self.nbytes: int = value.nbytes

    def pieces(self) -> Iterator[memoryview]:
        step = max(1, LONG_TEXT // self._value.itemsize)
        for at in range(0, self._value.size, step):
            yield memoryview(self._value.flat[at : at + step].view("u1"))


class Beside:
    """The buffers beside a pickle, at most so many; what is beyond lies in its stream."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.buffers: list[memoryview | Strided] = []
        self._strided: dict[int, tuple[pickle.PickleBuffer, Strided]] = {}

    def keep(self, buffer: pickle.PickleBuffer) -> bool:
        """Give whether it has to lie in the stream."""
        if id(buffer) in self._strided:
            self.buffers.append(self._strided[id(buffer)][1])
            return False
        if len(self.buffers) == self._most:
            return True
        self.buffers.append(buffer.raw())
        return False

    def reduce(self, value: Any) -> Any:
        """Reduce as NumPy does, but for a strided array, of which NumPy makes two copies."""
        flags = value.flags
        in_a_row = flags.c_contiguous or flags.f_contiguous or value.nbytes <= LONG_TEXT
        if in_a_row or value.dtype.hasobject or len(self.buffers) == self._most:
            return value.__reduce_ex__(5)
        stand_in = pickle.PickleBuffer(bytearray(1))
        self._strided[id(stand_in)] = (stand_in, Strided(value))
        return type(value), (value.shape, value.dtype, stand_in)


def pieces(buffer: memoryview | Text | Texts | Strided) -> Iterator[bytes | memoryview]:
    return iter([buffer]) if isinstance(buffer, memoryview) else buffer.pieces()
