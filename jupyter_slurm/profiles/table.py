"""Conversion of a cluster's TOML table to settings, by the types of `ClusterProfile`.

Errors are ConfigErrors that name file, line and key.
"""

from __future__ import annotations

import datetime
import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, get_args, get_origin

import msgspec

from jupyter_slurm.profiles import templates
from jupyter_slurm.profiles.toml_file import TomlFile

_WORDS = {
    "str": "text",
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}


@dataclass(frozen=True, slots=True)
class TableReading:
    """A reader of the table at `where` in `file`; () for the whole file."""

    file: TomlFile
    where: tuple[str, ...]

    def settings(self, table: Mapping[str, Any], types: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings in `table`. `types`: type by setting, or None for a key that is not a
        setting."""
        known = [name for name, kind in types.items() if kind is not None]
        values = {}
        for key, value in table.items():
            if key not in known:
                guess = did_you_mean(key, known)
                hint = f"Use one of {', '.join(known)}." if guess == "." else None
                self._fail((key,), f"`{key}` is not a setting{guess}", hint)
            if key == "partitions" and isinstance(value, dict):
                kind = get_args(types[key])[1]
                values[key] = {
                    name: self._value((key, name), one, kind) for name, one in value.items()
                }
            else:
                values[key] = self._value((key,), value, types[key])
        return values

    def template(self, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of the template that `table` names; {} without a template."""
        name = table.get("template")
        given = table.get("vars", {})
        if not isinstance(name, str) or not isinstance(given, dict):
            return {}  # `settings` reports the type error
        if name not in templates.names():
            guess = did_you_mean(name, templates.names())
            hint = f"Use one of {', '.join(templates.names())}."
            self._fail(("template",), f"Unknown template `{name}`{guess}", hint)
        template = templates.read(name)
        for key in given:
            if key not in template.variables():
                guess = did_you_mean(key, template.variables())
                self._fail(("vars", key), f"The template `{name}` has no variable `{key}`{guess}")
        user = {"user": table["user"]} if isinstance(table.get("user"), str) else {}
        try:
            return template.filled({key: str(one) for key, one in {**given, **user}.items()})
        except KeyError as exc:
            missing = str(exc.args[0])
            key = missing if missing == "user" else f"vars.{missing}"
            self._fail(
                ("template",),
                f"The template `{name}` needs `{key}`: {template.ask[missing]}.",
                f'Write `{key} = "…"` into the cluster\'s table.',
            )

    def _value(self, keys: tuple[str, ...], value: Any, kind: Any) -> Any:
        try:
            return msgspec.convert(_as_text(keys[0], value), kind)
        except msgspec.ValidationError as exc:
            if get_origin(kind) is Literal:
                words = " or ".join(f'"{word}"' for word in get_args(kind))
                self._fail(keys, f"`{keys[0]}` must be {words}.")
            self._fail(keys, f"{_in_words('.'.join(keys), str(exc))}.")

    def _fail(self, keys: tuple[str, ...], message: str, hint: str | None = None) -> NoReturn:
        label = "".join(f"[{key}] " for key in self.where)
        self.file.fail((*self.where, *keys), f"{label}{message}", hint)


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return the end of a sentence about a word that is not in `names`."""
    near = nearest(word, names)
    return f"; did you mean `{near}`?" if near else "."


def nearest(word: str, names: Iterable[str]) -> str:
    """Return the most similar name, or ""."""
    return next(iter(difflib.get_close_matches(word, list(names), n=1)), "")


def _as_text(key: str, value: Any) -> Any:
    """Convert TOML values to text for Slurm and the shell: `true` is a flag, `false` is dropped,
    and an unquoted 01:30:00 is a time of day in TOML."""
    if key == "partitions" and isinstance(value, dict) and "limit" in value:
        return {**value, "limit": _as_text("env", {"limit": value["limit"]})["limit"]}
    if key not in ("defaults", "env", "job_env") or not isinstance(value, dict):
        return value
    texts = {}
    for name, one in value.items():
        if one is False and key == "defaults":
            continue
        if one is True and key == "defaults":
            texts[name] = ""
        elif isinstance(one, int | float | datetime.time) and not isinstance(one, bool):
            texts[name] = str(one)
        else:
            texts[name] = one
    return texts


def _in_words(key: str, error: str) -> str:
    """Reword msgspec's message for users."""
    text, _, path = error.partition(" - at ")
    if text.startswith("`"):  # our own message
        return f"`{key}`: {text}"
    if unknown := re.fullmatch(r"Object contains unknown field (`.*`)", text):
        return f"`{key}` has no setting {unknown[1]}"
    if path.startswith("`$.") and "[" not in path:
        key = f"{key}.{path[3:-1]}"
    text = re.sub(r"`(\w+)(?: \| null)?`", lambda found: _WORDS.get(found[1], found[0]), text)
    text = text.removeprefix("Expected ").replace(", got ", ", not ")
    text = text.replace(" >= ", " of at least ").replace(" > ", " above ")
    return f"{f'each value in `{key}`' if '[' in path else f'`{key}`'} must be {text}"
