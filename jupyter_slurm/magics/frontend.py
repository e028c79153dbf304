"""What the front end of this shell can do, which notebook it shows, and a line of text for it.

The only module that guesses at front ends. Nothing here knows a job.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from IPython.core.getipython import get_ipython


def in_place() -> bool:
    """A display can be changed after it was shown (Jupyter), or not (a terminal prints again)."""
    return hasattr(get_ipython(), "kernel")


def notebook(namespace: Mapping[str, object]) -> str | None:
    """The notebook's path as its front end gives it; None where it gives none.

    JPY_SESSION_NAME: jupyter_server >= 2; `__vsc_ipynb_file__`: VS Code, in the user's namespace.
    """
    path = os.environ.get("JPY_SESSION_NAME") or namespace.get("__vsc_ipynb_file__")
    return path if isinstance(path, str) and path else None


def say(text: str) -> None:
    """A line in the cell's output."""
    sys.stdout.write(text + "\n")


def warn(text: str) -> None:
    """A line in the cell's error output."""
    sys.stderr.write(text + "\n")
