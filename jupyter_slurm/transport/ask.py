"""Questions of a login, independent of how they reach the user. The caller that opens a connection
passes an `Ask`. Answers are not stored.
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
    """The `user@host` of the hop that asks."""
    text: str
    """The host's question, cleaned for display, or our question about a passphrase or a host
    key."""
    instruction: str = ""
    refused: bool = False
    """True if the same question was asked before, so the previous answer was probably wrong."""

    @property
    def names_a_key(self) -> bool:
        """Return whether a host asks for a secret of this machine; see wire.Question."""
        by_host = self.kind in (QuestionKind.SECRET, QuestionKind.TEXT)
        # Normalize variants of letters (e.g. full-width), which look the same to the user.
        words = unicodedata.normalize("NFKC", f"{self.instruction}\n{self.text}")
        return by_host and _KEY.search(words) is not None


class Ask(Protocol):
    def __call__(self, prompt: Prompt) -> str:
        """Return the user's answer; "" at once if the user only has to touch a security key. Raise
        LoginNeededError if no front end can ask the user, LoginError if the user declined or did
        not answer in time."""


def no_prompt(prompt: Prompt) -> str:
    """Raise LoginNeededError instead of asking. Automatic operations, such as a reconnect, use this
    function."""
    raise LoginNeededError(
        f"{prompt.host} asks a question that only you can answer.",
        hint="Log in with `%slurm login`.",
    )
