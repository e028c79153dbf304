"""A runner for a Python file or a notebook inside the only cell of a job.

Runs on the cluster, Python 3.6 and later, standard library only, as part of the cell's code. It
displays a marker before each cell of a notebook. `notebooks.py` uses these markers to assign
outputs to cells.
"""

import ast
import json
import linecache
import os
import re
import sys
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List

    Space = Dict[str, Any]

MIME = "application/vnd.jupyter-slurm.notebook+json"
CELL_NAME = "<notebook cell %d>"
CO_COROUTINE = 0x80  # inspect.CO_COROUTINE; inspect itself takes milliseconds to import
CALL = "run()"
"""The last line of the job's own cell, and the only line of it that tracebacks show."""


def file_runner(
    text: str, path: str, arguments: "List[str]", space: "Space"
) -> "Callable[[], None]":
    """Return a function that runs the Python file `text` in `space` like `python PATH …`."""
    _show_only_call()

    def run() -> None:
        __tracebackhide__ = True  # for IPython
        space.pop("run", None)
        sys.argv[:] = [path] + arguments
        sys.path.insert(0, os.path.dirname(path))
        space["__file__"] = path
        _keep_lines(text, path)
        exec(compile(text, path, "exec", dont_inherit=True), space)

    return run


def notebook_runner(
    text: str, display: "Callable[..., Any]", space: "Space"
) -> "Callable[[], None]":
    """Return a function that runs the notebook `text` (JSON) in `space` until the first exception.
    It shows exceptions of cells with the tag `raises-exception`, and continues."""
    _show_only_call()

    def mark(content: "Dict[str, Any]") -> None:
        display({MIME: content}, raw=True)

    def run() -> None:
        __tracebackhide__ = True  # for IPython
        space.pop("run", None)
        notebook = json.loads(text)
        mark({"notebook": notebook})
        shell = _shell()
        pid = os.getpid()
        for index, cell in enumerate(notebook["cells"]):
            source = "".join(cell["source"])
            if cell["cell_type"] != "code" or not source.strip():
                continue
            mark({"cell": index})
            try:
                _run_cell(source, CELL_NAME % (index + 1), display, space, shell)
            except Exception as error:
                forked = os.getpid() != pid
                if forked or "raises-exception" not in cell.get("metadata", {}).get("tags", ()):
                    raise error.with_traceback(_inside(error))  # noqa: B904 - the same error
                mark({"error": _described(error)})
            finally:
                if os.getpid() == pid:
                    _show_figures()
            if os.getpid() != pid:  # the parent of a forked process runs the rest
                return

    return run


def _show_only_call() -> None:
    """Hide the text of the job's own cell, which contains this module, from tracebacks."""
    frame = sys._getframe(2)
    name = frame.f_code.co_filename
    source = "\n" * frame.f_lineno + CALL + "\n"  # the call is on the next line
    _keep_lines(source, name)


def _keep_lines(source: str, name: str) -> None:
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)


# --- a notebook's cell --------------------------------------------------------------------------


def _shell() -> "Any":
    """Return IPython's shell, or None."""
    try:
        from IPython import get_ipython  # most images have none
    except ImportError:
        return None
    return get_ipython()


def _run_cell(
    source: str, name: str, display: "Callable[..., Any]", space: "Space", shell: "Any"
) -> None:
    source = shell.transform_cell(source) if shell else _without_ipython(source)
    _keep_lines(source, name)
    tree = ast.parse(source, name)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";"):
        last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined,unused-ignore]
    _execute(tree, name, "exec", space)
    if last is not None:
        value = _execute(last, name, "eval", space)
        if value is not None:
            space["_"] = value
            display(value)


def _without_ipython(source: str) -> str:
    """Return the cell as plain Python. Raise SyntaxError if it needs IPython."""
    source = re.sub(r"(?m)^%matplotlib\b.*$", "", source)
    found = re.search(r"(?m)^(?:%|!)\S*", source)
    try:
        ast.parse(source)
    except SyntaxError:
        if found:
            raise SyntaxError(
                "`%s` needs IPython, which this job's Python does not have" % found.group()
            ) from None
        raise
    return source


def _execute(tree: "Any", name: str, mode: str, space: "Space") -> "Any":
    flags = getattr(ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0)  # Python 3.8
    code = compile(tree, name, mode, flags, True)
    value = eval(code, space)
    if code.co_flags & CO_COROUTINE:
        import asyncio  # few cells wait

        if "_notebook_loop" not in space:
            space["_notebook_loop"] = asyncio.new_event_loop()
            asyncio.set_event_loop(space["_notebook_loop"])
        value = space["_notebook_loop"].run_until_complete(value)
    return value


def _inside(error: Exception) -> "Any":
    """Return the error's traceback, starting at the notebook's cell."""
    trace = error.__traceback__
    start = CELL_NAME.partition("%")[0]
    while trace is not None and not trace.tb_frame.f_code.co_filename.startswith(start):
        trace = trace.tb_next
    return trace


def _described(error: Exception) -> "Dict[str, Any]":
    lines = traceback.format_exception(type(error), error, _inside(error))
    text = "".join(lines).rstrip("\n").split("\n")
    return {"ename": type(error).__name__, "evalue": str(error), "traceback": text}


def _show_figures() -> None:
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.show()
