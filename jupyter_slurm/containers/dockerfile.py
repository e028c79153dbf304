"""A simple Dockerfile, read: its base and its steps, for tools that know no Dockerfile. Pure.

This understands FROM, RUN, ENV, ARG and WORKDIR, leaves out instructions that only say how to start
a service (CMD, EXPOSE …), and refuses all others.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator

from jupyter_slurm.containers.steps import Enter, Run, Set, Step
from jupyter_slurm.errors import RequestError

_UNHEEDED = frozenset(
    "CMD ENTRYPOINT EXPOSE HEALTHCHECK LABEL MAINTAINER STOPSIGNAL USER VOLUME".split()
)
_FROM = re.compile(r"^([ \t]*FROM[ \t]+(?:--\S+[ \t]+)*)(\S+)", re.MULTILINE | re.IGNORECASE)
_STAGE = re.compile(r"\S+[ \t]+AS[ \t]+(\S+)", re.IGNORECASE)
_COPIED = re.compile(r"--from=(\S+)")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*")
_HERE = re.compile(r"""(?<!<)<<-?["']?([A-Za-z_][A-Za-z0-9_]*)["']?""")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PAIR = re.compile(r"""([A-Za-z_][A-Za-z0-9_]*)=((?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s"'\\])*)""")
_TOO_CLEVER = re.compile(r"`|\$\(|[;&|<>()\n]")


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
    for word, rest in _instructions(text):
        named = re.sub(r"^(?:--\S+[ \t]+)*", "", rest) if word == "FROM" else ""
        copied = _COPIED.findall(rest) if word == "COPY" else []
        for one in [*named.split()[:1], *copied]:
            # A stage has a number, too.
            if _IMAGE.fullmatch(one) and one.lower() not in stages and not one.isdigit():
                found[one] = None
        stages |= {one.lower() for one in _STAGE.findall(named)}
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


def check(text: str) -> None:
    """Raise RequestError if the Dockerfile needs files: a cell has none beside it."""
    for word, rest in _instructions(text):
        if word in ("COPY", "ADD") and not rest.startswith("--from="):
            raise RequestError(
                "`{word} {rest}`: a cell has no files beside it.",
                hint="Fetch them with RUN, write them with RUN, or mount them: --mount.",
                word=word,
                rest=rest,
            )


def steps(text: str) -> list[Step]:
    """Return the steps after FROM. RequestError names an instruction that is not a step."""
    check(text)
    found: list[Step] = []
    begun = 0
    for word, rest in _instructions(text):
        match word:
            case "FROM":
                begun += 1
                if begun > 1 or "$" in rest or rest == "scratch":
                    raise _refused(f"FROM {rest}")
            case "RUN":
                found.append(Run(_command(rest)))
            case "ENV" | "ARG":
                found += _variables(word, rest)
            case "WORKDIR":
                if _TOO_CLEVER.search(rest):
                    raise _refused(f"WORKDIR {rest}")
                found.append(Enter(rest if "$" in rest else shlex.quote(rest)))
            case _ if word not in _UNHEEDED:
                raise _refused(f"{word} {rest}")
    return found


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\[ \t]*\n", " ", "\n".join(lines))
    for line in joined.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word:
            yield word.upper(), rest.strip()


def _command(rest: str) -> str:
    if rest.startswith(("--", "<<")):
        raise _refused(f"RUN {rest}")
    if rest.startswith("["):
        try:
            words = json.loads(rest)
        except ValueError:
            return rest
        return shlex.join(map(str, words))
    return rest


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
        hint="FROM, RUN, ENV, ARG and WORKDIR can; or write a setup script (#!…) with --from.",
        line=line,
    )
