"""The process of a cell. The supervisor (`runner.py`) forks it.

Runs on the cluster, Python 3.6 and later, standard library only. A plain Python cell does not need
IPython, which takes 0.3 s to import. This module imports IPython if the cell uses IPython's syntax
or mentions IPython, and to format a traceback. `runner_ipython.py` then sets up a shell.
"""

import _ast
import builtins
import contextlib
import importlib.machinery
import io
import json
import os
import re
import signal
import sys
import types

import runner_display
import runner_process

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds of every job
    from typing import Any, Callable, Dict, List, Optional

AWAIT = getattr(_ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0)
"""The compiler's flag for top-level await (Python 3.8 and later)."""
CO_COROUTINE = 0x80
OURS = tuple(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), name) for name in ("runner", "session")
)
"""The beginnings of the paths of our own files in tracebacks."""
RUN_FILE = "jupyter-slurm run_file.py"
"""The file name that `headless.py` gives to `run_file.py`."""
FUTURE_FLAGS = 0x1FF0000
IPYTHON_LINE = re.compile(r"^\s*(?:[!%]|\w[\w., ]*=\s*[!%]|\?)|\?\s*$")


class NoIPython(Exception):  # users see this name
    """The cell needs IPython, which is not installed."""


class VariableError(Exception):
    """The variables of --in cannot be read."""


class Finder:
    """A finder of our own modules, with hooks for the first import of other modules."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.before: "Dict[str, Callable[[], None]]" = {}
        self.after: "Dict[str, Callable[[], None]]" = {}

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name.startswith("runner_"):
            return importlib.machinery.PathFinder.find_spec(name, [self.folder])
        if name not in self.before and name not in self.after:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                self._watch(name, spec.loader)
                return spec
        return None

    def _watch(self, name: str, loader: "Any") -> None:
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def exec_module(module: types.ModuleType) -> None:
            self.before.pop(name, int)()
            execute(module)
            self.after.pop(name, int)()

        loader.exec_module = exec_module


# --- the cell -----------------------------------------------------------------------------------


class Cell:
    """A cell's code and its namespace, a real `__main__`."""

    def __init__(self, source: str, name: str, publisher: runner_display.Publisher) -> None:
        self.source = source
        self.name = name
        self.publisher = publisher
        self.module = types.ModuleType("__main__")
        self.namespace = self.module.__dict__
        self.namespace["__builtins__"] = builtins
        self.rank: "Optional[int]" = None
        """The rank of this process; None outside of jobs with ranks."""
        self.task: "Optional[str]" = None
        """The index of a sweep's task; None for other cells."""
        self.key = b""
        """The key of a session's cell; b"" if the key is in the job's folder."""
        self.check_world: "Optional[Callable[[], None]]" = None
        """The function that checks once whether the ranks have found each other."""
        self.run_async: "Optional[Callable[[Any], Any]]" = None
        """A function to run a coroutine in an event loop that outlives the cell."""

    def take_rank(self, job_dir: str, attempt: str, rank: "Optional[int]") -> None:
        """Make this process a rank, unless `rank` is None."""
        if rank is None:
            return
        import runner_ranks  # few jobs have any

        self.rank = rank
        self.check_world = lambda: runner_ranks.check(job_dir, attempt, self.publisher)

    def run(self) -> None:
        """Run the cell and show the value of its last expression."""
        if "IPython" in self.source or "get_ipython" in self.source:
            import_ipython()
        tree = self._parse()
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], _ast.Expr) else None
        codes = [compile(tree, self.name, "exec", AWAIT, dont_inherit=True)]
        if last is not None:
            flags = AWAIT | codes[0].co_flags & FUTURE_FLAGS
            expression = _ast.Expression(last.value)
            codes.append(compile(expression, self.name, "eval", flags, dont_inherit=True))
        value = self._evaluate(codes)
        if value is not None and not self._quiet():
            self.namespace["_"] = value
            bundle = self.publisher.bundle(value)
            if bundle[0]:
                self.publisher.result(bundle)

    def _parse(self) -> "Any":
        """Return the syntax tree. IPython translates its own syntax."""
        try:
            return self._tree()
        except SyntaxError:
            shell = import_ipython() and self.publisher.shell
            if not shell:
                self._refuse()
                raise
        self.source = shell.transform_cell(self.source)
        if len(self.source.splitlines()) == 1:  # `pip install …` without its %, as notebooks allow
            self.source = shell.prefilter_manager.prefilter_lines(self.source)
        self.cache_lines()
        return self._tree()

    def _tree(self) -> "Any":
        """Parse the source as `ast.parse` does, without importing `ast`, which takes 2 ms."""
        return compile(self.source, self.name, "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)

    def _refuse(self) -> None:
        for number, line in enumerate(self.source.splitlines(), 1):
            if IPYTHON_LINE.search(line):
                raise NoIPython(
                    "line %d (%s) needs IPython, which the cell's Python does not have: write it "
                    "in plain Python (subprocess.run for a command), or use a Python with IPython"
                    % (number, line.strip())
                )

    def _evaluate(self, codes: "List[types.CodeType]") -> "Any":
        """Run the code objects in order, in one event loop if any of them awaits. Return the last
        value."""
        if any(code.co_flags & CO_COROUTINE for code in codes):
            import asyncio  # 40 ms, for cells that await

            run_async = self.run_async or asyncio.run  # novermin: AWAIT needs Python 3.8
            return run_async(self._await(codes))
        value = None
        for code in codes:
            value = eval(code, self.namespace)
        return value

    async def _await(self, codes: "List[types.CodeType]") -> "Any":
        value = None
        for code in codes:
            value = eval(code, self.namespace)
            if code.co_flags & CO_COROUTINE:
                value = await value
        return value

    def _quiet(self) -> bool:
        """Return whether the cell ends with a semicolon, which hides its value."""
        if ";" not in self.source:
            return False
        import tokenize  # 5 ms

        skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER)
        tokens = tokenize.generate_tokens(io.StringIO(self.source).readline)
        return [token.string for token in tokens if token.type not in skipped][-1] == ";"

    def cache_lines(self) -> None:
        """Make the source available to tracebacks and `inspect.getsource`."""
        linecache = sys.modules.get("linecache")
        if linecache is not None:
            # Split at Python's line ends only; splitlines() would also split at form feeds.
            lines = io.StringIO(self.source, None).readlines()
            linecache.cache[self.name] = (len(self.source), None, lines, self.name)

    def render(self, error: BaseException) -> "List[str]":
        """Return the lines of the traceback, starting at the cell's first frame. IPython formats
        them if it is installed."""
        trace = self.trace(error)
        if import_ipython() and self.publisher.shell is not None:
            lines = self.publisher.shell.render(type(error), error, trace)
            if lines:
                return list(lines)
        import traceback  # for errors

        text = "".join(traceback.format_exception(type(error), error, trace))
        return text.rstrip("\n").split("\n")

    def trace(self, error: BaseException) -> "Any":
        """Return the error's traceback, starting at the cell's first frame."""
        import linecache  # noqa: F401 - fills the cache, by way of the finder

        driven = hide_ours(error)
        trace = error.__traceback__
        while trace is not None and not driven and file_of(trace) != self.name:
            trace = trace.tb_next
        return trace

    def finish(self) -> None:
        """Show the figures that are still open after the cell's last line."""
        shell = self.publisher.shell
        if shell is not None:
            shell.events.trigger("post_execute")
        if "runner_figures" in sys.modules:
            sys.modules["runner_figures"].show()


