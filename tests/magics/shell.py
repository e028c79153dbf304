"""A real IPython shell for tests, without a kernel. It records output and displays.

It is not IPython's singleton. During a test, `get_ipython` of the front end returns it.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from traitlets.config import Config

from jupyter_slurm.magics import extension
from jupyter_slurm.magics.state import MagicsState
from jupyter_slurm.views.table import Table


@dataclass
class Shown:
    """A display, or an update of a display."""

    data: dict[str, Any]
    display_id: str | None
    update: bool


class KeepingPublisher(DisplayPublisher):
    """Display publisher that records displays instead of printing them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]
        self.shown: list[Shown] = []
        self.cleared: list[bool] = []

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **_):  # type: ignore[no-untyped-def]
        self.shown.append(Shown(data, (transient or {}).get("display_id"), update))

    def clear_output(self, wait: bool = False) -> None:
        self.cleared.append(wait)


@dataclass
class Ran:
    """The outcome of a cell."""

    outcome: ExecutionResult
    out: str
    err: str
    shown: list[Shown] = field(default_factory=list)

    @property
    def error(self) -> BaseException | None:
        raised = self.outcome.error_before_exec or self.outcome.error_in_exec
        assert raised is None or isinstance(raised, BaseException)
        return raised

    def last(self, display_id: str) -> Shown:
        return [one for one in self.shown if one.display_id == display_id][-1]


class Shell:
    """A shell. `state` is the state of the magics."""

    def __init__(self, ip: InteractiveShell) -> None:
        self.ip = ip

    @property
    def state(self) -> MagicsState:
        state = self.ip.magics_manager.registry["SlurmMagics"].state
        assert isinstance(state, MagicsState)
        return state

    def run(self, cell: str) -> Ran:
        publisher = self.ip.display_pub
        assert isinstance(publisher, KeepingPublisher)
        publisher.shown = []
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            outcome = self.ip.run_cell(cell)
        return Ran(outcome, out.getvalue(), err.getvalue(), publisher.shown)

    def table(self, line: str) -> Table:
        shown = self.run(line).outcome.result
        assert isinstance(shown, Table)
        return shown


def make_shell(monkeypatch: pytest.MonkeyPatch, *, notebook: bool) -> Iterator[Shell]:
    """With `notebook`, behave like a front end with updatable displays."""
    # IPython collects garbage when a shell ends. Limit this to the objects of this shell.
    gc.freeze()
    ip = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    ip.display_pub = KeepingPublisher(shell=ip)
    ip.colors = "nocolor"
    if notebook:
        ip.kernel = object()  # type: ignore[attr-defined]
    monkeypatch.setattr(InteractiveShell, "_instance", ip)
    # A doctest leaves a display hook, and IPython then sets none.
    monkeypatch.delattr("builtins._", raising=False)
    extension.load(ip)
    yield Shell(ip)
    extension.unload(ip)
    atexit.unregister(ip.atexit_operations)
    ip.atexit_operations()
