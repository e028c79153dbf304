"""Read a Dockerfile: its base, the files beside it that it takes along, and its steps, for tools
that know no Dockerfile. Pure.

As steps this understands FROM, RUN, COPY, ENV, ARG, WORKDIR, ENTRYPOINT and CMD, leaves out
instructions that are about services (EXPOSE, VOLUME …), and refuses all others.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from jupyter_slurm.containers.beside import Source
from jupyter_slurm.containers.steps import Copy, Enter, Program, Run, Set, Step
from jupyter_slurm.errors import RequestError
from jupyter_slurm.readable import brief

_UNHEEDED = frozenset("EXPOSE HEALTHCHECK LABEL MAINTAINER STOPSIGNAL USER VOLUME".split())
_KNOWN = _UNHEEDED | frozenset(
    "ADD ARG CMD COPY ENTRYPOINT ENV FROM ONBUILD RSYNC RUN SHELL WORKDIR".split()
)
_FROM = re.compile(r"^([ \t]*FROM[ \t]+(?:--\S+[ \t]+)*)(\S+)", re.MULTILINE | re.IGNORECASE)
_STAGE = re.compile(r"\S+[ \t]+AS[ \t]+(\S+)", re.IGNORECASE)
_COPIED = re.compile(r"--from=(\S+)")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*")
_HERE = re.compile(r"""(?<!<)<<-?["']?([A-Za-z_][A-Za-z0-9_]*)["']?""")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PAIR = re.compile(r"""([A-Za-z_][A-Za-z0-9_]*)=((?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s"'\\])*)""")
_TOO_CLEVER = re.compile(r"`|\$\(|[;&|<>()\n]")
_OPTION = re.compile(r"--\S+\s+")
_REMOTE = re.compile(r"(?:https?|ftp|git|ssh)://|git@|<<")
"""Begins a source that the builder fetches, or that stands in the recipe itself."""
_ARCHIVE = re.compile(r"\.(?:tar(?:\.\w+)?|tgz|tbz2?|txz|tzst)\Z")
_PATTERN = re.compile(r"[*?\[\\]")


@dataclass(frozen=True, slots=True)
class Instruction:
    word: str
    rest: str
    number: int
    """The line on which it begins."""


def base(text: str) -> str | None:
    """Return the image of the first FROM, as written there; None: it contains variables, or is
    `scratch`. RequestError: there is no FROM."""
    found = _FROM.search(text)
    if found is None:
        raise RequestError("The Dockerfile has no FROM.", hint="Begin it with FROM IMAGE.")
    return None if "$" in found[2] or found[2] == "scratch" else found[2]


def images(text: str) -> list[str]:
    """Return the images that a builder fetches, as written, without those that have variables."""
    found: dict[str, None] = {}
    stages = {"scratch"}
    for one in _instructions(text):
        word, rest = one.word, one.rest
        named = re.sub(r"^(?:--\S+[ \t]+)*", "", rest) if word == "FROM" else ""
        copied = _COPIED.findall(rest) if word == "COPY" else []
        for image in [*named.split()[:1], *copied]:
            # A stage has a number, too.
            if _IMAGE.fullmatch(image) and image.lower() not in stages and not image.isdigit():
                found[image] = None
        stages |= {stage.lower() for stage in _STAGE.findall(named)}
    return list(found)


def with_base(text: str, image: str | None) -> str:
    """Return the Dockerfile with another base image; None: its own."""
    return text if image is None else _FROM.sub(lambda found: found[1] + image, text, count=1)


def beginning_with(text: str, instruction: str) -> str:
    """Return the Dockerfile with that instruction first in each stage."""
    lines: list[str] = []
    ends: list[str] = []
    word = ""
    for line in text.split("\n"):
        lines.append(line)
        if ends:  # the text of a here-document
            if line.lstrip("\t") == ends[0]:
                ends.pop(0)
        elif not line.strip() or line.lstrip().startswith("#"):
            continue
        else:
            word = word or line.split()[0].upper()
            if line.rstrip().endswith("\\"):
                continue
            ends = _HERE.findall(line) if word in ("RUN", "COPY", "ADD") else []
            if word == "FROM":
                lines.append(instruction)
            word = ""
    return "\n".join(lines)


def with_copies(text: str) -> str:
    """Return the Dockerfile with COPY in the place of ADD, which is the same for plain files.
    RequestError: ADD is to fetch or unpack something."""
    lines = text.split("\n")
    for one in _instructions(text):
        if one.word != "ADD":
            continue
        if any(_REMOTE.match(path) or _ARCHIVE.search(path) for path in _words(one)[:-1]):
            raise RequestError(
                "Line {number} of the recipe, `{line}`: this cluster's container tool fetches and "
                "unpacks nothing for ADD.",
                hint="Fetch it or unpack it with RUN.",
                number=one.number,
                line=f"{one.word} {one.rest}",
            )
        at = one.number - 1
        lines[at] = re.sub(r"^(\s*)ADD\b", r"\1COPY", lines[at], flags=re.IGNORECASE)
    return "\n".join(lines)


def check(text: str) -> None:
    """Raise RequestError for an instruction that there is not. A builder would count the line from
    the instructions that are added to it."""
    for one in _instructions(text):
        if one.word not in _KNOWN:
            raise RequestError(
                "Line {number} of the recipe, `{line}`: {word} is not an instruction.",
                hint="Those of a Dockerfile are {known}.",
                number=one.number,
                line=brief(f"{one.word} {one.rest}"),
                word=one.word,
                known=", ".join(sorted(_KNOWN)),
            )


def sources(text: str) -> list[Source]:
    """Return what COPY and ADD take from the folder beside the Dockerfile. RequestError: the words
    of one cannot be told apart."""
    found: list[Source] = []
    for one in _instructions(text):
        if one.word not in ("COPY", "ADD") or _COPIED.search(_options(one)):
            continue
        line = f"{one.word} {one.rest}"
        paths = [path for path in _words(one)[:-1] if not _REMOTE.match(path)]
        if any("$" in path for path in paths):
            raise RequestError(
                "Line {number} of the recipe, `{line}`: a file that is taken along cannot be named "
                "by a variable.",
                hint="Write its name.",
                number=one.number,
                line=line,
            )
        found += [Source(path, one.number, line) for path in paths]
    return found


def steps(text: str) -> list[Step]:
    """Return the steps after FROM. RequestError names an instruction that is not a step."""
    found: list[Step] = []
    begun = 0
    for one in _instructions(text):
        word, rest = one.word, one.rest
        match word:
            case "FROM":
                begun += 1
                if begun > 1 or "$" in rest or rest == "scratch":
                    raise _refused(f"FROM {rest}")
            case "RUN":
                found.append(Run(_command(rest), f"RUN {brief(rest)}"))
            case "COPY" | "ADD":
                found.append(_copy(one))
            case "ENV" | "ARG":
                found += _variables(word, rest)
            case "WORKDIR":
                found.append(Enter(_folder(rest, f"WORKDIR {rest}")))
            case "ENTRYPOINT" | "CMD":
                found.append(Program(_program(rest), word == "ENTRYPOINT"))
            case _ if word not in _UNHEEDED:
                raise _refused(f"{word} {rest}")
    return found


def _instructions(text: str) -> Iterator[Instruction]:
    """Return the instructions, without remarks and the texts of here-documents."""
    lines = enumerate(text.split("\n"), 1)
    for number, line in lines:
        parts: list[str] = []
        following: tuple[int, str] | None = (number, line)
        while following is not None:
            part = following[1]
            goes_on = bool(parts)
            if part.strip() and not part.lstrip().startswith("#"):
                goes_on = part.rstrip().endswith("\\")
                parts.append(part.rstrip().removesuffix("\\") if goes_on else part)
            following = next(lines, None) if goes_on else None
        word, _, rest = " ".join(parts).strip().partition(" ")
        if not word:
            continue
        yield Instruction(word.upper(), rest.strip(), number)
        ends = _HERE.findall(rest) if word.upper() in ("RUN", "COPY", "ADD") else []
        while ends and (body := next(lines, None)) is not None:
            if body[1].lstrip("\t") == ends[0]:
                ends.pop(0)


def _options(copy: Instruction) -> str:
    """Return the options of COPY or ADD, with the blanks behind them."""
    end = 0
    while option := _OPTION.match(copy.rest, end):
        end = option.end()
    return copy.rest[:end]


def _words(copy: Instruction) -> list[str]:
    """Return the sources of COPY or ADD, and its target last, without its options."""
    rest = copy.rest.removeprefix(_options(copy))
    words: list[str] = rest.split()
    if rest.startswith("["):
        try:
            words = [str(word) for word in json.loads(rest)]
        except ValueError:
            words = rest.split()
    elif not rest.startswith("<<"):
        words = [re.sub(r"""^(["'])(.*)\1$""", r"\2", word) for word in words]
    if len(words) < 2 and not rest.startswith("<<"):
        raise RequestError(
            "Line {number} of the recipe, `{line}`: a file or its place in the image is missing.",
            hint="Name both: COPY requirements.txt /tmp/",
            number=copy.number,
            line=f"{copy.word} {copy.rest}",
        )
    return words


