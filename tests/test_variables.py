"""Variables of cells on this machine. tests/node/test_runner_values.py tests both ends."""

from __future__ import annotations

import hmac
import stat
import threading
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_slurm.errors import SignatureError, VariableError
from jupyter_slurm.variables import (
    check_names,
    check_python,
    check_signature,
    digest_inputs,
    read_variables,
    write_variables,
)


def written(path: Path, **values: object) -> Path:
    write_variables(path, list(values), values)
    return path


def test_written_variables_are_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a b$", b=np.arange(6).reshape(2, 3), a=[1, {"é": None}])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    back: dict[str, Any] = read_variables(path)[0]
    assert list(back) == ["b", "a"]
    assert back["a"] == [1, {"é": None}]
    assert back["b"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_each_unpicklable_variable_is_reported_with_its_reason(tmp_path: Path) -> None:
    values = {"fine": 1, "lock": [threading.Lock()], "stream": (tmp_path / "x").open("w")}
    with values["stream"], pytest.raises(VariableError) as caught:  # type: ignore[attr-defined]
        write_variables(tmp_path / "f", list(values), values)
    assert "Cannot send 'lock': " in str(caught.value)
    assert "cannot pickle '_thread.lock' object" in str(caught.value)
    assert "Cannot send 'stream': " in str(caught.value)
    assert "fine" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


class Trap:
    """Object that creates a file when unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.path, "w")


def test_only_requested_names_are_unpickled(tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    path = written(tmp_path / "f", trap=Trap(str(sprung)), a=1)
    values, unread = read_variables(path, ["a", "b"])
    assert values == {"a": 1}
    assert list(unread) == ["b"]
    assert not sprung.exists()


def test_signature_covers_every_byte(tmp_path: Path) -> None:
    path = written(tmp_path / "f", a=list(range(1000)))
    signature = hmac.new(b"key", path.read_bytes(), "sha256").hexdigest()
    check_signature(path, b"key\n", signature)
    data = bytearray(path.read_bytes())
    data[500] ^= 1
    (tmp_path / "g").write_bytes(data)
    for file, key, told in (
        (tmp_path / "g", b"key", signature),
        (path, b"other", signature),
        (path, b"key", None),
    ):
        with pytest.raises(SignatureError):
            check_signature(file, key, told)


@given(st.data())
def test_truncated_file_is_a_variable_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = written(tmp_path_factory.getbasetemp() / "cut", a=list(range(20)), b=np.ones(10))
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 2))])
    with pytest.raises(VariableError):
        read_variables(path)


def inputs_digest(folder: Path, code: str) -> str:
    """Return the digest of the variables that a cell sets."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    exec(compile(code, f"{folder}/{len(list(folder.iterdir()))}", "exec"), namespace)
    names = [name for name in namespace if not name.startswith("__")]
    path = folder / str(len(list(folder.iterdir())))
    write_variables(path, names, namespace)
    return digest_inputs(path, names, namespace)


@pytest.mark.parametrize(
    ("same", "other", "sure"),
    [
        ("a = [1, 'é']", "a = [1, 'e']", True),
        ("import numpy; a = numpy.arange(9); del numpy", "a = list(range(9))", False),
        ("a = {str(n) for n in range(99)}", "a = {str(n) for n in range(98)}", False),
        ("def f(x, k={'a', 'b'}):\n  return lambda: x + 1", "def f(x):\n  return 1", False),
        ("class A:\n  b = 1", "class A:\n  b = 2", False),
        ("class A:\n  def f(self): return 1\na = A()", "a = 1", False),
    ],
)
def test_equal_values_have_equal_digests(same: str, other: str, sure: bool, tmp_path: Path) -> None:
    first = inputs_digest(tmp_path, same)
    assert inputs_digest(tmp_path, f"\n{same}") == first
    assert inputs_digest(tmp_path, other) != first
    assert first.startswith("?") is not sure


def test_existing_names_are_accepted() -> None:
    check_names(["data", "größe"], {"data": 1, "größe": None})


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("dat", "Variable 'dat' not found in this notebook.\nDid you mean 'data'?"),
        ("zip", "Variable 'zip' not found in this notebook.\nRun the cell that sets it first."),
        ("zzz", "Variable 'zzz' not found in this notebook.\nRun the cell that sets it first."),
        ("a b", "'a b' is not a variable name.\n"),
        ("class", "'class' is not a variable name."),
        ("", "'' is not a variable name."),
    ],
)
def test_error_for_a_missing_name_suggests_the_nearest_name(name: str, sentence: str) -> None:
    with pytest.raises(VariableError) as caught:
        check_names([name], {"data": 1, "zipfile": types})
    assert sentence in str(caught.value)


def test_code_for_another_python_version_is_rejected() -> None:
    with pytest.raises(VariableError, match=r"by Python 3\.11\. The cell runs in Python 3\.8"):
        check_python((3, 11), (3, 8))
