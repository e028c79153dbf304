"""Variables as data: round trips, rejected types, and hostile files."""

from __future__ import annotations

import math
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_slurm.errors import VariableError
from jupyter_slurm.variables import read_variables

NODE = str(Path(__file__).parents[2] / "jupyter_slurm" / "node")
sys.path.insert(0, NODE)
import runner_data  # noqa: E402 - this file is sent as text

sys.path.remove(NODE)


def back(folder: Path, value: object) -> Any:
    """Return a value after a round trip."""
    path = folder / "vars.0"
    assert runner_data.write(str(path), ["x"], {"x": value}) == {}
    values, unread = read_variables(path, ["x"], "data")
    assert unread == {}
    return values["x"]


def refused(folder: Path, value: object) -> str:
    return runner_data.write(str(folder / "vars.0"), ["x"], {"x": value})["x"]


def same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return repr(one) == repr(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return same(list(one), list(other)) and same(list(one.values()), list(other.values()))
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


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
    HASHABLE | st.floats() | st.binary().map(bytearray),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(HASHABLE, inner)
        | st.tuples(inner, inner)
        | st.sets(HASHABLE)
    ),
)


@given(ANY)
def test_plain_value_round_trips(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    assert same(back(tmp_path_factory.getbasetemp(), value), value)


ARRAYS = [
    np.arange(6, dtype=np.int8).reshape(2, 3),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(24).reshape(2, 3, 4)[:, ::2],
    np.array(3.5, dtype=">f4"),
    np.zeros((0, 3), np.float16),
    np.array(["a", "é", ""]),
    np.array(["2024-01-01", "NaT"], "datetime64[s]"),
    np.array([(1, 2.5)], dtype=[("a", "<i4"), ("é", ">f8")]),
]


# because a field name is not ASCII
@pytest.mark.filterwarnings("ignore:Stored array in format 3.0")
@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype.str} {array.shape}")
def test_array_keeps_type_and_shape(tmp_path: Path, array: Any) -> None:
    found = back(tmp_path, {"its": [array, array]})["its"][1]
    assert (type(found), found.dtype, found.shape) == (np.ndarray, array.dtype, array.shape)
    assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "scalar",
    [np.float32("nan"), np.int8(-3), np.bool_(True), np.str_("é"), np.datetime64("2024-01-01")],
    ids=repr,
)  # fmt: skip
def test_numpy_scalar_keeps_its_type(tmp_path: Path, scalar: Any) -> None:
    found = back(tmp_path, scalar)
    assert (type(found), found.dtype) == (type(scalar), scalar.dtype)
    assert found.tobytes() == scalar.tobytes()


FRAME = pd.DataFrame(
    {
        "x": [0.5, math.nan],
        "text": ["é", None],
        "when": pd.date_range("2024-03-30", periods=2, tz="Europe/Berlin"),
        "kind": pd.Categorical(["b", "a"], ["b", "a"], ordered=True),
        "n": pd.array([1, None], "Int16"),
    },
    index=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["l", None]),
)


def test_frames_keep_types_and_labels(tmp_path: Path) -> None:
    pd.testing.assert_frame_equal(back(tmp_path, FRAME), FRAME)
    for series in (FRAME["x"], FRAME["n"].rename(None), FRAME["text"].rename(3)):
        pd.testing.assert_series_equal(back(tmp_path, [series])[0], series)
    frame = pl.DataFrame({"a": [1, None], "b": ["x", "é"]})
    found = back(tmp_path, frame)
    assert type(found) is pl.DataFrame
    assert found.equals(frame)
    table = pa.table({"a": [[1], [2, 3]]})
    assert back(tmp_path, table) == table


def endless() -> list[object]:
    found: list[object] = []
    found.append(found)
    return found


OTHERS = {
    "datetime.datetime": datetime(2024, 1, 1, tzinfo=UTC),
    "builtins.builtin_function_or_method": {"a": [len]},
    "numpy.ndarray": np.array([None]),
    "Timestamp": pd.Timestamp("2024"),
    "object": pd.DataFrame({"o": [object()]}),
    "RecursionError": endless(),
}


@pytest.mark.parametrize("told", OTHERS)
def test_types_that_are_not_data_are_rejected(tmp_path: Path, told: str) -> None:
    why = refused(tmp_path, OTHERS[told])
    assert told in why
    assert "Return numbers" in why


def test_frame_without_pyarrow_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert f"needs pyarrow 15 or later to be stored as data. Install it for {sys.executable}" in (
        refused(tmp_path, FRAME)
    )


# --- files not written by our runner ---


def test_array_of_objects_is_not_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "vars.0"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("values.json", '{"x": {"array": "x.npy"}}')
        with archive.open("x.npy", "w") as file:
            np.lib.format.write_array(file, np.array([{}]), allow_pickle=True)
    values, unread = read_variables(path, ["x"], "data")
    assert (values, list(unread)) == ({}, ["x"])


def test_compressed_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "vars.0"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("values.json", "{}")
    with pytest.raises(VariableError):
        read_variables(path, ["x"], "data")
