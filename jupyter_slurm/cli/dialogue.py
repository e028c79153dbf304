"""Prompts on the terminal, with default answers. They echo the input, so only `login.py` asks for
secrets.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from jupyter_slurm.cli.say import say, tell
from jupyter_slurm.client.login import is_yes
from jupyter_slurm.errors import RequestError
from jupyter_slurm.formatting import visible


class Dialogue:
    """Prompts for the user. If `asks` is False, the answers are the defaults."""

    def __init__(self, *, asks: bool) -> None:
        self._asks = asks

    def say(self, text: str) -> None:
        tell(text)

    def text(self, question: str, default: str = "", *, option: str = "") -> str:
        """Return the user's line, or the default. `option` names the option that answers the
        question."""
        if not self._asks:
            return default
        shown = f" [{visible(default)}]" if default else ""
        return self._read(f"{question}{shown}: ", option) or default

    def choice(self, question: str, choices: Sequence[str], default: str, *, option: str) -> str:
        """Return one of `choices`, given by name or number, or any other text."""
        if not self._asks or not choices:
            return self.text(question, default, option=option)
        for number, one in enumerate(choices, 1):
            say(f"  {number}  {visible(one)}\n")
        answer = self.text(question, default, option=option)
        if answer.isdecimal() and 1 <= int(answer) <= len(choices):
            return choices[int(answer) - 1]
        return answer

    def agreed(self, question: str) -> bool:
        """Return True unless the user says no."""
        if not self._asks:
            return True
        answer = self._read(f"{question} [yes]: ", "--yes")
        return not answer or is_yes(answer)

    def wanted(self, question: str) -> bool:
        """Return False unless the user says yes."""
        return self._asks and is_yes(self._read(f"{question} [no]: ", ""))

    def _read(self, prompt: str, option: str) -> str:
        say(prompt)
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            say("\n")
            raise RequestError(
                "Cannot read an answer: stdin is closed.",
                hint=f"Use {option}." if option else "Use --yes to accept the defaults.",
                option=option,
            )
        return line.strip()
