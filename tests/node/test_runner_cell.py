"""Cells: values, displays, figures and errors look as in a notebook, with IPython and without."""

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
        ("1 + 1", "2"),
        ("x = 2\nx * 21  # the answer", "42"),
        ("'text'", "'text'"),
        (
            "from __future__ import annotations\ndef f(x: unknown): ...\nf.__annotations__['x']",
            "'unknown'",
        ),
        ("{'b': 1, 'a': [2]}", "{'b': 1, 'a': [2]}"),
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
@pytest.mark.parametrize(
    "cell", ["x = 1", "None", "1;", "1; # quiet", "f'{1};';", "", "# nothing", "def f(): 1"]
)
def test_what_shows_nothing_in_a_notebook_shows_nothing(
    run: RunCell, cell: str, python: tuple[str, ...]
) -> None:
    done = run(cell, python=python)
    assert (done.result.status, done.shown) == ("ok", [])


@pytest.mark.parametrize("start", ["", WITH_IPYTHON], ids=["light", "ipython"])
def test_long_containers_are_cut(run: RunCell, start: str) -> None:
    text = run(start + "list(range(5000))").value["text/plain"]
    assert isinstance(text, str)
    assert text.startswith("[0,\n 1,\n 2,")
    assert text.endswith(" 999,\n ...]")


@pytest.mark.parametrize("start", ["", WITH_IPYTHON], ids=["light", "ipython"])
def test_table_comes_as_html_and_text(run: RunCell, start: str) -> None:
    value = run(start + "import pandas\npandas.DataFrame({'a': [1, 2]})").value
    assert list(value) == ["text/plain", "text/html"]
    assert "<table" in str(value["text/html"])


@BOTH
def test_every_representation_of_a_value_is_taken(run: RunCell, python: tuple[str, ...]) -> None:
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


@BOTH
def test_representation_that_fails_is_told_and_is_no_error(
    run: RunCell, python: tuple[str, ...]
) -> None:
    done = run("class Bad:\n    def _repr_html_(self): 1 / 0\nBad()", python=python)
    assert done.result.status == "ok"
    assert "ZeroDivisionError" in done.text("stderr")
    assert list(done.value) == ["text/plain"]


def test_object_that_answers_to_every_name_is_only_text(run: RunCell) -> None:
    done = run("from unittest.mock import MagicMock\nMagicMock()")
    assert list(done.value) == ["text/plain"]


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


def test_ipython_display_works_as_soon_as_it_is_imported(run: RunCell) -> None:
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


def test_widget_is_shown_as_text(run: RunCell) -> None:
    data = run("import ipywidgets\nipywidgets.IntSlider()").value
    assert list(data) == ["text/plain"]
    assert str(data["text/plain"]).startswith("IntSlider(")


@BOTH
def test_display_id_is_made_where_asked_for(run: RunCell, python: tuple[str, ...]) -> None:
    [shown] = run("display(1, display_id=True);", python=python).displays
    assert shown.display_id


# --- figures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["", WITH_IPYTHON], ids=["light", "ipython"])
def test_figures_are_shown_when_asked_and_at_the_end(run: RunCell, start: str) -> None:
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


def test_figures_come_before_the_end_of_a_cell_that_fails(run: RunCell) -> None:
    done = run("import matplotlib.pyplot as plt\nplt.plot([1])\n1 / 0")
    assert done.result.ename == "ZeroDivisionError"
    assert len(done.displays) == 1


def test_figure_as_a_value_is_a_picture(run: RunCell) -> None:
    done = run("from matplotlib.figure import Figure\nFigure()")
    assert set(done.value) == {"text/plain", "image/png"}


def test_image_whose_backend_is_agg_shows_figures_all_the_same(run: RunCell) -> None:
    done = run("import matplotlib.pyplot as plt\nplt.plot([1]);", env={"MPLBACKEND": "agg"})
    assert len(done.displays) == 1


def test_backend_that_the_cell_chooses_is_left_alone(run: RunCell) -> None:
    done = run(
        "import matplotlib\nmatplotlib.use('pdf')\nimport matplotlib.pyplot as plt\n"
        "plt.plot([1])\nplt.get_backend()"
    )
    assert done.value == {"text/plain": "'pdf'"}


def test_program_that_the_cell_starts_finds_a_backend(run: RunCell) -> None:
    done = run(
        "import subprocess, sys, matplotlib.pyplot\n"
        "program = 'import matplotlib.pyplot as plt; plt.plot([1]); print(plt.get_backend())'\n"
        "subprocess.run([sys.executable, '-c', program], check=True);"
    )
    assert done.text() == "agg\n"


