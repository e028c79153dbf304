"""PURE. Replace `{name}` in a line by the value of a variable."""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, cast

from jupyter_slurm.errors import RequestError
from jupyter_slurm.formatting import joined
from jupyter_slurm.slurm.options import suggest

_FIELD = r"[^\W\d]\w*(?:\.[^\W\d]\w*|\[[^\[\]{}]*\])*(?::[^{}]*)?"
"""`x`, `job.id`, `rates[0]`, `rate:.2f`; keep in step with form.ts."""
_CALCULATION = r"[^\W\d]\w*\s*[-+*/%@(!<>=|&^][^{}]*"
_BRACES = re.compile(
    rf"\{{\{{({_FIELD})\}}\}}|\{{({_FIELD})\}}"
    rf"|\{{\{{({_CALCULATION})\}}\}}|\{{({_CALCULATION})\}}"
)
_PARTS = re.compile(r"\.(\w+)|\[([^\]]*)\]")


def expand(words: Sequence[str], namespace: Mapping[str, object]) -> list[str]:
    """Replace each `{name}`, `{name.attribute}`, `{name[item]}` and `{name:format}` by its value as
    text. A word stays a single word, whatever the value.

    `{{name}}` is the text `{name}`; other braces and `$` are unchanged. RequestError: a field has
    no value, or is an expression with an existing variable.

    >>> expand(["--time={minutes}", "{{a}}", "{1}"], {"minutes": 5})
    ['--time=5', '{a}', '{1}']
    """

    def value(match: re.Match[str]) -> str:
        doubled, field, kept, calculated = match.groups()
        if doubled is not None:
            return f"{{{doubled}}}"
        if field is not None:
            return _value_of(field, namespace)
        text: str = kept or calculated
        if re.split(r"\W", text, maxsplit=1)[0] not in namespace:
            return match[0]
        if kept is not None:
            return f"{{{kept}}}"
        raise RequestError(
            f"`{{{text}}}`: an option cannot contain an expression.",
            hint=f"Assign the value to a variable first. For literal text, write `{{{{{text}}}}}`.",
        )

    return [_BRACES.sub(value, word) for word in words]


def _value_of(field: str, namespace: Mapping[str, object]) -> str:
    """Return the text for a field in braces. RequestError."""
    as_text = f"For literal text, write `{{{{{field}}}}}`."
    path, colon, form = field.partition(":")
    match = re.match(r"\w+", path)
    name = unicodedata.normalize("NFKC", match[0] if match else "")
    if name not in namespace:
        near = suggest(name, tuple(namespace))
        like = f"Did you mean `{near}`?" if near in namespace else None
        raise RequestError(
            f"`{{{field}}}`: unknown variable `{name}`.",
            hint=joined(like, as_text),
        )
    value = namespace[name]
    try:
        for attribute, item in _PARTS.findall(path):
            value = getattr(value, attribute) if attribute else cast("Any", value)[_item(item)]
        return format(value, form) if colon else str(value)
    except Exception as exc:  # any object's attribute may raise any exception
        raise RequestError(f"`{{{field}}}` has no value: {exc}.", hint=as_text) from exc


def _item(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError) as exc:
        told = (
            f"`[{text}]` is not a number or a quoted string. Quote the whole word to keep inner "
            "quotes, as in `'{a[\"b\"]}'`"
        )
        raise ValueError(told) from exc
