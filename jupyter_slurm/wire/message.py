"""A sentence on its way to the user, whose front end shows it in the language of the page.

No catalogue here: the browser has them (jupyter_slurm/locale), Python's front ends show English.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, field

__all__ = ["Message", "Text", "filled", "together"]

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
        return cls(
            text, {name: one if isinstance(one, cls) else str(one) for name, one in args.items()}
        )

    def __str__(self) -> str:
        """Return the message in English, with commands as in a notebook."""
        words = {_OURS: "%slurm", **self.args}
        return _PLACE.sub(lambda found: str(words.get(found[1], found[0])), self.text)


Text = str | Message
"""A text for the user. A `str` has no arguments, or is another program's text."""


def filled(text: Text, args: Mapping[str, object]) -> Text:
    """Return a text with those of the arguments that it has a place for; a message as it is."""
    if isinstance(text, Message):
        return text
    places = set(_PLACE.findall(text))
    wanted = {name: args[name] for name in places & args.keys()}
    return Message.of(text, **wanted) if wanted or _OURS in places else text


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
