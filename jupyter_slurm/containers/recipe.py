"""The reader of recipes. A recipe is either a file in a container tool's own form (Dockerfile,
definition file, setup script), or package lines for every tool, which `builders/` translates. No
I/O.

Package lines are commands (`pip install …`, `apt install …`, `conda install …`, also with the `!`
or `%` of a notebook), or lists below `pip:`, `apt:` and `conda:`. A list has one package per line,
as in requirements.txt.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from jupyter_slurm.errors import RequestError


class Kind(StrEnum):
    LINES = "lines"
    DOCKERFILE = "dockerfile"
    DEFINITION = "definition"
    SCRIPT = "script"


_NOUNS = {
    Kind.DOCKERFILE: "a Dockerfile (FROM …)",
    Kind.DEFINITION: "a definition file (Bootstrap: …)",
    Kind.SCRIPT: "a setup script (#!/bin/sh)",
}
_LINES = "`pip install numpy`, `apt install git` or `conda install scipy`"
FORMS = (
    f"Write the container tool's own recipe: {_NOUNS[Kind.DOCKERFILE]}, "
    f"{_NOUNS[Kind.DEFINITION]} or {_NOUNS[Kind.SCRIPT]}. Or write lines for every tool: "
    f"{_LINES}, or lists below `pip:`, `apt:`, `conda:`."
)

_COPIES = {
    Kind.DOCKERFILE: re.compile(
        r"^\s*(?:COPY|ADD)\s+(?!--from=|<<|https?:)|--mount=(?!type=(?:cache|secret|ssh|tmpfs))",
        re.IGNORECASE | re.MULTILINE,
    ),
    Kind.DEFINITION: re.compile(
        r"^\s*%(?:app)?files\b(?!\s+from\b)|^bootstrap:\s*localimage\s+from:\s*[^/\s]",
        re.IGNORECASE | re.MULTILINE,
    ),
}
"""Instructions that copy files from the recipe's folder."""
_COMMAND = re.compile(
    r"[!%]?\s*(?:sudo\s+)?(?:python3?\s+-m\s+)?(pip3?|apt|apt-get|conda|mamba)\s+install\b(.*)"
)
_SECTION = re.compile(r"(pip|apt|conda)\s*:(.*)")
_TOOLS = {"pip3": "pip", "apt-get": "apt", "mamba": "conda"}
_YES = frozenset({"-y", "--yes", "-q", "-qq", "--quiet"})


@dataclass(frozen=True, slots=True)
class Recipe:
    kind: Kind
    text: str
    """The text as written, with Unix line endings."""
    base: str | None
    """The base image as the user named it; None if the text names it."""
    has_files: bool
    """The user pushes a folder of files with the recipe."""

    def digest(self, base: str | None, tool: str, files: str | None = None) -> str:
        """Return 64 hexadecimal digits that are equal for recipes of the same image. `base`: the
        base image as found; `files`: the digest of the recipe's folder."""
        words = [2, tool, self.kind, self.text, base, *([files] if files else [])]
        return hashlib.sha256(json.dumps(words).encode()).hexdigest()

    def commands(self) -> list[list[str]]:
        """Return the sh commands that install the packages, as a list per line. Raise RequestError
        if a line is invalid."""
        return [_install(tool, words) for tool, words in _packages(self.text)]