def hide_ours(error: BaseException) -> bool:
    """Remove our frames from the tracebacks of `error` and of its causes. If `run_file.py` ran the
    code, also remove all frames before it. Return whether it ran the code."""
    driven = False
    known: "List[Any]" = []
    left: "List[Any]" = [error]
    while left:
        one = left.pop()
        if one is None or any(one is other for other in known):
            continue
        known.append(one)
        frames = []
        trace = one.__traceback__
        while trace is not None:
            frames.append(trace)
            if file_of(trace) == RUN_FILE:
                frames, driven = [], True
            trace = trace.tb_next
        frames = [frame for frame in frames if not file_of(frame).startswith(OURS)]
        with contextlib.suppress(AttributeError):  # Python 3.6 cannot
            for at, frame in enumerate(frames):
                frame.tb_next = frames[at + 1] if at + 1 < len(frames) else None
        one.__traceback__ = frames[0] if frames else None
        left += [one.__cause__, one.__context__]
    return driven


def file_of(trace: "Any") -> str:
    return str(trace.tb_frame.f_code.co_filename)


def import_ipython() -> bool:
    """Import IPython, so that the finder sets up a shell. Return False if IPython is not
    installed."""
    try:
        import IPython  # noqa: F401
    except ImportError:
        return False
    return True


