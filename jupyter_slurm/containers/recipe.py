"""The text of a cell for an image: lines of packages, a Dockerfile, an Apptainer definition or a
setup script -> a `Recipe`. Pure; nothing of a tool here, see `making/`.

Lines are commands that users type: `pip install …`, `apt install …`, `conda install …`, also with
the `!` or `%` of a notebook in front; or lists below `pip:`, `apt:` and `conda:`, in which a line
is a package as in requirements.txt.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from jupyter_slurm.containers import definition, dockerfile
from jupyter_slurm.containers.beside import Source
from jupyter_slurm.containers.steps import Run, Step
from jupyter_slurm.errors import RequestError


class Kind(StrEnum):
    LINES = "lines"
    DOCKERFILE = "dockerfile"
    DEFINITION = "definition"
    SCRIPT = "script"


FORMS = (
    "A recipe is lines such as `pip install numpy`, `apt install git` or `conda install scipy`; "
    "lists below `pip:`, `apt:`, `conda:`; a Dockerfile (FROM …); an Apptainer definition "
    "(Bootstrap: …); or a setup script (#!/bin/sh)."
)

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
    """The text as written, with line ends as on Unix."""
    base: str | None
    """The base image, as users name it; None: the text alone names it."""

    def digest(self, base: str | None, tool: str, files: str | None = None) -> str:
        """Return 64 hexadecimal digits, equal for recipes of the same image. `base` is the base
        image that was found, `files` the digest of the files that `sources` names."""
        words = [1, tool, self.kind, self.text, base, *([files] if files else [])]
        return hashlib.sha256(json.dumps(words).encode()).hexdigest()

    def sources(self) -> list[Source]:
        """Return the files beside the recipe that it takes along. RequestError."""
        if self.kind is Kind.DOCKERFILE:
            return dockerfile.sources(self.text)
        return definition.sources(self.text) if self.kind is Kind.DEFINITION else []

    def base_line(self) -> str | None:
        """Return the line that names the base image; None: there is none, or one of several."""
        if self.kind is Kind.DOCKERFILE:
            return None if self.base is None else f"FROM {self.base}"
        return definition.base_line(self.text) if self.kind is Kind.DEFINITION else None

    def steps(self) -> list[Step]:
        """Return the steps on the base. RequestError: the recipe has no such steps. Not for a
        definition, nor for a script."""
        if self.kind is Kind.DOCKERFILE:
            return dockerfile.steps(self.text)
        return [*self.commands()]

    def commands(self) -> list[Run]:
        """Return what installs the packages of lines. RequestError."""
        return [
            Run(_install(tool, words), f"{tool} install {shlex.join(words)}")
            for tool, words in _packages(self.text)
        ]


def read_recipe(text: str, base: str | None) -> Recipe:
    """Read a recipe. RequestError: it is not one; or its base is missing, or given twice."""
    text = text.replace("\r\n", "\n").strip("\n") + "\n"
    if "\0" in text:
        raise RequestError("There is a NUL character in the recipe.")
    kind = _kind(text)
    if kind in (Kind.DOCKERFILE, Kind.DEFINITION):
        if base is not None:
            raise RequestError(
                "This recipe names its base itself, so --from cannot.",
                hint="Leave --from off, or the line that begins with FROM (or Bootstrap:).",
            )
        return Recipe(kind, text, dockerfile.base(text) if kind is Kind.DOCKERFILE else None)
    if base is None:
        raise RequestError(
            "What image is this to be made from?", hint="Say --from IMAGE: --from pytorch:22.11."
        )
    if kind is Kind.LINES and not _packages(text):
        raise RequestError("The recipe is empty.", hint=FORMS)
    return Recipe(kind, text, base)


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
    """Return a pair of a tool and its words for each command, in order."""
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
                "Line {number} of the recipe is not understood: {content}",
                hint=FORMS,
                number=number,
                content=content,
            )
    if section is not None:
        found.append((section, tuple(listed)))
    for tool, words in found:
        _check(tool, words)
    return found


def _listed(tool: str, content: str) -> list[str]:
    """Split a line of a list: for pip one requirement, blanks and all, or an option; else words."""
    if tool == "pip" and not content.startswith("-"):
        return [content] if content else []
    return content.split()


def _split(words: str, number: int) -> list[str]:
    try:
        return shlex.split(words)
    except ValueError as exc:
        raise RequestError(
            "Line {number} of the recipe cannot be split into words: {exc}.",
            number=number,
            exc=str(exc).lower(),
        ) from exc


def _check(tool: str, words: Sequence[str]) -> None:
    if not words:
        raise RequestError("The recipe installs nothing with {tool}.", hint=FORMS, tool=tool)
    for word, following in zip(words, (*words[1:], ""), strict=True):
        named = following if word in ("-r", "--requirement", "-e", "--editable") else word
        local = named.startswith(("./", "../", "/", "~")) and not named.startswith("//")
        if local or word in ("-r", "--requirement", "-e", "--editable"):
            raise RequestError(
                "The recipe names a file, {named}, and lines of packages take none along.",
                hint="Write the packages themselves into the recipe, or a Dockerfile: COPY takes "
                "a file along.",
                named=named,
            )


def _install(tool: str, words: Sequence[str]) -> str:
    """Return POSIX sh that installs the packages."""
    packages = shlex.join(words)
    if tool == "apt":
        return (
            "export DEBIAN_FRONTEND=noninteractive; apt-get update "
            f"&& apt-get install -y --no-install-recommends {packages} "
            "&& rm -rf /var/lib/apt/lists/*"
        )
    if tool == "conda":
        return f"conda install -y {packages} && conda clean -afy"
    # An image is nobody's system, so Debian's mark on its Python (PEP 668) does not matter.
    return f"PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install --no-cache-dir {packages}"