def read_recipe(
    text: str, base: str | None, reads: Kind, runtime: str, *, pushes: bool = False
) -> Recipe:
    """Read a recipe for a container tool whose native kind is `reads`. `pushes`: the user gave a
    folder. Raise RequestError if the tool cannot read the recipe, or if its base is missing or
    given twice."""
    text = text.replace("\r\n", "\n").strip("\n") + "\n"
    if "\0" in text:
        raise RequestError("The recipe has a NUL character.")
    kind = _kind(text)
    if kind not in (Kind.LINES, reads):
        raise RequestError(
            f"The runtime {runtime} does not read {_NOUNS[kind]}.",
            hint=f"Write {_NOUNS[reads]}, or lines for every container tool with --from IMAGE: "
            f"{_LINES}.",
        )
    names_base = kind in (Kind.DOCKERFILE, Kind.DEFINITION)
    if names_base and base is not None:
        raise RequestError(
            "The recipe already names its base image.",
            hint="Omit --from, or the line that starts with FROM (or Bootstrap:).",
        )
    if not names_base and base is None:
        raise RequestError(
            "The recipe does not name a base image.",
            hint="Name an image, e.g. `--from pytorch:22.11`.",
        )
    if kind is Kind.LINES and not _packages(text):
        raise RequestError("The recipe is empty.", hint=FORMS)
    if kind is Kind.LINES and pushes:
        raise RequestError(
            "Package lines do not use files, so --push has no effect.",
            hint=f"Omit --push, or write {_NOUNS[reads]}.",
        )
    copies = kind in _COPIES and _COPIES[kind].search(text) is not None
    return Recipe(kind, text, base, has_files=pushes or copies)


def _kind(text: str) -> Kind:
    if text.startswith("#!"):
        return Kind.SCRIPT
    for line in text.splitlines():
        word = line.split("#", 1)[0].strip().lower()
        if word.startswith("bootstrap:"):
            return Kind.DEFINITION
        if word.startswith(("from ", "from\t")):
            return Kind.DOCKERFILE
        if word and not word.startswith("arg "):
            break
    return Kind.LINES


def _packages(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the tool and the arguments of each command or list, in order. Raise RequestError if a
    line is invalid."""
    found: list[tuple[str, tuple[str, ...]]] = []
    section: str | None = None
    listed: list[str] = []
    for number, line in enumerate(text.replace("\\\n", " ").splitlines(), 1):
        content = re.sub(r"(^|\s)#.*", "", line).strip()
        if not content:
            continue
        begins = _SECTION.fullmatch(content)
        command = _COMMAND.fullmatch(content)
        if (begins or command) and section is not None:
            found.append((section, tuple(listed)))
            section, listed = None, []
        if begins:
            section, listed = begins[1], _listed(begins[1], begins[2].strip())
        elif command:
            words = tuple(word for word in _split(command[2], number) if word not in _YES)
            found.append((_TOOLS.get(command[1], command[1]), words))
        elif section is not None:
            listed += _listed(section, content.removeprefix("- "))
        else:
            raise RequestError(
                f"Cannot read line {number} of the recipe: {content}",
                hint=FORMS,
            )
    if section is not None:
        found.append((section, tuple(listed)))
    for tool, words in found:
        _check(tool, words)
    return found


def _listed(tool: str, content: str) -> list[str]:
    """Split a line of a package list. For pip, a line is an option or one requirement, which may
    contain blanks; otherwise it is a list of words."""
    if tool == "pip" and not content.startswith("-"):
        return [content] if content else []
    return content.split()


def _split(words: str, number: int) -> list[str]:
    try:
        return shlex.split(words)
    except ValueError as exc:
        raise RequestError(f"Cannot read line {number} of the recipe: {str(exc).lower()}.") from exc


def _check(tool: str, words: Sequence[str]) -> None:
    if not words:
        raise RequestError(f"The recipe installs nothing with {tool}.", hint=FORMS)
    for word, following in zip(words, (*words[1:], ""), strict=True):
        named = following if word in ("-r", "--requirement", "-e", "--editable") else word
        local = named.startswith(("./", "../", "/", "~")) and not named.startswith("//")
        if local or word in ("-r", "--requirement", "-e", "--editable"):
            raise RequestError(
                f"Package lines cannot use the file {named}.",
                hint="List the packages themselves, or write the container tool's own recipe, "
                "which can copy files.",
            )


def _install(tool: str, words: Sequence[str]) -> list[str]:
    packages = shlex.join(words)
    if tool == "apt":
        return [
            "apt-get update",
            f"DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends {packages}",
            "rm -rf /var/lib/apt/lists/*",
        ]
    if tool == "conda":
        return [f"conda install -y {packages}", "conda clean -afy"]
    # Debian's protection of its Python (PEP 668) serves no purpose in an image.
    return [f"PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install --no-cache-dir {packages}"]
