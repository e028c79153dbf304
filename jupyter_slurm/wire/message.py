"""A sentence on its way to the user, whose front end shows it in the user's language.

The catalogues are jupyter_slurm/locale: the browser's side looks a message up in the language of
the page, `language.py` in that of this process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from msgspec import Struct, field

from jupyter_slurm.language import translated

__all__ = ["Message", "Text", "filled", "said", "together"]

_PLACE = re.compile(r"\{(\w+)\}")
_OURS = "slurm"
"""Stands for the prefix that users type before a command in that front end."""


class Message(Struct, frozen=True):
    """A sentence, or a part of one, and what varies in it."""

    text: str
    """The English text, with `{name}` in place of each argument. It is the message's code:
    catalogues have the translation under it."""
    args: dict[str, str | Message] = field(default_factory=dict)
    """A `str` is a name or a figure, which is not translated."""

    @classmethod
    def of(cls, text: str, /, **args: object) -> Message:
        """Return the message. `text` is a literal: catalogues collect the literals of such
        calls."""
        return cls(text, {name: _argument(one) for name, one in args.items()})

    def __str__(self) -> str:
        """Return the message in this process's language, with commands as in a notebook."""
        return self._filled(translated)

    def english(self) -> str:
        """Return it in English, for programs."""
        return self._filled(str)

    def _filled(self, in_language: Callable[[str], str]) -> str:
        words = {_OURS: "%slurm", **self.args}

        def filling(found: re.Match[str]) -> str:
            value = words.get(found[1], found[0])
            return value if isinstance(value, str) else value._filled(in_language)

        # No blank follows a Japanese full stop.
        return _PLACE.sub(filling, in_language(self.text)).replace("。 ", "。")


def _argument(value: object) -> str | Message:
    """Return the value as an argument; an exception that was raised with a message is that."""
    if isinstance(value, Exception) and value.args and isinstance(value.args[0], Message):
        return value.args[0]
    return value if isinstance(value, Message) else str(value)


Text = str | Message
"""A text for the user. A `str` has no arguments, or is another program's text."""


def filled(text: Text, args: Mapping[str, object]) -> Text:
    """Return a text with those of the arguments that it has a place for; a message as it is."""
    if isinstance(text, Message):
        return text
    places = set(_PLACE.findall(text))
    wanted = {name: args[name] for name in places & args.keys()}
    return Message.of(text, **wanted) if wanted or _OURS in places else text


def said(text: Text, /, **args: object) -> str:
    """Return the text for the user, in this process's language. Catalogues collect the literals of
    such calls, too."""
    whole = filled(text, args)
    return str(whole) if isinstance(whole, Message) else translated(whole)


def together(*texts: Text | None, between: str = " ") -> Text:
    """Return all these texts as one, each translated by itself; "" if there are none."""
    parts = [one for one in texts if one]
    if len(parts) < 2:
        return parts[0] if parts else ""
    # Front ends translate a plain sentence too, but not an argument.
    args: dict[str, str | Message] = {
        str(number): Message(one) if isinstance(one, str) else one
        for number, one in enumerate(parts, 1)
    }
    return Message(between.join(f"{{{number}}}" for number in args), args)
