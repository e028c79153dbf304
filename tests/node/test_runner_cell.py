"""Values, displays, figures and errors of cells, as in a notebook, with and without IPython."""

from __future__ import annotations

import re

import pytest

from jupyter_slurm.commands import headless
from jupyter_slurm.wire import (
    ClearOutput,
    DisplayData,
    ExecuteResult,
    UpdateDisplayData,
)
from tests.node.cells import BARE, FULL, RunCell, Runner

BOTH = pytest.mark.parametrize("python", [BARE, FULL], ids=["bare", "full"])
WITH_IPYTHON = "import IPython\n"


def plain(line: str) -> str:
    """A line of a traceback without its colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", line)


# --- the last value -----------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("x = 2\nx * 21  # the answer", "42"),
        (
            "from __future__ import annotations\ndef f(x: unknown): ...\nf.__annotations__['x']",
            "'unknown'",
        ),
        ("import asyncio\nawait asyncio.sleep(0, 'awaited')", "'awaited'"),
        ("[x async for x in agen()]", None),
    ],
)
def test_last_expression_is_shown(
    run: RunCell, cell: str, value: str | None, python: tuple[str, ...]
) -> None:
    if value is None:
        cell = "async def agen():\n    yield 1\n" + cell
        value = "[1]"
    assert run(cell, python=python).value == {"text/plain": value}


@BOTH
@pytest.mark.parametrize("cell", ["x = 1", "None", "1; # quiet", ""])
def test_assignments_and_none_and_values_before_a_semicolon_are_not_shown(
    run: RunCell, cell: str, python: tuple[str, ...]
) -> None:
    done = run(cell, python=python)
    assert (done.result.status, done.shown) == ("ok", [])


@pytest.mark.parametrize("start", ["", WITH_IPYTHON], ids=["light", "ipython"])
def test_table_is_sent_as_html_and_text(run: RunCell, start: str) -> None:
    value = run(start + "import pandas\npandas.DataFrame({'a': [1, 2]})").value
    assert list(value) == ["text/plain", "text/html"]
    assert "<table" in str(value["text/html"])


@BOTH
def test_all_representations_of_a_value_are_sent(run: RunCell, python: tuple[str, ...]) -> None:
    done = run(
        "class Rich:\n"
        "    def __repr__(self): return 'rich'\n"
        "    def _repr_html_(self): return '<b>'\n"
        "    def _repr_png_(self): return b'\\x89PNG'\n"
        "    def _repr_latex_(self): return None\n"
        "    def _repr_mimebundle_(self, include=None, exclude=None):\n"
        "        return {'application/x': {'n': float('nan'), 1: (2,)}}, {'m': 1}\n"
        "Rich()",
        python=python,
    )
    assert done.value == {
        "text/plain": "rich",
        "text/html": "<b>",
        "image/png": "iVBORw==",
        "application/x": {"n": None, "1": [2]},
    }


# --- display ------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["", WITH_IPYTHON], ids=["light", "ipython"])
def test_displays_can_be_updated_and_cleared(run: RunCell, start: str) -> None:
    done = run(
        start + "handle = display('first', display_id='mine')\n"
        "handle.update('second')\n"
        "display({'text/html': '<b>'}, raw=True)\n"
        "display(3, clear=True)\n"
    )
    assert done.shown == [
        DisplayData(data={"text/plain": "'first'"}, display_id="mine"),
        UpdateDisplayData(data={"text/plain": "'second'"}, display_id="mine"),
        DisplayData(data={"text/html": "<b>"}),
        ClearOutput(wait=True),
        DisplayData(data={"text/plain": "3"}),
    ]


def test_ipython_display_works_after_its_import(run: RunCell) -> None:
    done = run(
        "display(1)\n"
        "from IPython.display import HTML, clear_output, display as show\n"
        "show(HTML('<i>'), display_id=True)\n"
        "clear_output()\n"
        "HTML('<u>')"
    )
    first, html, clear, value = done.shown
    assert isinstance(first, DisplayData)
    assert isinstance(html, DisplayData)
    assert html.data["text/html"] == "<i>"
    assert html.display_id
    assert clear == ClearOutput(wait=False)
    assert isinstance(value, ExecuteResult)
    assert value.data["text/html"] == "<u>"


# --- figures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["", WITH_IPYTHON], ids=["light", "ipython"])
def test_figures_are_shown_on_demand_and_at_the_end(run: RunCell, start: str) -> None:
    done = run(
        start + "import matplotlib.pyplot as plt\n"
        "plt.plot([1, 2]); plt.show(); print('between')\n"
        "plt.figure(figsize=(1, 1)); plt.plot([3]);"
    )
    first, _, last = done.shown
    assert isinstance(first, DisplayData)
    assert isinstance(last, DisplayData)
    assert first.data["text/plain"] == "<Figure size 640x480 with 1 Axes>"
    assert last.data["text/plain"] == "<Figure size 100x100 with 1 Axes>"
    assert first.data["image/png"].startswith("iVBOR")
    assert first.data["image/png"] != last.data["image/png"]


def test_figures_are_shown_with_the_agg_backend(run: RunCell) -> None:
    done = run("import matplotlib.pyplot as plt\nplt.plot([1]);", env={"MPLBACKEND": "agg"})
    assert len(done.displays) == 1


# --- IPython's language -------------------------------------------------------------------------


def test_magics_and_commands_work_with_ipython(run: RunCell) -> None:
    done = run("files = !printf 'a\\nb'\n%time x = 1\n!echo {x}\nfiles, x")
    assert "CPU times" in done.text()
    assert done.text().endswith("1\r\n") or done.text().endswith("1\n")
    assert done.value == {"text/plain": "(['a', 'b'], 1)"}


def test_cell_magic_works(run: RunCell) -> None:
    done = run("%%bash\necho from bash; echo oops >&2")
    assert (done.text(), done.text("stderr")) == ("from bash\n", "oops\n")


@pytest.mark.parametrize("cell", ["!ls", "%%bash\nls"])
def test_ipython_syntax_needs_ipython(run: RunCell, cell: str) -> None:
    done = run(cell, python=BARE)
    assert done.exit_code == 1
    assert done.error.ename == done.result.ename == "NoIPython"
    assert "use a Python with IPython" in done.error.evalue


# --- errors -------------------------------------------------------------------------------------

FAILING = "def inner():\n    return 1 / 0\n\ninner()"


def test_traceback_is_colored_and_hides_the_runner(run: RunCell) -> None:
    done = run(FAILING)
    assert done.exit_code == 1
    assert (done.result.status, done.result.ename) == ("error", "ZeroDivisionError")
    assert done.result.traceback == done.error.traceback
    text = "\n".join(done.error.traceback)
    assert "\x1b[" in text
    text = plain(text)
    assert "slurm cell k3j9x2m1, line 4" in text
    assert "slurm cell k3j9x2m1, line 2, in inner()" in text
    assert "return 1 / 0" in text
    assert "runner" not in text


@BOTH
def test_traceback_of_a_file_hides_runner_frames(run: RunCell, python: tuple[str, ...]) -> None:
    code = headless.of_python("def f():\n    return 1 / 0\nf()\n", "/x/bad.py", [])
    lines = run(code, python=python).error.traceback
    text = plain("\n".join(lines))
    assert "/x/bad.py" in text
    assert "return 1 / 0" in text
    for ours in ("run_file", "run()", "hidden", "slurm cell"):
        assert ours not in text


def test_traceback_without_ipython_is_a_standard_traceback(run: RunCell) -> None:
    done = run(FAILING, python=BARE)
    lines = done.error.traceback
    assert lines[0] == "Traceback (most recent call last):"
    assert '  File "slurm cell k3j9x2m1", line 2, in inner' in lines
    assert "    return 1 / 0" in lines
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert "runner" not in "".join(lines)


@BOTH
def test_output_precedes_a_later_error(run: RunCell, python: tuple[str, ...]) -> None:
    done = run("print('first')\nraise ValueError('no: \\ud800')", python=python)
    assert [type(output).__name__ for output in done.shown] == ["Stream", "ErrorOutput"]
    assert done.error.evalue == r"no: \ud800"


@BOTH
def test_syntax_error_shows_the_line(run: RunCell, python: tuple[str, ...]) -> None:
    done = run("x = 1\nif x print(x)", python=python)
    text = plain("\n".join(done.error.traceback))
    assert done.result.ename == "SyntaxError"
    assert "if x print(x)" in text
    assert "line 2" in text
    assert "runner" not in text


@BOTH
def test_exit_without_a_code_succeeds(run: RunCell, python: tuple[str, ...]) -> None:
    done = run("x = 1\nraise SystemExit\nx = 2", names_out=["x"], python=python)
    assert (done.exit_code, done.result.status) == (0, "ok")
    assert done.variables() == {"x": 1}


@BOTH
@pytest.mark.parametrize(
    ("cell", "code", "text"),
    [
        ("sys.exit(3)", 3, "3"),
        ("sys.exit('no data')", 1, "no data"),
        ("class Mine(SystemExit): pass\nraise Mine(256)", 1, "256"),
    ],
)
def test_exit_code_of_the_cell_is_the_exit_code_of_the_job(
    run: RunCell, cell: str, code: int, text: str, python: tuple[str, ...]
) -> None:
    done = run(f"import sys\n{cell}", python=python)
    assert (done.exit_code, done.result.exit_code, done.result.status) == (code, code, "error")
    assert (done.error.ename, done.error.evalue) == ("SystemExit", text)
    assert done.error.traceback == done.result.traceback == (f"SystemExit: {text}",)


def test_usage_error_of_a_magic_fails_the_cell(run: RunCell) -> None:
    done = run("%no_such_magic")
    assert done.result.status == "error"
    assert done.error.traceback[0].startswith("UsageError: ")
    assert "no_such_magic" in done.error.evalue
    assert done.text("stderr") == ""


# --- environment --------------------------------------------------------------------------------


@BOTH
def test_cell_runs_as_main_and_inspect_finds_its_source(
    run: RunCell, python: tuple[str, ...]
) -> None:
    done = run(
        "import inspect, sys\n"
        "def f():\n    return 'source'\n"
        "print(inspect.getsource(f), end='')\n"
        "sys.modules['__main__'].f is f, __name__, sys.argv",
        python=python,
    )
    assert done.text() == "def f():\n    return 'source'\n"
    assert done.value == {"text/plain": "(True, '__main__', [''])"}


@BOTH
def test_cell_has_the_environment_and_folder_of_the_process(
    run: RunCell, python: tuple[str, ...], runner: Runner
) -> None:
    folder = runner.job_dir.parent / "wörk dir"
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text("x = 'imported'")
    done = run(
        "import os, mine\nos.environ['A'], os.path.basename(os.getcwd()), mine.x",
        env={"A": "b$c 'd'\n\"é"},
        cwd=str(folder),
        python=python,
    )
    assert done.value == {"text/plain": repr(("b$c 'd'\n\"é", "wörk dir", "imported"))}


@BOTH
def test_call_to_input_fails(run: RunCell, python: tuple[str, ...]) -> None:
    assert run("input()", python=python).error.ename == "EOFError"
