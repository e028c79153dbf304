"""A writer of a job's output to stdout and stderr, and of its state to stderr.

On a terminal, changes update a single line. Otherwise each change is a new line.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from typing import Any, TextIO

from jupyter_slurm.commands.parsing import in_words_of_a_terminal
from jupyter_slurm.formatting import Coloured, cut, moment, visible, visible_lines, width
from jupyter_slurm.job import error_text
from jupyter_slurm.views import card
from jupyter_slurm.views.transfer_card import progress_text
from jupyter_slurm.wire import (
    DisplayData,
    ErrorOutput,
    ExecuteResult,
    Job,
    JobState,
    Output,
    Stream,
)

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CLEAR_LINE = "\r\x1b[K"


def writer(stream: TextIO) -> Callable[[str], None]:
    """Return a function that writes output to `stream`. A file or pipe gets the output unchanged,
    and a terminal gets it through `Coloured`."""
    shown = Coloured().feed if stream.isatty() else str
    # A lone surrogate cannot be encoded.
    encoding = stream.encoding or "utf-8"

    def write(text: str) -> None:
        stream.write(shown(text).encode(encoding, "replace").decode(encoding))
        stream.flush()

    return write


class Terminal:
    """A writer to `stdout` and `stderr`. Both may be terminals."""

    def __init__(self, stdout: TextIO, stderr: TextIO) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self._write_to = {stream: writer(stream) for stream in (stdout, stderr)}
        self.live = stderr.isatty() and os.environ.get("TERM") != "dumb"
        """Set to update the status line in place, including its clock."""
        self._colours = stderr.isatty() and not os.environ.get("NO_COLOR")
        self._line = ""
        self._said: tuple[JobState, str | None, str | None] | None = None
        self._warned: str | None = None
        self._midline = False

    def output(self, output: Output) -> None:
        """Write one piece of the job's output."""
        match output:
            case Stream():
                self._write(self._stderr if output.name == "stderr" else self._stdout, output.text)
            case DisplayData() | ExecuteResult():
                self._write(self._stdout, _as_text(output.data) + "\n")
            case ErrorOutput():
                text = error_text(output)
                self._write(self._stderr, text if self._colours else _ANSI.sub("", text))

    def progress(self, job: Job) -> None:
        """Show the job's state and warning, once each."""
        if job.warning is not None and job.warning != self._warned:
            self.note(job.warning)
            self._warned = job.warning
        if job.state.final:
            return
        problem = job.problem.message if job.problem else None
        news = (job.state, job.why, problem)
        if self.live and job.problem and (self._said is None or problem != self._said[2]):
            self.note(card.told_problem(job.problem))  # too long for the status line
        if self.live and job.started_s is None:
            self._rewrite(_headline(job))
        elif news != self._said:
            self.note(_headline(job))
        self._said = news

    def status(self, text: str) -> None:
        """Show a status line, if possible. The next text replaces it."""
        self._rewrite(visible(in_words_of_a_terminal(text)))

    def note(self, text: str) -> None:
        """Write a message to stderr on its own line, with commands in the form for a terminal."""
        said = visible_lines(in_words_of_a_terminal(text.rstrip("\n")))
        self._write(self._stderr, ("\n" if self._midline else "") + said + "\n")

    def close(self) -> None:
        """Clear the status line."""
        self._rewrite("")

    def _write(self, stream: TextIO, text: str) -> None:
        if not text:
            return
        self._rewrite("")
        self._write_to[stream](text)
        self._midline = not text.endswith("\n")

    def _rewrite(self, line: str) -> None:
        if not self.live or line == self._line or self._midline:
            return
        columns = shutil.get_terminal_size().columns - 1
        # A notebook cell with `!jupyter slurm …` can overwrite a line but not clear it.
        blank = " " * min(width(self._line), columns)
        self._stderr.write(f"{_CLEAR_LINE}{blank}\r{cut(line, columns)}")
        self._stderr.flush()
        self._line = line


def _headline(job: Job) -> str:
    now_s = time.time()
    headline = card.headline(job, now_s)
    if job.transfer is not None:
        headline = f"pushing, {progress_text(job.transfer, now_s)}"
    parts = [f"{card.symbol(job.state)} {card.title(job)}: {headline}"]
    if job.why:
        parts.append(job.why)
    if job.start_estimate_s and job.started_s is None:
        parts.append(f"starts about {moment(job.start_estimate_s, now_s)}")
    if job.nodes:
        parts.append(f"on {', '.join(job.nodes)}")
    if job.problem:
        parts.append(card.told_problem(job.problem))
    return visible(" · ".join(parts))


def _as_text(data: dict[str, Any]) -> str:
    text = data.get("text/plain")
    if text is not None:
        return str(text)
    return f"[{', '.join(data)}: shown in a notebook]"
