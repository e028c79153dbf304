"""The language of this process's texts: English, until a front end chooses the user's.

The agent and Jupyter's server never choose, so records, logs and the wire stay English. Only
`choose` reads files; nothing of ours is imported here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

_ENGLISH: Mapping[str, Sequence[str]] = MappingProxyType({})
_FOLDER = Path(__file__).parent / "locale"
_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")


class _Language:
    """As the locale of C, one for the process: every thread of it shows texts to the same user."""

    catalogue = _ENGLISH
    """By the English text; as Jed has them, with a list of forms for each."""


def choose(environ: Mapping[str, str]) -> None:
    """Take the language that the environment asks for, as gettext does; a front end calls this once
    at its start. English: nobody asks for another, or there is no catalogue for it."""
    _Language.catalogue = next(map(_catalogue, _wanted(environ)), _ENGLISH)


def translated(text: str) -> str:
    """Return a text of ours in this process's language; any other text as it is."""
    forms = _Language.catalogue.get(text)
    return forms[0] if forms else text


def _wanted(environ: Mapping[str, str]) -> list[Path]:
    """Return the catalogue of the first language that has one; []: English is meant.

    Scripts set LC_ALL=C to read what a program prints, so that counts more than LANGUAGE.
    """
    locale = next((environ[name] for name in _VARIABLES if environ.get(name)), "")
    if locale in ("C", "POSIX"):
        return []
    for name in (environ.get("LANGUAGE") or locale).split(":"):
        wanted = name.partition(".")[0].partition("@")[0]
        language = wanted.partition("_")[0]
        if language in ("C", "POSIX", "en"):
            return []
        # A catalogue is of one country, and read in the others rather than English.
        found = sorted(one for one in _FOLDER.iterdir() if one.name.startswith(f"{language}_"))
        if found:
            return [one for one in found if one.name == wanted] or found[:1]
    return []


def _catalogue(folder: Path) -> Mapping[str, Sequence[str]]:
    file = folder / "LC_MESSAGES" / "jupyter_slurm.json"
    read: dict[str, Sequence[str]] = json.loads(file.read_text(encoding="utf-8"))
    return {text: forms for text, forms in read.items() if text}  # "": its header