# --- IPython's language -------------------------------------------------------------------------


def test_magics_and_commands_work_where_there_is_ipython(run: RunCell) -> None:
    done = run("files = !printf 'a\\nb'\n%time x = 1\n!echo {x}\nfiles, x")
    assert "CPU times" in done.text()
    assert done.text().endswith("1\r\n") or done.text().endswith("1\n")
    assert done.value == {"text/plain": "(['a', 'b'], 1)"}


def test_cell_magic_works(run: RunCell) -> None:
    done = run("%%bash\necho from bash; echo oops >&2")
    assert (done.text(), done.text("stderr")) == ("from bash\n", "oops\n")


def test_captured_output_is_not_shown(run: RunCell) -> None:
    done = run("%%capture captured\nprint('kept')\ndisplay(1)")
    assert done.shown == []
    assert done.result.status == "ok"


def test_get_ipython_is_there(run: RunCell) -> None:
    done = run("get_ipython().run_line_magic('env', 'HOME')")
    assert done.result.status == "ok"
    assert "job$dir" in str(done.value["text/plain"])


@pytest.mark.parametrize("cell", ["!ls", "x = 1\n%time x", "files = !ls", "print?", "%%bash\nls"])
def test_ipythons_language_without_ipython_is_refused_with_a_reason(
    run: RunCell, cell: str
) -> None:
    done = run(cell, python=BARE)
    assert done.exit_code == 1
    assert done.error.ename == done.result.ename == "NoIPython"
    assert "take a Python with IPython" in done.error.evalue


def test_ipython_leaves_nothing_in_the_home(run: RunCell) -> None:
    done = run("%time 1")
    assert not (done.job_dir / ".ipython").exists()


# --- errors -------------------------------------------------------------------------------------

FAILING = "def inner():\n    return 1 / 0\n\ninner()"


def test_traceback_shows_the_cell_in_colour_and_nothing_of_the_runner(run: RunCell) -> None:
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
def test_an_interrupts_traceback_has_nothing_of_the_runner_also_where_another_error_follows(
    run: RunCell, python: tuple[str, ...]
) -> None:
    cell = "import signal\ntry:\n    signal.raise_signal(signal.SIGTERM)\nexcept KeyboardInterrupt:"
    text = "\n".join(run(f"{cell}\n    1 / 0", python=python).error.traceback)
    assert "KeyboardInterrupt" in text
    assert "ZeroDivisionError" in text
    assert "runner" not in text


@BOTH
def test_of_a_file_that_is_run_only_its_own_frames_are_shown(
    run: RunCell, python: tuple[str, ...]
) -> None:
    code = headless.of_python("def f():\n    return 1 / 0\nf()\n", "/x/bad.py", [])
    lines = run(code, python=python).error.traceback
    text = plain("\n".join(lines))
    assert "/x/bad.py" in text
    assert "return 1 / 0" in text
    for ours in ("driver", "run()", "hidden", "slurm cell"):
        assert ours not in text


def test_traceback_without_ipython_counts_lines_as_python_does(run: RunCell) -> None:
    done = run("x = '\u2028\x85\x1c'\n\f\n1 / 0  # here\n", python=BARE)
    assert "    1 / 0  # here" in done.error.traceback


def test_traceback_without_ipython_shows_the_same(run: RunCell) -> None:
    done = run(FAILING, python=BARE)
    lines = done.error.traceback
    assert lines[0] == "Traceback (most recent call last):"
    assert '  File "slurm cell k3j9x2m1", line 2, in inner' in lines
    assert "    return 1 / 0" in lines
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert "runner" not in "".join(lines)


@BOTH
def test_output_before_an_error_comes_before_it(run: RunCell, python: tuple[str, ...]) -> None:
    done = run("print('first')\nraise ValueError('no: \\ud800')", python=python)
    assert [type(output).__name__ for output in done.shown] == ["Stream", "ErrorOutput"]
    assert done.error.evalue == r"no: \ud800"


@BOTH
def test_causes_of_an_error_are_shown(run: RunCell, python: tuple[str, ...]) -> None:
    done = run(
        "try:\n    {}['k']\nexcept KeyError as e:\n    raise OSError('x') from e", python=python
    )
    text = plain("\n".join(done.error.traceback))
    assert "KeyError: 'k'" in text
    assert "OSError: x" in text
    assert "runner" not in text


@BOTH
def test_syntax_error_shows_the_line(run: RunCell, python: tuple[str, ...]) -> None:
    done = run("x = 1\nif x print(x)", python=python)
    text = plain("\n".join(done.error.traceback))
    assert done.result.ename == "SyntaxError"
    assert "if x print(x)" in text
    assert "line 2" in text
    assert "runner" not in text


