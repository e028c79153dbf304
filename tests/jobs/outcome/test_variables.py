"""This side's half of the format; both halves together: tests/node/test_runner_variables.py."""

from __future__ import annotations

import stat
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_slurm.errors import SignatureError, VariableError
from jupyter_slurm.jobs.outcome import variables
from jupyter_slurm.jobs.outcome.variables import (
    digest_file,
    read_variables,
    write_variables,
)
from jupyter_slurm.jobs.submission.inputs import digest_inputs


def written(path: Path, **values: object) -> Path:
    write_variables(path, list(values), values)
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    values: dict[str, Any] = {"a": [1, {"é": None}], "b": np.arange(6).reshape(2, 3)}
    path = tmp_path / "a b$"
    header = write_variables(path, ["b", "a"], values)
    assert (header.names, header.protocol, header.by_value) == (("b", "a"), 5, False)
    assert header.buffers == (48,)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    back: dict[str, Any] = read_variables(path, digest_file(path))
    assert list(back) == ["b", "a"]
    assert back["a"] == values["a"]
    assert np.array_equal(back["b"], values["b"])


def test_protocol_4_has_its_arrays_in_the_stream(tmp_path: Path) -> None:
    path = tmp_path / "f"
    header = write_variables(path, ["a"], {"a": np.ones(1000)}, protocol=4)
    assert (header.protocol, header.buffers) == (4, ())
    back: dict[str, Any] = read_variables(path, None)
    assert back["a"].sum() == 1000


def test_arrays_lie_at_multiples_of_64_bytes_and_outlive_their_file(tmp_path: Path) -> None:
    path = written(tmp_path / "f", a=np.ones(3, np.uint8), b=np.arange(10_000))
    back: dict[str, Any] = read_variables(path, None)
    path.unlink()
    assert back["b"].ctypes.data % 64 == 0
    assert not back["b"].flags.owndata
    back["b"][0] = 9
    assert back["b"][0] == 9


def test_code_by_value_is_noted(tmp_path: Path) -> None:
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec("def f(): return 1\nclass Data: pass", scope)
    assert write_variables(tmp_path / "f", ["f"], scope).by_value
    assert write_variables(tmp_path / "g", ["g"], {"g": lambda: 1}).by_value
    assert not write_variables(tmp_path / "h", ["h"], {"h": "__main__"}).by_value
    assert not write_variables(tmp_path / "i", ["i"], {"i": len}).by_value


def test_variables_that_cannot_be_sent_are_each_named_with_the_reason(tmp_path: Path) -> None:
    class Model:
        def __init__(self) -> None:
            self.ok = 1
            self.layers = ({"lock": threading.Lock()},)

    values = {"fine": 1, "model": Model(), "stream": (tmp_path / "x").open("w")}
    with values["stream"], pytest.raises(VariableError) as caught:  # type: ignore[attr-defined]
        write_variables(tmp_path / "f", list(values), values)
    assert "'model' cannot be sent: its .layers[0]['lock']: cannot pickle" in str(caught.value)
    assert "'stream' cannot be sent: " in str(caught.value)
    assert "fine" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_file_that_cannot_be_written_is_not_left_behind(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    with pytest.raises(IsADirectoryError):
        write_variables(tmp_path / "f", ["a"], {"a": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


class Trap:
    """Unpickled, it creates a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.path, "w")


def test_wrong_digest_is_found_before_anything_is_unpickled(tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    path = written(tmp_path / "f", trap=Trap(str(sprung)))
    digest = digest_file(path)
    data = bytearray(path.read_bytes())
    data[-1:] = b".."
    path.write_bytes(data)
    with pytest.raises(SignatureError, match="not what the job wrote"):
        read_variables(path, digest)
    assert not sprung.exists()


@pytest.mark.parametrize("chunk_bytes", [1, 7, 64, 1 << 20])
def test_digest_depends_on_every_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr(variables, "_CHUNK_BYTES", chunk_bytes)
    path = tmp_path / "f"
    seen = set()
    for data in (b"", b"a", b"ab" * 35, b"ab" * 34 + b"aB", b"Ab" + b"ab" * 34, b"ab" * 36):
        path.write_bytes(data)
        seen.add(digest_file(path))
    assert len(seen) == 6


@given(st.data())
def test_file_that_is_cut_off_is_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = written(tmp_path_factory.getbasetemp() / "cut", a=list(range(20)), b=np.ones(10))
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(VariableError):
        read_variables(path, None)


@given(st.binary(max_size=200))
def test_header_of_any_bytes_is_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, text: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(b"JSLVARS1\n" + len(text).to_bytes(8, "big") + text)
    with pytest.raises(VariableError):
        read_variables(path, None)


@pytest.mark.parametrize("change", [{"stream_bytes": -5}, {"buffers": (-1,)}, {"python": "3"}])
def test_header_with_impossible_sizes_is_an_error_of_ours(
    tmp_path: Path, change: dict[str, object]
) -> None:
    header = {"python": [3, 11, 2], "protocol": 5, "by_value": False, "names": ["a"]}
    text = msgspec.json.encode({**header, "stream_bytes": 0, "buffers": (), **change})
    path = tmp_path / "f"
    path.write_bytes(b"JSLVARS1\n" + len(text).to_bytes(8, "big") + text + b"x" * 100)
    with pytest.raises(VariableError, match="not a complete file"):
        read_variables(path, None)


def test_code_of_another_python_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "f", f=lambda: 1)
    monkeypatch.setattr(variables.sys, "version_info", (3, 99, 0))  # type: ignore[attr-defined]
    with pytest.raises(VariableError, match=r"as Python 3\.\d+ wrote them; this is Python 3\.99"):
        read_variables(path, None)


def test_value_that_fails_to_load_is_named_with_the_reason(tmp_path: Path) -> None:
    path = written(tmp_path / "f", trap=Trap("/no/such/folder/file"))
    with pytest.raises(
        VariableError, match="trap came back, but cannot be read here: FileNotFound"
    ):
        read_variables(path, None)


def test_a_package_that_is_not_here_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "f", array=np.ma.masked_array([1.0]))
    for name in [name for name in sys.modules if name.partition(".")[0] == "numpy"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(VariableError) as caught:
        read_variables(path, None)
    assert "Install numpy for this notebook's Python" in str(caught.value.hint)


def inputs_digest(folder: Path, code: str) -> str:
    """Of all that a notebook's cell sets."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    exec(compile(code, f"{folder}/{len(list(folder.iterdir()))}", "exec"), namespace)
    names = [name for name in namespace if not name.startswith("__")]
    write_variables(folder / str(len(list(folder.iterdir()))), names, namespace)
    return digest_inputs(max(folder.iterdir(), key=lambda one: int(one.name)), names, namespace)


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
def test_equal_values_made_anew_have_an_equal_digest(
    same: str, other: str, sure: bool, tmp_path: Path
) -> None:
    first = inputs_digest(tmp_path, same)
    assert inputs_digest(tmp_path, f"\n{same}") == first
    assert inputs_digest(tmp_path, other) != first
    assert first.startswith("?") is not sure