def watch_imports(finder: Finder, cell: Cell) -> None:
    """Add hooks to the import of IPython, matplotlib and linecache."""

    def start_shell() -> None:
        import runner_ipython  # imports IPython

        try:
            cell.publisher.shell = runner_ipython.start(cell.publisher, cell.module, cell.name)
        except Exception as error:
            print("jupyter-slurm: cannot set up IPython: %r" % error, file=sys.stderr)

    def choose_backend() -> None:
        parameters = sys.modules["matplotlib"].rcParams
        chosen = dict.get(parameters, "backend")
        inherited = os.environ.get("MPLBACKEND", "").lower()
        # Ignore Agg: images set it because a container does not have a screen, not to hide figures.
        if not isinstance(chosen, str) or chosen.lower() == inherited:
            parameters["backend"] = "module://runner_figures"

    finder.after["IPython"] = start_shell
    finder.before["matplotlib.pyplot"] = choose_backend
    finder.after["linecache"] = cell.cache_lines
    sys.meta_path.insert(0, finder)
    cell.cache_lines()


def load_inputs(job_dir: str, cell: Cell) -> None:
    """Load the variables of --in, and the parameters of a sweep's task."""
    cell.namespace.update(_read(os.path.join(job_dir, "inputs.vars"), None))
    if cell.task is not None:
        own = _read(os.path.join(job_dir, "params.vars"), [cell.task])
        cell.namespace.update(own.get(cell.task, {}))


def _read(path: str, names: "Optional[List[str]]") -> "Dict[str, Any]":
    """Return the variables `names` of the file (None for all); {} if the file does not exist."""
    if not os.path.exists(path):
        return {}
    import runner_values  # 5 ms

    values, failed = runner_values.read(path, names)
    if failed:
        raise VariableError(".\n".join("%s: %s" % item for item in failed.items()))
    return values


def run_cell(
    task: "Dict[str, Any]",
    job_dir: str,
    attempt: str,
    cell: Cell,
    interrupts: runner_process.Interrupts,
) -> "Dict[str, Any]":
    """Run the cell with its variables. Return the `end` record, from which the supervisor makes the
    result."""
    error: "Optional[BaseException]" = None
    lines: "List[str]" = []
    end: "Dict[str, Any]" = {"type": "end", "status": "ok", "ename": None, "evalue": None}
    end["variables"] = None
    try:
        try:
            interrupts.release()
            if cell.check_world is not None:
                check, cell.check_world = cell.check_world, None
                check()
            # Connect a session to the engine only in its first cell. Hide JSLURM_ENGINE from child
            # processes, which may be other jobs.
            engine = os.environ.pop("JSLURM_ENGINE", None)
            if engine is not None:
                import runner_engine  # few jobs have one

                runner_engine.enter(engine, cell.namespace)
            load_inputs(job_dir, cell)
            run_in_parent(cell)
        finally:
            interrupts.armed = False
    except BaseException as caught:
        if not isinstance(caught, SystemExit) or caught.code:
            error, lines = caught, _report(cell, caught)
            end["exit_code"] = runner_process.exit_code(caught)
    try:
        cell.finish()
    except Exception as caught:
        if error is None:
            error, lines = caught, _report(cell, caught)
    if error is not None:
        stopped = isinstance(error, KeyboardInterrupt) and interrupts.first is not None
        end["status"] = "interrupted" if stopped else "error"
        end["ename"], end["evalue"] = name_of(error), text_of(error)
        if "error_out" in task:
            cell.namespace[task["error_out"]] = error
            end.update(_stored(task, job_dir, attempt, cell))
            del cell.namespace[task["error_out"]]  # a session would keep its frames
    else:
        end.update(_stored(task, job_dir, attempt, cell))
    caught_signal = interrupts.first and signal.Signals(interrupts.first).name
    end.update(traceback=lines, interrupted_by=caught_signal, python=list(sys.version_info[:3]))
    return end


def run_in_parent(cell: Cell) -> None:
    """Run the cell. If the cell forked this process, end the process as Python would."""
    pid, forked = os.getpid(), None  # type: int, Optional[BaseException]
    try:
        cell.run()
    except BaseException as error:
        if os.getpid() == pid:
            raise
        forked = error
    if os.getpid() != pid:
        runner_process.end_forked(forked, cell.trace)


def _report(cell: Cell, error: BaseException) -> "List[str]":
    """Show an error in the output. Return the lines of its traceback."""
    if type(error).__module__.startswith("runner_"):  # our own error needs no traceback
        lines = ["%s: %s" % (type(error).__name__, error)]
    elif isinstance(error, SystemExit):  # an intended exit needs no traceback
        lines = ["SystemExit: %s" % text_of(error)]
    else:
        lines = cell.render(error)
    if cell.rank != 0:  # launch.py writes the first failure there
        cell.publisher.error(name_of(error), text_of(error), lines)
    return lines


