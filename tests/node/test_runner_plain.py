"""Values as data: both halves of the form, in one process; what is exact and what is left out."""

from __future__ import annotations

import json
import math
import struct
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_slurm.jobs.outcome.plain_values import Buffer, unpack

NODE = str(Path(__file__).parents[2] / "jupyter_slurm" / "node")
sys.path.insert(0, NODE)
import runner_plain  # noqa: E402 - it is sent as text

sys.path.remove(NODE)


def back(value: object) -> Any:
    """As it comes back."""
    packer = runner_plain.Packer(0)
    tree = packer.pack(value)
    text = json.dumps(tree, ensure_ascii=False, allow_nan=False).encode()
    return unpack(msgspec.json.decode(text), list(map(stored, packer.buffers)))


def stored(buffer: Any) -> Buffer:
    """As this side finds it."""
    data = bytearray().join(runner_plain.pieces(buffer))
    assert len(data) == buffer.nbytes
    return Buffer(memoryview(data), lambda at, size_bytes: bytes(data[at : at + size_bytes]))


def same(one: object, other: object) -> bool:
    """Of the same types and values, to the last bit of a NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return math.isnan(one) == math.isnan(other) and repr(one) == repr(other)  # type: ignore[arg-type]
    if isinstance(one, dict) and isinstance(other, dict):
        return same(list(one), list(other)) and same(list(one.values()), list(other.values()))
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


HASHABLE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | st.text(st.characters(codec=None))
    | st.binary(),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner),
    max_leaves=5,
)
ANY = st.recursive(
    HASHABLE | st.floats(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(HASHABLE, inner)
        | st.tuples(inner, inner)
        | st.sets(HASHABLE)
        | st.lists(st.floats(), min_size=64, max_size=70)
        | st.lists(st.integers(), min_size=64, max_size=70)
    ),
)


@given(ANY)
def test_a_value_comes_back_as_it_was(value: object) -> None:
    assert same(back(value), value)


LONG = [2**63, *range(100)]
ARRAYS = [
    np.arange(6, dtype=np.int8).reshape(2, 3),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(24).reshape(2, 3, 4)[:, ::2],
    np.array(3.5, dtype=">f4"),
    np.zeros((0, 3), np.float16),
    np.array([1 + 2j], np.complex64),
    np.array(["a", "é", ""]),
    np.array([b"x\0y", b""]),
    np.array(["", ""]).astype("U0"),
    np.array(["2024-01-01", "NaT"], "datetime64[s]"),
    np.array([1, 2], "timedelta64[25ns]"),
    np.array([True, False]),
    np.array([(1, 2.5, (1, 2))], dtype=[("a", "<i4"), ("é", ">f8"), ("c", "u1", (2,))]),
    np.array([None, "a", [1, 2], {"b": 3}, 1.5], dtype=object),
    np.array([["a", None], ["b", 1]], dtype=object),
    np.array([[1, 2], [3, 4]], dtype=object),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype.str} {array.shape}")
def test_an_array_comes_back_with_its_type_its_shape_and_its_order(array: Any) -> None:
    found = back(array)
    assert type(found) is np.ndarray
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert found.flags.f_contiguous >= (array.flags.f_contiguous and not array.flags.c_contiguous)
    if array.dtype == object:
        assert found.tolist() == array.tolist()
    else:
        assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "scalar",
    [np.float64(0.1), np.float32("nan"), np.int8(-3), np.bool_(True), np.str_("é"), np.bytes_(b"a"),
     np.datetime64("2024-01-01", "D"), np.complex128(1j), np.uint64(2**64 - 1)],
    ids=repr,
)  # fmt: skip
def test_a_scalar_of_numpys_comes_back_as_one(scalar: Any) -> None:
    found = back(scalar)
    assert (type(found), found.dtype, found.tobytes()) == (
        type(scalar),
        scalar.dtype,
        scalar.tobytes(),
    )


DAYS = pd.date_range("2024-03-30", periods=3)
FRAMES = {
    "numbers": pd.DataFrame(np.arange(6.0).reshape(3, 2), columns=["a", "b"]),
    "mixed": pd.DataFrame({"n": [1, 2, 3], "x": [0.5, np.nan, 1], "s": ["a", None, "é"]}),
    "objects": pd.DataFrame({"o": pd.Series(["a", None, 1.5], dtype=object)}),
    "old strings": pd.DataFrame({"o": pd.Series(["a", "b"], dtype=object)}),
    "small types": pd.DataFrame({"i": np.array([1, 2], "i1"), "f": np.array([1, 2], "f4")}),
    "named index": pd.DataFrame({1: [1, 2]}, index=pd.Index(["x", "y"], name=("k", 1))),
    "days": pd.DataFrame({"x": [1, 2, 3]}, index=DAYS),
    "no frequency": pd.DataFrame({"x": [1, 2]}, index=DAYS[[0, 2]]),
    "zones": pd.DataFrame({"t": DAYS.tz_localize("Europe/Berlin")}),
    "utc": pd.DataFrame({"t": DAYS.as_unit("s").tz_localize("UTC")}),
    "categories": pd.DataFrame({"c": pd.Categorical(["b", None, "a"], ["b", "a"], ordered=True)}),
    "nullable": pd.DataFrame(
        {
            "i": pd.array([1, None], "Int16"),
            "b": pd.array([True, None], "boolean"),
            "f": pd.array([0.5, None], "Float32"),
            "s": pd.array(["a", None], "string[python]"),
        }
    ),
    "levels": pd.DataFrame({"x": [1, 2, 3]}).set_index(
        pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)], names=["l", None])
    ),
    "same names": pd.DataFrame([[1, "a"]], columns=["x", "x"]),
    "empty": pd.DataFrame(),
    "no columns": pd.DataFrame(index=pd.Index([1.5, 2.5])),
    "no rows": pd.DataFrame({"a": np.zeros(0), "b": pd.Series(dtype=object)}),
    "spans": pd.DataFrame({"d": pd.to_timedelta([1, 2], unit="s")}),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_comes_back_with_its_types_and_its_labels(name: str) -> None:
    found = back(FRAMES[name])
    pd.testing.assert_frame_equal(
        found, FRAMES[name], check_index_type=True, check_column_type=True, check_freq=True
    )
    assert [type(one) for one in found.dtypes] == [type(one) for one in FRAMES[name].dtypes]
    assert found.index.name == FRAMES[name].index.name
    again = found.copy()
    again["more"] = range(len(again))  # it is a frame like another


@pytest.mark.parametrize("name", FRAMES)
def test_so_do_its_columns_and_its_index(name: str) -> None:
    frame = FRAMES[name]
    pd.testing.assert_index_equal(back(frame.index), frame.index, exact=True)
    for at in range(len(frame.columns)):
        pd.testing.assert_series_equal(back(frame.iloc[:, at]), frame.iloc[:, at])


class Text(str):
    __slots__ = ()


def recursive() -> list[object]:
    found: list[object] = []
    found.append(found)
    return found


OTHERS = {
    "str": Text("a"),
    "datetime": datetime(2024, 1, 1, tzinfo=UTC),
    "function": len,
    "recarray": np.zeros(1, [("a", "i1")]).view(np.recarray),
    "masked": np.ma.array([1]),
    "aligned": np.zeros(1, np.dtype([("a", "i1"), ("b", "i8")], align=True)),
    "metadata": np.zeros(1, np.dtype("i4", metadata={"a": 1})),
    "object scalar in a record": np.zeros(1, [("a", object)]),
    "a text's end": np.str_("a\0"),
    "period": pd.Series(pd.period_range("2024", periods=2)),
    "interval": pd.Series(pd.interval_range(0, 2)),
    "sparse": pd.Series([0, 1], dtype="Sparse[int]"),
    "timestamp": pd.Timestamp("2024"),
    "itself": recursive(),
    "lists of lists": json.loads("[" * 500 + "]" * 500),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: {"a": [one]}], ids=["", "inside"])
def test_what_would_not_come_back_as_it_is_is_no_data(name: str, wrap: Any) -> None:
    with pytest.raises(runner_plain.NotPlain):
        runner_plain.Packer(0).pack(wrap(OTHERS[name]))


def test_frames_with_more_than_values_and_labels_are_no_data() -> None:
    told = pd.DataFrame({"a": [1]})
    told.attrs["unit"] = "m"
    strict = pd.DataFrame({"a": [1]}).set_flags(allows_duplicate_labels=False)
    for frame in (told, strict):
        with pytest.raises(runner_plain.NotPlain):
            runner_plain.Packer(0).pack(frame)


def test_large_arrays_and_frames_are_not_copied() -> None:
    array = np.zeros(1_000_000)
    frame = pd.DataFrame(np.zeros((100_000, 4)))
    mixed = pd.DataFrame({"a": np.zeros(100_000), "b": np.ones(100_000, np.int64)})
    for value, parts in ((array, 1), (frame, 1), (mixed, 2)):
        packer = runner_plain.Packer(0)
        tree = packer.pack(value)
        stored_at = [one for one in packer.buffers if isinstance(one, memoryview)]
        buffers = [np.frombuffer(one, np.uint8) for one in stored_at]
        own = value if isinstance(value, np.ndarray) else [value[name].to_numpy() for name in value]
        owned = own if isinstance(own, list) else [own]
        assert len(buffers) == parts
        assert all(any(np.shares_memory(one, two) for two in owned) for one in buffers)
        found = unpack(tree, [Buffer(one, lambda at, size_bytes: b"") for one in stored_at])
        read = (
            [found] if isinstance(found, np.ndarray) else [found[name].to_numpy() for name in found]
        )
        assert all(any(np.shares_memory(one, two) for two in buffers) for one in read)


# --- trees that nobody has packed ---------------------------------------------------------------

HOSTILE: list[Any] = [
    {"array": ["O", [1], "C", 0]},
    {"array": ["|O8", [1], "C", 0]},
    {"array": [[["a", "O"]], [1], "C", 0]},
    {"array": ["V8,O", [1], "C", 0]},
    {"array": [{"names": ["a"], "formats": ["O"]}, [1], "C", 0]},
    {"array": ["<f8", [-1], "C", 0]},
    {"array": ["<f8", [2], "C", 0]},
    {"array": ["<f8", [1 << 62, 1 << 62], "C", 0]},
    {"array": ["<f8", [1], "K", 0]},
    {"array": ["<f8", [1], "C", -1]},
    {"array": ["<f8", [1], "C", True]},
    {"array": ["<f8", [1], "C", 9]},
    {"scalar": ["O", "00" * 8]},
    {"scalar": ["<f8", "00"]},
    {"objects": [[5], [1]]},
    {"masked": ["PandasArray", 1, 2]},
    {"masked": ["__class__", 1, 2]},
    {"strings": ["os", True, ["a"]]},
    {"zoned": [{"array": ["<M8[ns]", [1], "C", 0]}, "datetime64[ns, dateutil//etc/passwd]"]},
    {"zoned": [{"array": ["<M8[ns]", [1], "C", 0]}, "object"]},
    {"index": [{"array": ["<f8", [1], "C", 0]}, None, "D"]},
    {"dict": [[[1]], [2]]},
    {"dict": [[1, 2], [2]]},
    {"set": [[1]]},
    {"tuple": {"dict": [[], []]}},
    {"__reduce__": [1]},
    {"str": "zz"},
    {"bytes": "0"},
    {"complex": "ab"},
    {"a": 1, "b": 2},
    {},
]


@pytest.mark.parametrize("tree", HOSTILE, ids=json.dumps)
def test_a_tree_that_stands_for_nothing_is_an_error(tree: object) -> None:
    with pytest.raises((ValueError, TypeError, LookupError, AttributeError, struct.error)):
        unpack(tree, [stored(memoryview(bytes(8)))])


NAMES = sorted(
    "str text int float complex bytes bytearray floats ints tuple set frozenset dict array objects "
    "scalar series block frame range index multi categories strings zoned masked".split()
)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["<f8", "O", "C", "ab", "D"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=1)
    ),
    max_leaves=12,
)


@given(TREES)
def test_a_tree_of_any_kind_gives_a_value_or_an_error(tree: object) -> None:
    try:
        found = unpack(tree, [stored(memoryview(bytes(8))), stored(memoryview(b""))])
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, struct.error):
        return
    assert type(found).__module__.partition(".")[0] in ("builtins", "numpy", "pandas")
