"""A sentence for the user, with its values apart: each front end names commands in its own way."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, field

__all__ = ["Message", "Text", "filled", "said", "together"]

_PLACE = re.compile(r"\{(\w+)\}")
_OURS = "slurm"
"""Stands for the prefix that users type before a command in that front end."""


class Message(Struct, frozen=True):
    """A sentence, or a part of one, and what varies in it."""

    text: str
    """The English text, with `{name}` in place of each argument."""
    args: dict[str, str | Message] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str, /, **args: object) -> Message:
        """Return the message of this text and its arguments."""
        return cls(text, {name: _argument(one) for name, one in args.items()})

    def __str__(self) -> str:
        """Return the sentence, with commands as in a notebook."""
        words = {_OURS: "%slurm", **self.args}
        return _PLACE.sub(lambda found: str(words.get(found[1], found[0])), self.text)


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
    """Return the text for the user, with its arguments filled in."""
    return str(filled(text, args))


def together(*texts: Text | None, between: str = " ") -> Text:
    """Return all these texts as one; "" if there are none."""
    parts = [one for one in texts if one]
    if len(parts) < 2:
        return parts[0] if parts else ""
    args: dict[str, str | Message] = {
        str(number): Message(one) if isinstance(one, str) else one
        for number, one in enumerate(parts, 1)
    }
    return Message(between.join(f"{{{number}}}" for number in args), args)
