"""Questions of a login, independent of how they reach the user.

The opener of a connection passes an `Ask`; answers are not stored.
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
    """The host's own words, cleaned for display; ours for a passphrase or a host key."""
    instruction: str = ""
    refused: bool = False
    """The previous answer was wrong. Unknown if the host only asks again."""

    @property
    def names_a_key(self) -> bool:
        """Return whether a host asks for a secret of this machine. See wire.Question."""
        by_host = self.kind in (QuestionKind.SECRET, QuestionKind.TEXT)
        # Other widths and forms of letters look the same to the user.
        words = unicodedata.normalize("NFKC", f"{self.instruction}\n{self.text}")
        return by_host and _KEY.search(words) is not None


class Ask(Protocol):
    def __call__(self, prompt: Prompt) -> str:
        """Return the user's answer; "" at once for a security key to touch. LoginNeededError: no
        front end asks the user; LoginError: the user declined or did not answer in time."""


def no_prompt(prompt: Prompt) -> str:
    """Refuse to answer: for automatic operations, such as a reconnect."""
    raise LoginNeededError(
        f"{prompt.host} asks a question that only you can answer.",
        hint="Log in: `%slurm login`.",
    )