@BOTH
def test_nul_in_a_cell_is_an_error_of_the_cell(run: RunCell, python: tuple[str, ...]) -> None:
    done = run("x = '\0'", python=python)
    assert done.result.status == "error"
    assert "null bytes" in done.error.evalue


@BOTH
def test_exception_that_cannot_be_printed_is_told(run: RunCell, python: tuple[str, ...]) -> None:
    done = run("class E(Exception):\n    def __str__(self): 1 / 0\nraise E", python=python)
    assert (done.result.status, done.result.ename) == ("error", "E")


@BOTH
@pytest.mark.parametrize(
    "cell", ["import sys\nsys.exit()", "import sys\nsys.exit(0)", "raise SystemExit"]
)
def test_exit_ends_the_cell_well(run: RunCell, cell: str, python: tuple[str, ...]) -> None:
    done = run("x = 1\n" + cell + "\nx = 2", names_out=["x"], python=python)
    assert (done.exit_code, done.result.status) == (0, "ok")
    assert done.variables() == {"x": 1}


@BOTH
@pytest.mark.parametrize(
    ("cell", "code", "text"),
    [
        ("sys.exit(3)", 3, "3"),
        ("sys.exit('no data')", 1, "no data"),
        ("sys.exit(-1)", 255, "-1"),
        ("sys.exit(True)", 1, "1"),
        ("raise SystemExit(400)", 144, "400"),
        ("class Mine(SystemExit): pass\nraise Mine(256)", 1, "256"),
    ],
)
def test_exit_with_a_code_ends_the_job_with_it_and_has_no_traceback(
    run: RunCell, cell: str, code: int, text: str, python: tuple[str, ...]
) -> None:
    done = run(f"import sys\n{cell}", python=python)
    assert (done.exit_code, done.result.exit_code, done.result.status) == (code, code, "error")
    assert (done.error.ename, done.error.evalue) == ("SystemExit", text)
    assert done.error.traceback == done.result.traceback == (f"SystemExit: {text}",)


def test_exit_function_works_under_ipython_too(run: RunCell) -> None:
    done = run(WITH_IPYTHON + "exit()\nprint('not reached')")
    assert (done.result.status, done.shown) == ("ok", [])


def test_quit_with_a_code_does_so_under_ipython_too(run: RunCell) -> None:
    done = run(WITH_IPYTHON + "quit(4)")
    assert (done.exit_code, done.error.traceback) == (4, ("SystemExit: 4",))


def test_usage_error_of_a_magic_is_an_error(run: RunCell) -> None:
    done = run("%no_such_magic")
    assert done.result.status == "error"
    assert done.error.traceback[0].startswith("UsageError: ")
    assert "no_such_magic" in done.error.evalue
    assert done.text("stderr") == ""


# --- surroundings -------------------------------------------------------------------------------


@BOTH
def test_cell_is_main_and_finds_its_source(run: RunCell, python: tuple[str, ...]) -> None:
    done = run(
        "import inspect, sys\n"
        "def f():\n    return 'source'\n"
        "print(inspect.getsource(f), end='')\n"
        "sys.modules['__main__'].f is f, __name__, sys.argv",
        python=python,
    )
    assert done.text() == "def f():\n    return 'source'\n"
    assert done.value == {"text/plain": "(True, '__main__', [''])"}


def test_folder_of_the_job_is_not_importable(runner: Runner, run: RunCell) -> None:
    done = run("import sys\n[p for p in sys.path if 'job$dir' in p], sys.path[0]")
    assert done.value == {"text/plain": "([], '')"}


@BOTH
def test_environment_and_folder_are_those_of_the_process(
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
def test_nothing_can_be_typed_in(run: RunCell, python: tuple[str, ...]) -> None:
    assert run("input()", python=python).error.ename == "EOFError"


def test_warning_shows_its_line(run: RunCell) -> None:
    text = run("import warnings\nwarnings.warn('careful')").text("stderr")
    assert text == "slurm cell k3j9x2m1:2: UserWarning: careful\n  warnings.warn('careful')\n"


def test_plain_cell_does_not_import_ipython(run: RunCell) -> None:
    done = run("import sys\nprint({'IPyth' + 'on', 'typing', 'asyncio'} & set(sys.modules))\n1")
    assert done.text() == "set()\n"


def test_tasks_that_are_left_are_cancelled_quietly(run: RunCell) -> None:
    done = run(
        "import asyncio\nt = asyncio.create_task(asyncio.sleep(100))\nawait asyncio.sleep(0)"
    )
    assert (done.result.status, done.text("stderr")) == ("ok", "")
