"""Variables into a cell and back: the two ends of the format, in two processes."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.outcome.variables import digest_file
from tests.node.cells import BARE, FULL, RunCell, Runner

ROOT = Path(__file__).parents[2]
BOTH = pytest.mark.parametrize("python", [BARE, FULL], ids=["bare", "full"])


@BOTH
def test_values_go_in_and_come_back(run: RunCell, python: tuple[str, ...]) -> None:
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
    assert done.result.variables is not None
    assert done.result.variables.names == ("n", "nested", "out", "text")
    assert done.result.variables.failed == {}


def test_arrays_go_in_and_come_back_and_may_be_written_to(run: RunCell) -> None:
    array = np.arange(3_000_000, dtype=np.float64)
    fortran = np.asfortranarray(np.ones((3, 4), dtype=np.int16))
    done = run(
        "array[0] = -1; array *= 2; fortran[0, 0] = 7; empty = array[:0]",
        names_in={"array": array, "fortran": fortran},
        names_out=["array", "fortran", "empty"],
    )
    back: dict[str, Any] = done.variables()
    assert back["array"][0] == -2
    assert np.array_equal(back["array"][1:], array[1:] * 2)
    assert back["fortran"].flags.f_contiguous
    assert back["fortran"][0, 0] == 7
    assert back["empty"].shape == (0,)
    back["array"][:] = 0
    assert array[0] == 0  # what the notebook has is as it was


def test_array_of_200_mb_is_in_the_file_once_and_read_without_a_copy(run: RunCell) -> None:
    done = run(
        "import numpy as np, resource\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "array = np.ones(25_000_000)",
        names_out=["array"],
    )
    assert done.result.variables is not None
    assert 200_000_000 < done.result.variables.bytes < 200_001_000
    # The array itself, the interpreter with numpy, and chunks of 16 MiB on their way to a hash.
    assert done.result.peak_rss_mib < 200_000_000 / 2**20 + 150
    array: Any = done.variables()["array"]
    assert not array.flags.owndata
    assert array.flags.writeable
    assert float(array.sum()) == 25_000_000
    (done.job_dir / "vars.0").unlink()
    array[0] = 5
    assert array[0] == 5


LARGE_BYTES = 40_000_000
LARGE = {
    "bytes": "b'x' * SIZE",
    "text": "'é' + 'x' * (SIZE - 1)",
    "floats": "[n + 0.5 for n in range(SIZE // 40)]",  # 8 bytes in the list, 32 in pymalloc
    "texts": "[f'{n:031}' for n in range(SIZE // 88)]",  # 8 and 80, likewise
    "texts by key": "{f'{n:031}': f'{n:030}' for n in range(SIZE // 210)}",  # 160 and the dict's
    "dict": "{at: bytearray(SIZE // 10) for at in range(10)}",
    "strided": "numpy.ones(SIZE // 4)[::2]",
    "within": "SimpleNamespace(its=numpy.ones(SIZE // 4)[::2])",
}
PEAKS = """
import concurrent.futures.thread, os, sys
from pathlib import Path
from types import SimpleNamespace
import numpy, runner_plain, runner_variables
from jupyter_slurm.jobs.outcome.variables import read_variables, write_variables

def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

def peak(do):
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS:")
    do()
    return (status("VmHWM:") - before) / SIZE

def in_its_own_process(do):
    if not (pid := os.fork()):
        do()
        sys.stdout.flush()
        os._exit(0)
    assert not os.waitpid(pid, 0)[1]

def write():
    values = {"value": eval(sys.argv[2])}
    print(peak(lambda: write_variables(Path("in"), ["value"], values)) + 1)
    for only_data in (True, False):
        print(peak(lambda: runner_variables.store("out", ["value"], values, only_data)) + 1)

