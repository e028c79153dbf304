"""execute.py NOTEBOOK OUTPUT [ANSWERS]: run a notebook as Jupyter would and print its text.

OUTPUT is written even if a cell fails. The exit code is then 1. A cell with the tag
`raises-exception` fails on purpose. ANSWERS has one line for each question that a cell asks.
Without ANSWERS, cells cannot ask questions.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError


class Narrator(NotebookClient):
    """Print the first lines of each code cell, then its text output as it arrives."""

    started_s = 0.0
    answers: Sequence[str] = ()
    answering: asyncio.Task[None] | None = None

    async def listen(self, **_: object) -> None:
        """Allow cells to ask questions if there are answers."""
        if self.answers:
            client: Any = self.kc
            client.allow_stdin = True
            self.answering = asyncio.create_task(self.answer(client))

    async def answer(self, client: Any) -> None:
        for answer in self.answers:
            asked = await client.get_stdin_msg()
            sys.stdout.write(f"{asked['content']['prompt']}\n")
            client.input(answer)

    async def end(self, **_: object) -> None:
        if self.answering is not None:
            self.answering.cancel()

    def narrate(self, cell: Any, **_: object) -> None:
        if cell.cell_type == "code":
            self.started_s = time.monotonic()
            head = cell.source.splitlines()[:2]
            sys.stdout.write("\n" + "\n".join(f"  ┃ {line}" for line in head) + "\n")

    def told(self, cell: Any, execute_reply: dict[str, Any], **_: object) -> None:
        content = execute_reply["content"]
        end = ""
        if content["status"] == "error":
            is_meant = "raises-exception" in cell.metadata.get("tags", ())
            end = f", {'failed on purpose' if is_meant else 'failed'}: {content['ename']}"
        sys.stdout.write(f"  ┗ {time.monotonic() - self.started_s:.1f} s{end}\n")

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] == "stream":
            sys.stdout.write(msg["content"]["text"])
            sys.stdout.flush()
        return super().process_message(msg, cell, cell_index)


def main() -> int:
    source, target, *answers = map(Path, sys.argv[1:])
    notebook = nbformat.read(source, as_version=4)
    # Connect to the kernel through this user's files, not through ports that other users can open.
    kernel = AsyncKernelManager(kernel_name="python3", transport="ipc")
    client = Narrator(notebook, km=kernel, resources={"metadata": {"path": "."}})
    client.owns_km = True  # shut the kernel down at the end
    client.answers = [line for file in answers for line in file.read_text().splitlines()]
    client.on_notebook_start = client.listen
    client.on_notebook_complete = client.end
    client.on_cell_start = client.narrate
    client.on_cell_executed = client.told
    try:
        client.execute()
    except CellExecutionError as error:
        sys.stdout.write(f"\n{error}\n")
        return 1
    finally:
        nbformat.write(notebook, target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
