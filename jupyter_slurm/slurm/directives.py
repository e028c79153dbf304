"""The `#SBATCH` lines of a batch script, as sbatch reads them (src/sbatch/opt.c, all releases)."""

import string
from collections.abc import Iterator
from contextlib import suppress

from .options import OptionError, parse_options

_SBATCH = "#SBATCH"


def read_directives(script: str) -> dict[str, str]:
    """Return the values of the script's own options by long name. Of repeated options, the last one
    wins. Skip unknown options, because sbatch gets the script unchanged and reports them.

    >>> read_directives("#!/bin/sh\\n#SBATCH -J 'a b' --time=1 # why\\ntrue\\n#SBATCH --hold\\n")
    {'job-name': 'a b', 'time': '00:01:00'}
    """
    found: dict[str, str] = {}
    for line in _header(script):
        if line.startswith(_SBATCH):
            with suppress(OptionError):
                found |= parse_options(list(_words(line.removeprefix(_SBATCH))))
    return found


def has_directives(script: str) -> bool:
    """Return whether sbatch would find options in the script."""
    return any(line.startswith(_SBATCH) for line in _header(script))


def ignored_directive(script: str) -> str | None:
    """Return the first `#SBATCH` line that sbatch ignores because a command precedes it.

    Skip here-documents and quoted scripts, because their lines belong to another job.
    """
    lines = script.split("\n")
    for line in lines[len(list(_header(script))) :]:
        if line.startswith(_SBATCH):
            return line
        if "<<" in line or "#!" in line:
            return None
    return None


def _header(script: str) -> Iterator[str]:
    """Yield the lines before the first command, where sbatch stops reading."""
    for line in script.split("\n"):
        if line.strip() and not line.lstrip().startswith("#"):
            return
        yield line


def _words(line: str) -> Iterator[str]:
    """Split a line as get_argument() does. Unlike in a shell, a backslash counts within quotes too,
    and a bare `#` anywhere ends the line. (Before 24.05, a backslash outside quotes does not
    protect a blank.)"""
    word, quote, escaped = "", "", False
    for char in line + " ":
        if escaped:
            word, escaped = word + char, False
        elif char == "\\":
            escaped = True
        elif quote:
            word, quote = (word, "") if char == quote else (word + char, quote)
        elif char in "\"'":
            quote = char
        elif char in string.whitespace:
            if word:
                yield word
            word = ""
        elif char == "#":
            break
        else:
            word += char
    if word:
        yield word
