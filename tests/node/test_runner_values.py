"""Variables sent to a cell and back, with both ends in separate processes."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jupyter_slurm.jobs import layout
from jupyter_slurm.variables import read_variables
from jupyter_slurm.wire import OUTCOME
from tests.node.cells import BARE, FULL, Run, RunCell, Runner

BOTH = pytest.mark.parametrize("python", [BARE, FULL], ids=["bare", "full"])


def failed(done: Run) -> dict[str, str]:
    assert done.result.variables is not None
    return done.result.variables.failed


@BOTH
def test_values_round_trip(run: RunCell, python: tuple[str, ...]) -> None:
    values = {"n": 3, "text": "é\0\ud800", "nested": {"a": [1, (2.5, None)]}, "ä": b"\xff"}
    cell = "n += 1; nested['b'] = text; out = ä * 2"
    names = ["n", "nested", "out", "text"]
    done = run(cell, names_in=values, names_out=names, python=python)
    assert done.variables() == {
        "n": 4,
        "nested": {"a": [1, (2.5, None)], "b": "é\0\ud800"},
        "out": b"\xff\xff",
        "text": "é\0\ud800",
    }
    assert failed(done) == {}


def test_arrays_and_frames_round_trip_and_are_writable(run: RunCell) -> None:
    array = np.arange(300_000, dtype=np.float64)
    fortran = np.asfortranarray(np.ones((300, 400), dtype=np.int16))
    frame = pd.DataFrame({"x": np.zeros(100_000), "s": ["a"] * 100_000})
    done = run(
        "array[0] = -1; array *= 2; fortran[0, 0] = 7; part = array[::2]; frame['x'] += 1",
        names_in={"array": array, "fortran": fortran, "frame": frame},
        names_out=["array", "fortran", "part", "frame"],
    )
    back: dict[str, Any] = done.variables()
    assert back["array"][0] == -2
    assert np.array_equal(back["array"][1:], array[1:] * 2)
    assert back["fortran"].flags.f_contiguous
    assert back["fortran"][0, 0] == 7
    assert np.array_equal(back["part"], back["array"][::2])
    pd.testing.assert_frame_equal(back["frame"], frame.assign(x=1.0))
    back["array"][:] = 0
    assert array[0] == 0  # the notebook's own array is unchanged


@BOTH
def test_functions_of_the_notebook_are_sent_by_value(run: RunCell, python: tuple[str, ...]) -> None:
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec("factor = 3\ndef triple(x):\n    return factor * x", scope)
    values = {"triple": scope["triple"]}
    done = run("y = triple(14)", names_in=values, names_out=["y"], python=python)
    assert done.variables() == {"y": 42}


@BOTH
def test_functions_and_classes_of_the_cell_are_returned_by_value(
    run: RunCell, python: tuple[str, ...]
) -> None:
    done = run(
        "class Model:\n"
        "    def __init__(self): self.w = [1]\n"
        "    def predict(self): return self.w * 2\n"
        "model = Model()\nadd = lambda x: x + len(model.w)",
        names_out=["model", "add"],
        python=python,
    )
    back: dict[str, Any] = done.variables()
    assert back["model"].predict() == [1, 1]
    assert back["add"](1) == 2


# --- values that cannot be sent ---


@BOTH
def test_unpicklable_variable_does_not_affect_others(run: RunCell, python: tuple[str, ...]) -> None:
    cell = "import threading\nlock, fine, gen = {'its': threading.Lock()}, 1, (x for x in [])"
    done = run(cell, names_out=["lock", "fine", "gen", "absent"], python=python)
    assert done.result.status == "ok"
    assert done.variables() == {"fine": 1}
    assert set(failed(done)) == {"lock", "gen", "absent"}
    assert failed(done)["absent"] == "the cell did not set it"
    assert "cannot pickle '_thread.lock' object" in failed(done)["lock"]
    assert "generator" in failed(done)["gen"]


def test_failed_cell_does_not_return_variables(run: RunCell) -> None:
    done = run("x = 1\n1 / 0", names_out=["x"])
    assert done.result.variables is None
    assert not (done.job_dir / "vars.0").exists()


def test_failed_executor_call_returns_its_exception(run: RunCell) -> None:
    done = run("raise ValueError('no', 3)", names_out=[OUTCOME])
    assert done.result.status == "error"
    error = done.variables()[OUTCOME]
    assert isinstance(error, ValueError)
    assert error.args == ("no", 3)


def test_unpicklable_exception_is_left_out(run: RunCell) -> None:
    done = run("import threading\nraise ValueError(threading.Lock())", names_out=[OUTCOME])
    assert done.result.ename == "ValueError"
    assert "cannot pickle '_thread.lock' object" in failed(done)[OUTCOME]


def test_full_disk_loses_only_large_variables(run: RunCell) -> None:
    cell = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
    done = run(cell + "loss, text = 0.5, 'x' * (2 << 20)", names_out=["text", "loss"])
    assert done.variables() == {"loss": 0.5}
    assert "OSError" in failed(done)["text"]


ERROR = """\
class DataError(Exception):
    def __init__(self, path, line):
        super().__init__(f"{path}:{line}")