def _copy(one: Instruction) -> Copy:
    line = f"{one.word} {one.rest}"
    *paths, target = _words(one)
    unlike = _options(one) or any(_PATTERN.search(path) or _REMOTE.match(path) for path in paths)
    if unlike or (one.word == "ADD" and any(map(_ARCHIVE.search, paths))):
        raise _refused(line)
    return Copy(tuple(paths), _folder(target, line))


def _folder(word: str, line: str) -> str:
    """Return a path in the image as a word of POSIX sh."""
    if _TOO_CLEVER.search(word):
        raise _refused(line)
    return word if "$" in word else shlex.quote(word)


def _command(rest: str) -> str:
    if rest.startswith("--") or _HERE.search(rest):
        raise _refused(f"RUN {rest}")
    if rest.startswith("["):
        try:
            words = json.loads(rest)
        except ValueError:
            return rest
        return shlex.join(map(str, words))
    return rest


def _program(rest: str) -> tuple[str, ...]:
    """Return the words of ENTRYPOINT or CMD: a list in JSON, else a line for a shell."""
    if rest.startswith("["):
        with suppress(ValueError):
            return tuple(map(str, json.loads(rest)))
    return ("/bin/sh", "-c", rest)


def _variables(word: str, rest: str) -> list[Step]:
    kept = word == "ENV"
    name, _, value = rest.partition(" ")
    if kept and _NAME.fullmatch(name):  # the old form: ENV NAME a value with blanks
        pairs = [(name, f'"{value.strip()}"' if "$" in value else shlex.quote(value.strip()))]
    elif not kept and _NAME.fullmatch(rest):
        return []
    else:
        pairs = _PAIR.findall(rest)
        if _PAIR.sub("", rest).strip() or not pairs:
            raise _refused(f"{word} {rest}")
    for _, value in pairs:
        if _TOO_CLEVER.search(re.sub(r"'[^']*'", "", value)):
            raise _refused(f"{word} {rest}")
    return [Set(name, value, kept) for name, value in pairs]


def _refused(line: str) -> RequestError:
    return RequestError(
        "This cluster's container tool takes no Dockerfiles, and `{line}` cannot "
        "be translated for it.",
        hint="FROM, RUN, ENV, ARG, WORKDIR, and COPY without options and patterns can; or write a "
        "setup script (#!…) with --from.",
        line=line,
    )
