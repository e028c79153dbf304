"""A shell on a terminal: typed lines and their output."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pexpect

PATIENCE_S = 60
SLEEPS = "sh -c \"echo sle''eps; exec sleep 1000\""
"""A program that reports when it controls the terminal."""


def spawned(
    argv: Sequence[str], *, env: dict[str, str] | None = None, cwd: Path | None = None
) -> pexpect.spawn:
    """Run `argv` in a terminal of 30 rows and 100 columns."""
    return pexpect.spawn(
        argv[0],
        list(argv[1:]),
        env={**os.environ, "TERM": "dumb", "LANG": "C.UTF-8", **(env or {})},
        cwd=None if cwd is None else str(cwd),
        encoding="utf-8",
        timeout=PATIENCE_S,
        dimensions=(30, 100),
    )


def prompted(terminal: pexpect.spawn) -> None:
    """Wait for the shell's prompt, and turn off its echo."""
    terminal.expect("[#$>] ")  # Apptainer's own prompt ends with >
    # A shell warns about a locale that its image lacks, and repeats this after each change of size.
    terminal.sendline("export LC_ALL=C.UTF-8; PS1='ready''> '; stty -echo; echo be''gun")
    terminal.expect("begun\r\n")
    terminal.expect("ready> ")


def answered(terminal: pexpect.spawn, line: str, answer: str) -> None:
    terminal.sendline(line)
    terminal.expect_exact(answer)
    terminal.expect("ready> ")


def answer(terminal: pexpect.spawn, line: str) -> str:
    """Return the shell's output for the line."""
    terminal.sendline(line)
    terminal.expect("ready> ")
    return str(terminal.before)


def end(terminal: pexpect.spawn) -> int:
    """Wait for the shell's end, and return the exit status."""
    terminal.expect(pexpect.EOF)
    terminal.wait()
    assert terminal.exitstatus is not None
    return int(terminal.exitstatus)


def close(terminal: pexpect.spawn) -> None:
    """Close the terminal as if its window were closed, and wait for the program's end."""
    terminal.ptyproc.fileobj.close()
    terminal.ptyproc.wait()