SIZE = int(sys.argv[1])
in_its_own_process(write)
in_its_own_process(lambda: print(peak(lambda: runner_variables.load("in"))))
in_its_own_process(lambda: print(peak(lambda: read_variables(Path("out"), None))))
"""


@pytest.mark.parametrize("kind", LARGE)
def test_a_large_value_takes_little_more_memory_than_itself(tmp_path: Path, kind: str) -> None:
    """Written here, and in the job as data and as it comes; read in the job, and here."""
    argv = [sys.executable, "-c", PEAKS, str(LARGE_BYTES), LARGE[kind]]
    path = os.pathsep.join([str(ROOT), str(ROOT / "jupyter_slurm" / "node")])
    env = {**os.environ, "PYTHONPATH": path}
    peaks = subprocess.check_output(argv, text=True, cwd=tmp_path, env=env).split()
    assert max(map(float, peaks)) <= 1.2, peaks


def test_large_lists_of_texts_and_strided_arrays_stay_what_they_are(run: RunCell) -> None:
    texts = [f"é\n\ud800 {n % 9}" for n in range(300_000)]
    shared = [f"{n}" for n in range(300_000)]
    numbered = dict(enumerate(texts, -5))
    by_key = dict(zip(shared, texts, strict=True))
    wide = np.arange(600_000).view("M8[s]").reshape(3, 2, -1)[:, :, ::2]
    done = run(
        "from types import SimpleNamespace\n"
        "same = pair.list is shared and pair.dict is by_key\n"
        "same_dict = numbered == dict(enumerate(texts, -5))\n"
        "holds = SimpleNamespace(wide=wide[:, 1:], texts=texts)\n"
        "with_none = [*shared, None]; few = wide.T[1:]",
        names_in={
            "texts": texts,
            "shared": shared,
            "by_key": by_key,
            "numbered": numbered,
            "pair": SimpleNamespace(list=shared, dict=by_key),
            "wide": wide,
        },
        names_out=["same", "same_dict", "texts", "with_none", "by_key", "few", "holds"],
    )
    back: dict[str, Any] = done.variables()
    assert back["same"] is True
    assert back["same_dict"] is True
    assert back["texts"] == texts
    assert back["texts"] is back["holds"].texts
    assert back["with_none"] == [*shared, None]
    assert back["by_key"] == by_key
    assert back["few"].dtype == wide.dtype
    assert np.array_equal(back["few"], wide.T[1:])
    assert np.array_equal(back["holds"].wide, wide[:, 1:])
    assert len({*map(id, back["by_key"].values())}) < 2_000  # equal texts are not one each


def test_digest_of_the_node_is_that_of_this_side(run: RunCell) -> None:
    done = run("x = b'0123456789abcdef' * (5 << 20)", names_out=["x"], python=BARE)
    assert done.result.variables is not None
    assert done.result.variables.digest == digest_file(done.job_dir / "vars.0")
    assert len(done.variables()["x"]) == 16 * (5 << 20)  # type: ignore[arg-type]


def test_what_variables_share_stays_shared(run: RunCell) -> None:
    shared = [1]
    done = run(
        "a.append(2); same = a is b['inside']",
        names_in={"a": shared, "b": {"inside": shared}},
        names_out=["a", "b", "same"],
    )
    back: dict[str, Any] = done.variables()
    assert back["same"] is True
    assert back["a"] is back["b"]["inside"]
    assert back["a"] == [1, 2]


@BOTH
def test_what_is_data_takes_no_pickle(run: RunCell, python: tuple[str, ...]) -> None:
    cell = "a = {'losses': [0.5, float('inf')] * 99}; b = (1, 'é', b'x' * 9999, {None}); c = len"
    done = run(cell, names_out=["c", "a", "b"], python=python)
    back = done.variables()
    assert list(back) == ["c", "a", "b"]
    assert back["a"] == {"losses": [0.5, float("inf")] * 99}
    assert back["b"] == (1, "é", b"x" * 9999, {None})
    assert back["c"] is len
    assert done.pickled == ["c"]


def test_arrays_and_frames_take_no_pickle(run: RunCell) -> None:
    cell = (
        "import numpy as np, pandas as pd\n"
        "array = np.arange(6.).reshape(2, 3)\n"
        "frame = pd.DataFrame({'a': [1, 2], 'b': ['x', None]})\n"
        "loss = np.float32(0.5)"
    )
    done = run(cell, names_out=["array", "frame", "loss"], out_format="data")
    back: dict[str, Any] = done.variables()
    assert done.pickled == []
    assert back["array"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    pd.testing.assert_frame_equal(back["frame"], pd.DataFrame({"a": [1, 2], "b": ["x", None]}))
    assert type(back["loss"]) is np.float32


def test_what_an_object_shares_with_data_stays_shared(run: RunCell) -> None:
    cell = (
        "import types, numpy as np\n"
        "losses, array, alone = [], np.zeros(3), [1]\n"
        "model = types.SimpleNamespace(losses=losses, array=array)"
    )
    done = run(cell, names_out=["losses", "model", "array", "alone"])
    back: dict[str, Any] = done.variables()
    assert back["model"].losses is back["losses"]
    assert back["model"].array is back["array"]
    assert done.pickled == ["losses", "model", "array"]
    assert back["alone"] == [1]


def test_what_has_very_many_parts_is_pickled_unless_data_was_asked_for(runner: Runner) -> None:
    cell = "x = [(n, [n]) for n in range(60_000)]"
    runner.prepare(cell, names_out=["x"])
    assert runner.finish(runner.start()).pickled == ["x"]
    other = Runner(runner.job_dir.with_name("data"))
    other.prepare(cell, names_out=["x"], out_format="data")
    done = other.finish(other.start())
    assert (done.pickled, done.variables()) == ([], {"x": [(n, [n]) for n in range(60_000)]})


@BOTH
def test_what_takes_a_pickle_is_refused_with_its_type_where_data_was_asked_for(
    run: RunCell, python: tuple[str, ...]
) -> None:
    cell = (
        "class Model: pass\nmodel, nested, fine = Model(), {'a': [len]}, [1]\nboth = [fine, fine]"
    )
    names = ["model", "nested", "fine", "both", "absent"]
    done = run(cell, names_out=names, out_format="data", python=python)
    assert done.pickled == []
    assert done.variables() == {"fine": [1], "both": [[1], [1]]}
    assert done.result.variables is not None
    failed = done.result.variables.failed
    assert set(failed) == {"model", "nested", "absent"}
    assert "__main__.Model, which takes a pickle" in failed["model"]
    assert "builtins.builtin_function_or_method" in failed["nested"]
    assert "--out-format data" in failed["model"]


@BOTH
def test_functions_of_the_notebook_go_in_by_value(run: RunCell, python: tuple[str, ...]) -> None:
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec("factor = 3\ndef triple(x):\n    return factor * x", scope)
    done = run(
        "y = triple(14)", names_in={"triple": scope["triple"]}, names_out=["y"], python=python
    )
    assert done.variables() == {"y": 42}


@BOTH
def test_functions_and_classes_of_the_cell_come_back_by_value(
    run: RunCell, python: tuple[str, ...]
) -> None:
    done = run(
        "class Model:\n"
        "    def __init__(self): self.w = [1]\n"
        "    def predict(self): return self.w * 2\n"
        "model = Model()\nadd = lambda x: x + len(model.w)",
        names_out=["model", "add", "Model"],
        python=python,
    )
    back: dict[str, Any] = done.variables()
    assert back["model"].predict() == [1, 1]
    assert type(back["model"]) is back["Model"]
    assert back["add"](1) == 2


def test_cloudpickle_that_was_sent_is_only_imported_when_needed(run: RunCell) -> None:
    done = run("import sys\n'cloudpickle' in sys.modules", names_in={"n": 1}, python=BARE)
    assert done.value == {"text/plain": "False"}


@BOTH
def test_what_cannot_come_back_is_named_with_the_reason(
    run: RunCell, python: tuple[str, ...]
) -> None:
    done = run(
        "import threading\n"
        "class Model: pass\n"
        "model = Model(); model.parts = [1, {'lock': threading.Lock()}]\n"
        "def uses():\n    return model.parts\n"
        "fine = 1; gen = (x for x in [])\n",
        names_out=["fine", "model", "gen", "absent", "uses"],
        python=python,
    )
    assert done.result.status == "ok"
    assert done.variables() == {"fine": 1}
    assert done.result.variables is not None
    failed = done.result.variables.failed
    assert set(failed) == {"model", "gen", "absent", "uses"}
    assert failed["absent"] == "the cell did not set it"
    assert "its .parts[1]['lock']: cannot pickle '_thread.lock' object" in failed["model"]
    assert "generator" in failed["gen"]
    assert "its global variable model.parts[1]['lock']" in failed["uses"]


def test_nothing_comes_back_from_a_cell_that_fails(run: RunCell) -> None:
    done = run("x = 1\n1 / 0", names_out=["x"])
    assert done.result.variables is None
    assert not (done.job_dir / "vars.0").exists()


def test_variable_whose_module_is_not_there_is_an_error_that_names_it(
    run: RunCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here_k3j9.py").write_text("class Thing: pass")
    monkeypatch.syspath_prepend(str(tmp_path))
    import only_here_k3j9  # type: ignore[import-not-found] # noqa: PLC0415

    done = run(
        "print('not reached')", names_in={"thing": only_here_k3j9.Thing()}, cwd="/", python=BARE
    )
    assert (done.exit_code, done.error.ename) == (1, "VariableError")
    assert "(thing) cannot be read here" in done.error.evalue
    assert "only_here_k3j9" in done.error.evalue
    assert f"the Python that the cell runs in ({sys.executable})" in done.error.evalue
    assert done.text() == ""


def rewrite_header(path: Path, **changes: object) -> None:
    """Write the file again as another Python would have."""
    data = path.read_bytes()
    (size,) = struct.unpack_from(">Q", data, 9)
    header = {**json.loads(data[17 : 17 + size]), **changes}
    text = json.dumps(header).encode()
    path.write_bytes(data[:9] + struct.pack(">Q", len(text)) + text + data[17 + size :])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"python": [3, 99, 0], "by_value": True}, ("Python 3.99", "define them in the cell")),
        ({"protocol": 99}, ("cannot read", "take Python 3.8 or later there")),
    ],
)
def test_variables_of_another_python_are_refused_with_both_versions(
    runner: Runner, changes: dict[str, object], words: tuple[str, ...]
) -> None:
    runner.prepare("print('not reached')", names_in={"n": 1})
    rewrite_header(runner.job_dir / layout.INPUTS, **changes)
    done = runner.finish(runner.start())
    assert (done.exit_code, done.result.status) == (1, "error")
    assert done.result.ename == done.error.ename == "PythonMismatch"
    for word in words:
        assert word in done.error.evalue
    assert done.text() == ""


def test_plain_values_of_another_python_are_read(runner: Runner) -> None:
    runner.prepare("print(n)", names_in={"n": 1})
    rewrite_header(runner.job_dir / layout.INPUTS, python=[3, 99, 0])
    assert runner.finish(runner.start()).text() == "1\n"


def test_thread_lock_is_what_these_tests_take_it_for() -> None:
    with pytest.raises(TypeError, match=r"cannot pickle '_thread\.lock' object"):
        cloudpickle.dumps(threading.Lock())