def name_of(error: BaseException) -> str:
    return "SystemExit" if isinstance(error, SystemExit) else type(error).__name__


def text_of(error: BaseException) -> str:
    try:
        if isinstance(error, SystemExit) and isinstance(error.code, int):
            return "%d" % error.code
        return str(error)
    except Exception:
        return "<an exception whose str() fails>"


def _stored(task: "Dict[str, Any]", job_dir: str, attempt: str, cell: Cell) -> "Dict[str, Any]":
    """Store the variables of --out and --gather. Return the fields of the `end` record."""
    told = {}
    if task.get("names_out") and not cell.rank:
        told["variables"] = _store(task, "names_out", job_dir, "vars." + attempt, cell)
    if task.get("names_gather") and cell.rank is not None:
        file_name = "vars.%s.%d" % (attempt, cell.rank)
        told["gathered"] = _store(task, "names_gather", job_dir, file_name, cell)
    return told


def _store(
    task: "Dict[str, Any]", which: str, job_dir: str, file_name: str, cell: Cell
) -> "Dict[str, Any]":
    import runner_values  # 5 ms

    own_dir = job_dir if cell.task is None else os.path.join(job_dir, "tasks", cell.task)
    names, path = task[which], os.path.join(own_dir, file_name)
    there = [name for name in names if name in cell.namespace]
    failed = {name: "the cell did not set it" for name in names if name not in there}
    told: "Dict[str, Any]" = {"file": None, "bytes": 0, "hmac": None, "names": []}
    told["failed"] = failed
    write = runner_values.write
    if task.get("out_format") == "data":
        import runner_data  # 20 ms

        write = runner_data.write
    try:
        failed.update(write(path, there, cell.namespace))
        told["bytes"] = os.path.getsize(path)
        told["hmac"] = runner_values.sign(path, cell.key or read_key(job_dir))
    except OSError as error:
        failed.update(dict.fromkeys(there, "it cannot be written: %s" % error))
        with contextlib.suppress(OSError):
            os.unlink(path)
    else:
        told["file"] = file_name
        told["names"] = [name for name in there if name not in failed]
    return told


def open_process(pipes: "List[int]", interrupts: "Any") -> runner_display.Publisher:
    """Use the pipes as this process's stdout, stderr and events, and send the `hello` record."""
    turns = runner_process.open_streams(pipes)
    publisher = runner_display.Publisher(pipes[2], turns.wait, interrupts)
    publisher.send(
        {
            "type": "hello",
            "python": list(sys.version_info[:3]),
            "executable": sys.executable or "",
        }
    )
    return publisher


def read_task(job_dir: str) -> "Dict[str, Any]":
    with open(os.path.join(job_dir, "task.json"), encoding="utf-8") as file:
        return dict(json.load(file))


def read_source(job_dir: str) -> str:
    with open(os.path.join(job_dir, "cell.py"), encoding="utf-8", newline="") as file:
        return file.read()


def read_key(job_dir: str) -> bytes:
    with open(os.path.join(job_dir, "key"), "rb") as file:
        return file.read().strip()


def make_main(cell: Cell) -> None:
    """Make the process look like an interpreter that runs only the cell."""
    builtins.display = runner_display.make_display(cell.publisher)  # type: ignore[attr-defined]
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [""] + [part for part in sys.path if part != folder]
    sys.argv = [""]
    sys.modules["__main__"] = cell.module
    watch_imports(Finder(folder), cell)


def run(
    job_dir: str,
    attempt: str,
    pipes: "List[int]",
    rank: "Optional[int]" = None,
    of_sweep: "Optional[str]" = None,
) -> int:
    """Run the cell, and return the exit code. `of_sweep` is the index of a sweep's task."""
    interrupts = runner_process.Interrupts()
    publisher = open_process(pipes, interrupts)
    task = read_task(job_dir)
    cell = Cell(read_source(job_dir), task["cell_name"], publisher)
    cell.take_rank(job_dir, attempt, rank)
    cell.task = of_sweep
    make_main(cell)
    interrupts.hold()  # until `run_cell` can report an interrupt
    interrupts.install()
    publisher.send(run_cell(task, job_dir, attempt, cell, interrupts))
    interrupts.restore()
    return 0