"""


def test_unreadable_variable_does_not_affect_others(run: RunCell) -> None:
    done = run(f"{ERROR}acc = 0.93\nerr = DataError('x', 3)", names_out=["err", "acc"])
    values, unread = done.read_variables()
    assert values == {"acc": 0.93}
    assert list(unread) == ["err"]
    assert "missing 1 required positional argument: 'line'" in unread["err"]


def test_unreadable_input_stops_the_cell(run: RunCell) -> None:
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(f"{ERROR}errors = [DataError('x', 3)]", scope)
    done = run("print(n)", names_in={"n": 1, "errors": scope["errors"]})
    assert (done.exit_code, done.error.ename, done.text()) == (1, "VariableError", "")
    assert done.error.evalue.startswith("errors: ")
    assert "missing 1 required positional argument: 'line'" in done.error.evalue


def module(folder: Path, version: str, arguments: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "frames_k3j9.py").write_text(
        f"__version__ = '{version}'\n"
        f"class Frame:\n"
        f"    def __init__(self, {arguments}): self.n = 1\n"
        f"    def __reduce__(self): return Frame, (1, 2)[:{arguments.count(',') + 1}]\n"
    )


@pytest.fixture
def frame_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Yield an object of a package that is installed only on this side."""
    module(tmp_path / "here", "3.1.1", "a, b")
    monkeypatch.syspath_prepend(str(tmp_path / "here"))
    import frames_k3j9  # type: ignore[import-not-found]

    yield frames_k3j9.Frame(1, 2)
    del sys.modules["frames_k3j9"]


def test_error_names_missing_module(run: RunCell, frame_here: object) -> None:
    done = run("print('not reached')", names_in={"df": frame_here}, cwd="/", python=BARE)
    assert done.error.evalue == (
        "df: it needs the module frames_k3j9, which is not installed here. "
        f"Install frames_k3j9 for {sys.executable}"
    )
    assert done.text() == ""


def test_error_names_different_package_versions(
    run: RunCell, tmp_path: Path, frame_here: object
) -> None:
    module(tmp_path / "there", "2.2.3", "a")
    env = {"PYTHONPATH": str(tmp_path / "there")}
    done = run("print('not reached')", names_in={"df": frame_here, "n": 1}, env=env)
    assert done.error.evalue.startswith("df: it cannot be read here: TypeError")
    assert "frames_k3j9 3.1.1 wrote it, this is frames_k3j9 2.2.3" in done.error.evalue


# --- another Python, another NumPy ---


def rewrite(path: Path, variables: dict[str, dict[str, object]], **changes: object) -> None:
    """Rewrite the index as another Python would."""
    data = path.read_bytes()
    start = data.rindex(b"\n", 0, -1) + 1
    index = json.loads(data[start:]) | changes
    for name, change in variables.items():
        index["variables"][name] |= change
    path.write_bytes(data[:start] + json.dumps(index).encode() + b"\n")


def test_code_of_another_python_version_is_rejected(runner: Runner) -> None:
    runner.prepare("print('not reached')", names_in={"f": lambda: 1})
    rewrite(runner.job_dir / layout.INPUTS, {}, python="3.99.0")
    done = runner.finish(runner.start())
    assert done.error.ename == "VariableError"
    assert "f: it holds functions or classes of Python 3.99.0, and this is" in done.error.evalue


def test_values_of_another_python_version_are_read(runner: Runner) -> None:
    runner.prepare("print(n)", names_in={"n": 1})
    rewrite(runner.job_dir / layout.INPUTS, {}, python="3.99.0")
    assert runner.finish(runner.start()).text() == "1\n"


@pytest.mark.parametrize("package", ["numpy.core", "numpy._core"])
def test_arrays_of_numpy_1_and_2_are_read(tmp_path: Path, package: str) -> None:
    data = f"c{package}.multiarray\nscalar\n.".encode()
    index = {
        "python": "3.8.1",
        "protocol": 4,
        "versions": {},
        "variables": {"x": {"pickle": [0, len(data)], "buffers": [], "code": False}},
    }
    (tmp_path / "vars").write_bytes(data + b"\n" + json.dumps(index).encode() + b"\n")
    values, _ = read_variables(tmp_path / "vars")
    assert callable(values["x"])


# --- the format "data" ---


@BOTH
def test_out_format_data_does_not_return_pickles(run: RunCell, python: tuple[str, ...]) -> None:
    cell = "class Model: pass\nmodel, a, b = Model(), {'l': [0.5, float('inf')]}, (1, 'é', {None})"
    done = run(cell, names_out=["model", "a", "b", "c"], out_format="data", python=python)
    assert done.variables() == {"a": {"l": [0.5, float("inf")]}, "b": (1, "é", {None})}
    assert set(failed(done)) == {"model", "c"}
    assert "__main__.Model, which is not data" in failed(done)["model"]
    with pytest.raises(pickle.UnpicklingError), done.variables_file.open("rb") as file:
        pickle.load(file)
