"""Read an Apptainer definition: the files beside it that it takes along. Pure.

These are the sources in `%files` and `%appfiles`, but not those of another stage, and the image of
`Bootstrap: localimage` where its path is relative. Apptainer looks for all of them from the folder
in which it builds.
"""

from __future__ import annotations

import re
import shlex

from jupyter_slurm.containers.beside import Source
from jupyter_slurm.errors import RequestError

_HEAD = re.compile(r"([a-z]+)\s*:\s*(.*)", re.IGNORECASE)


def sources(text: str) -> list[Source]:
    """Return the files. RequestError: a line cannot be split into words."""
    found: list[Source] = []
    section, bootstrap = "", ""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.strip()
        head = _HEAD.fullmatch(words)
        if line.startswith("%"):
            section = _section(words)
        elif head and head[1].lower() == "bootstrap" and line[:1] not in " \t":
            section, bootstrap = "", head[2].strip().lower()
        elif section == "" and head and head[1].lower() == "from" and bootstrap == "localimage":
            if not head[2].startswith("/"):
                found.append(Source(head[2].strip(), number, words))
        elif section == "files" and words and not words.startswith("#"):
            found.append(Source(_first(words, number), number, words))
    return found


def base_line(text: str) -> str | None:
    """Return the line that names the base image; None: there is none, or one for each stage."""
    lines = [line.strip() for line in text.splitlines() if re.match("(?i)from *:", line)]
    return lines[0] if len(lines) == 1 else None


def _section(line: str) -> str:
    name, *rest = line[1:].lower().split() or [""]
    if name == "appfiles" or (name == "files" and rest[:1] != ["from"]):
        return "files"
    return "other"


def _first(line: str, number: int) -> str:
    try:
        return shlex.split(line)[0]
    except ValueError as exc:
        raise RequestError(
            "Line {number} of the recipe cannot be split into words: {exc}.",
            number=number,
            exc=str(exc).lower(),
        ) from exc
