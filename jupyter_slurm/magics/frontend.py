"""The front end of this shell: its capabilities, its notebook, and its displays."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from IPython.core.error import StdinNotImplementedError
from IPython.core.getipython import get_ipython
from IPython.display import clear_output, publish_display_data

from jupyter_slurm.client.login import Prompter, TerminalPrompter
from jupyter_slurm.errors import LoginNeededError
from jupyter_slurm.formatting import coloured, visible_lines
from jupyter_slurm.views.card import CARDS_VARIABLE

_VS_CODE = "__vsc_ipynb_file__"


def in_place() -> bool:
    """Return whether a display can be updated in place, as in Jupyter. A terminal would print it
    again."""
    return hasattr(get_ipython(), "kernel")


def renders_jobs() -> bool:
    """Return whether the page updates job cards itself, as JupyterLab and Notebook with our
    extension do.

    A notebook in VS Code does not, even on a Jupyter server. Nor does the front end of a kernel
    that was started in a Jupyter server's terminal. Such a kernel lacks JPY_SESSION_NAME.
    """
    told = os.environ.get(CARDS_VARIABLE) == "live" and "JPY_SESSION_NAME" in os.environ
    return told and _VS_CODE not in getattr(get_ipython(), "user_ns", {})


def page() -> str | None:
    """Return the page that runs this cell; None if the client does not acknowledge output. Sent
    output then counts as shown.

    JupyterLab and Notebook name the cell in the request; a console or nbclient on the same kernel
    does not. A reloaded page counts as another page.
    """
    get_parent = getattr(getattr(get_ipython(), "kernel", None), "get_parent", None)
    if get_parent is None or not renders_jobs():
        return None
    request = get_parent("shell")
    session: str | None = request.get("header", {}).get("session")
    return session if "cellId" in request.get("metadata", {}) else None


def notebook(namespace: Mapping[str, object]) -> str | None:
    """Return the notebook's path from its front end; None if unknown.

    jupyter_server 2 and later set JPY_SESSION_NAME; VS Code sets `__vsc_ipynb_file__` in the user's
    namespace.
    """
    path = os.environ.get("JPY_SESSION_NAME") or namespace.get(_VS_CODE)
    return path if isinstance(path, str) and path else None


def connection_file() -> str | None:
    """Return the path of this kernel's connection file; None if this process is not a kernel."""
    config = getattr(getattr(get_ipython(), "kernel", None), "config", {})
    path = config.get("IPKernelApp", {}).get("connection_file")
    return path if isinstance(path, str) else None


def prompter() -> Prompter:
    """Return the prompter for the user of this shell."""
    return NotebookPrompter() if in_place() else TerminalPrompter()


class NotebookPrompter:
    """Prompts under the running cell of a notebook.

    A front end saves unmasked answers in the cell's output. So mask every answer except yes or no,
    even if the host would show it.
    """

    def there(self) -> bool:
        """Return whether a user can answer. nbconvert does not allow stdin (`allow_stdin` of
        execute_request)."""
        kernel = getattr(get_ipython(), "kernel", None)
        return bool(getattr(kernel, "_allow_stdin", True))

    def say(self, text: str) -> None:
        say(text)

    def secret(self, prompt: str) -> str:
        return self._ask(getpass.getpass, prompt)  # replaced by ipykernel

    def choice(self, prompt: str) -> str:
        return self._ask(getpass.getpass, prompt)

    def confirm(self, prompt: str) -> str:
        return self._ask(input, prompt)

    def _ask(self, read: Callable[[str], str], prompt: str) -> str:
        try:
            return read(prompt)
        except StdinNotImplementedError as exc:
            raise LoginNeededError(
                "The login needs input, which this front end does not support.",
                hint="Log in first with `jupyter slurm login` in a terminal, or `%slurm login` "
                "in an open notebook.",
            ) from exc


def say(text: str) -> None:
    """Write a line to the cell's output."""
    sys.stdout.write(visible_lines(text) + "\n")


def warn(text: str) -> None:
    """Write a line to the cell's stderr."""
    sys.stderr.write(visible_lines(text) + "\n")


def show(
    data: Mapping[str, Any], metadata: Mapping[str, Any], *, display_id: str | None = None
) -> None:
    """Publish a display. If it has an ID, `change` can update it."""
    transient = {"display_id": display_id} if display_id else {}
    publish_display_data(_harmless(data), dict(metadata), transient=transient)


def change(data: Mapping[str, Any], metadata: Mapping[str, Any], *, display_id: str) -> None:
    """Update every display with this ID."""
    transient = {"display_id": display_id}
    publish_display_data(_harmless(data), dict(metadata), transient=transient, update=True)


def _harmless(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data with plain text that is safe for a terminal. Leave a notebook's data
    unchanged, because its page handles escape sequences."""
    plain = data.get("text/plain")
    if in_place() or not isinstance(plain, str):
        return dict(data)
    return {**data, "text/plain": coloured(plain)}


def flush() -> None:
    """Flush stdout and stderr, so that earlier text appears before a display."""
    sys.stdout.flush()
    sys.stderr.flush()


def clear(*, wait: bool) -> None:
    """Clear the cell's output. With `wait`, clear it only when new output arrives."""
    clear_output(wait=wait)
