"""A cluster whose texts are escape sequences, which must not reach the terminal."""

from __future__ import annotations

import inspect
import io
import json
import re
import sys
import types
import typing
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jupyter_slurm.api import Api
from jupyter_slurm.cli import main
from jupyter_slurm.cli.follow import print_text
from jupyter_slurm.cli.terminal import Terminal
from jupyter_slurm.errors import (
    CommandError,
    JupyterSlurmError,
)
from jupyter_slurm.wire import (
    ErrorOutput,
    Job,
    JobState,
    LogChunk,
    Stream,
    TransferState,
)

SAYS = "a\x1b]0;title\x07\x1b]52;c;cm0gLXJm\x07b\x9b2Jc\u202ed\r\x1b[5nz"
"""Escape sequences that set the title or the clipboard, clear the screen with one C1 byte, reverse
text, or make the terminal type an answer."""
STEERING = re.compile(r"[^\x20-\x7e\n\u00a0-\U0010ffff]|[\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


def made(kind: Any, state: JobState) -> Any:
    """Return a value of type `kind` in which every text is `SAYS`."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return made(next(one for one in args if one is not type(None)), state)
    if origin is typing.Literal:
        return args[0]
    if origin is tuple:
        one = made(args[0], state)
        return (one,) if args[-1] is ... else tuple(made(arg, state) for arg in args)
    if origin is list:
        return [made(args[0], state)]
    if origin in (dict, Mapping):
        return {SAYS: made(args[1], state)}
    if kind is JobState:
        return state
    if kind is TransferState:
        return kind.FAILED
    if kind is str or kind is Any:
        return SAYS
    if issubclass(kind, Enum):
        return next(iter(kind))
    if issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind)
        known = {name: made(hints[name], state) for name in kind.__struct_fields__}
        return kind(**known | ({"problem": None} if kind.__name__ == "Connection" else {}))
    return kind(1)


class HostileApi:
    """Stand-in for Api. It answers calls with a value from `made`, and calls in `refused` with a
    hostile error."""

    def __init__(self, state: JobState, *refused: str) -> None:
        self._state = state
        self._refused = refused

    def __getattr__(self, name: str) -> Any:
        gives = typing.get_type_hints(getattr(Api, name)).get("return")

        def call(*_: object, **__: object) -> Any:
            if name in self._refused:
                raise CommandError(SAYS, hint=SAYS, detail=f"{SAYS}\n{SAYS}")
            if gives is LogChunk:
                return LogChunk(outputs=(), cursor="", job=made(Job, self._state), end=True)
            return None if gives is type(None) else made(gives, self._state)

        return call


COMMANDS = [
    "clusters", "doctor", "jobs", "queue", "info", "connections", "tunnels", "why aaaaaaaa",
    "cancel aaaaaaaa", "forget aaaaaaaa", "logs aaaaaaaa", "image ls", "lab ls",
    "lab stop aaaaaaaa", "session ls", "session stop", "jobs --json", "disconnect", "login",
    "submit --dry-run x.py", "tunnel aaaaaaaa:1", "kernel ls", "image rm x", "attach aaaaaaaa",
    "push . far:x", "pull far:x .", "image build x x.def", "session start",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_do_not_print_escape_sequences(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("secret\n"))
    Path("x.py").write_text("")
    Path("x.def").write_text("FROM python:3.12\nRUN true\n")
    names = [name for name, member in vars(Api).items() if inspect.isfunction(member)]
    for refused in ((), names):
        with suppress(SystemExit):
            main(command.split(), lambda told=refused: HostileApi(JobState.FAILED, *told))  # type: ignore[misc]
        for text in capsys.readouterr():
            assert STEERING.search(text.replace("\x1b[K", "").replace("\r", "")) is None, text


def test_json_output_keeps_the_original_text(capsys: pytest.CaptureFixture[str]) -> None:
    main(["jobs", "--json"], lambda: HostileApi(JobState.FAILED))
    assert json.loads(capsys.readouterr().out)[0]["name"] == SAYS


def test_errors_do_not_contain_escape_sequences() -> None:
    raised = JupyterSlurmError(SAYS, hint=SAYS, detail=f"{SAYS}\n{SAYS}")
    assert STEERING.search(str(raised)) is None
    assert len(str(raised).split("\n")) == 4
    assert STEERING.search("\n".join(raised._render_traceback_())) is None
    assert raised.problem().detail == f"{SAYS}\n{SAYS}"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


COLOURED = f"\x1b[1;31mred\x1b[0m\r 50%|█ \x1b[A\x1b[K{SAYS}"


def test_job_output_on_a_terminal_allows_only_colours_and_progress_bars() -> None:
    out, err = Screen(), Screen()
    terminal = Terminal(out, err)
    for at in range(len(COLOURED)):  # cut at every position
        terminal.output(Stream(name="stdout", text=COLOURED[at]))
    terminal.output(ErrorOutput(ename="E", evalue=SAYS, traceback=(f"\x1b[31mE\x1b[0m: {SAYS}",)))
    terminal.note(SAYS)
    assert "\x1b[1;31mred\x1b[0m\r 50%|█ \x1b[A\x1b[K" in out.getvalue()
    allowed = r"\x1b\[(?:[0-9;]*m|A|K)|\r"
    for screen in (out, err):
        assert STEERING.search(re.sub(allowed, "", screen.getvalue())) is None


def test_job_output_is_written_to_files_unchanged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = HostileApi(JobState.COMPLETED)
    chunk = LogChunk(
        outputs=(Stream(name="stdout", text=SAYS),),
        cursor="",
        job=made(Job, JobState.COMPLETED),
        end=True,
    )
    monkeypatch.setattr(api, "logs", lambda *_, **__: chunk, raising=False)
    print_text(typing.cast("Api", api), made(Job, JobState.COMPLETED))
    assert capsys.readouterr().out == SAYS
