"""A sentence on its way to a person, whose front end says it in the language of the page.

Knows no catalogue: the browser has them (jupyter_slurm/locale), Python's front ends say English.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, field

_PLACE = re.compile(r"\{(\w+)\}")
_OURS = "slurm"
"""Stands before the words of a command, for whatever the front end has people type there."""


class Message(Struct, frozen=True):
    """A sentence, or a part of one, and what varies in it."""

    text: str
    """The English text, with `{name}` in the place of each argument. It is the message's code:
    catalogues have the translation under it."""
    args: dict[str, str | Message] = field(default_factory=dict)
    """A `str` is a name or a figure, and nobody translates it."""

    @classmethod
    def of(cls, text: str, /, **args: object) -> Message:
        """Return the message. `text` is a literal: catalogues are made of those in such calls."""
        return cls(
            text, {name: one if isinstance(one, cls) else str(one) for name, one in args.items()}
        )

    def __str__(self) -> str:
        """Return it in English, with commands as a notebook has them."""
        words = {_OURS: "%slurm", **self.args}
        return _PLACE.sub(lambda found: str(words.get(found[1], found[0])), self.text)


Text = str | Message
"""What a person is to read. A `str` varies in nothing, or is somebody else's words."""


def filled(text: str, args: Mapping[str, str | Message]) -> Text:
    """Return a text of a table with those of the arguments that it has a place for."""
    wanted = {found[1]: args[found[1]] for found in _PLACE.finditer(text) if found[1] in args}
    return Message(text, wanted) if wanted else text


def together(*texts: Text | None, between: str = " ") -> Text:
    """Return all of these as one, each translated by itself; "" where there are none."""
    parts = [one for one in texts if one]
    if len(parts) < 2:
        return parts[0] if parts else ""
    # A plain sentence is looked up in a catalogue too, which an argument is not.
    args: dict[str, str | Message] = {
        str(number): Message(one) if isinstance(one, str) else one
        for number, one in enumerate(parts, 1)
    }
    return Message(between.join(f"{{{number}}}" for number in args), args)
