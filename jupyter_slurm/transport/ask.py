"""What a login asks of a person, and nothing about how the question reaches them.

The opener of a connection passes an `Ask`; secrets go through it and are kept nowhere.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple, Protocol

from jupyter_slurm.errors import LoginNeededError
from jupyter_slurm.wire import QuestionKind

_KEY = re.compile(
    r"pass\W?phrase|\b(?:private|rsa|dsa|ecdsa|ed25519)\W?key|\.ssh\b"
    r"|\bid_(?:rsa|dsa|ecdsa|ed25519)",
    re.IGNORECASE,
)


class Prompt(NamedTuple):
    kind: QuestionKind
    host: str
    """`user@host` of the hop that this is about."""
    text: str
    """The host's own words, made fit to be shown; ours for a passphrase or a host key."""
    instruction: str = ""
    refused: bool = False
    """The answer before was not right: a host that only asks more says nothing against it."""

    @property
    def names_a_key(self) -> bool:
        """Tell whether a host asks in words for this machine alone. See wire.Question."""
        by_host = self.kind in (QuestionKind.SECRET, QuestionKind.TEXT)
        # The same letters in other widths and forms are the same to a person.
        words = unicodedata.normalize("NFKC", f"{self.instruction}\n{self.text}")
        return by_host and _KEY.search(words) is not None


class Ask(Protocol):
    def __call__(self, prompt: Prompt) -> str:
        """Return the user's answer; "" at once for a security key to touch. LoginNeededError: no
        front end asks the user; LoginError: the user declined or did not answer in time."""


def nobody(prompt: Prompt) -> str:
    """Refuse to answer, for what happens by itself, e.g. coming back after a lost connection."""
    raise LoginNeededError(
        f"{prompt.host} asks for an answer that only you can give.",
        hint="Log in: `%slurm login`.",
    )
