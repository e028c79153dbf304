"""A long notebook run by nbclient: what it leaves is what a local kernel leaves."""

from __future__ import annotations

import asyncio
import hashlib
import re
from itertools import groupby
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from tests.kernel.conftest import Home

MIB = 1 << 20
OUTPUT_MB = 12
"""More than a kernel keeps in memory of what nobody has taken yet (`IN_MEMORY_BYTES`)."""
INTERRUPTED = """
import time
try:
    print('it is on', flush=True)
    time.sleep(1000)
except KeyboardInterrupt:  # it may still be within print
    raise KeyboardInterrupt('of the cell') from None
"""
BEFORE = [
    "import sys, time\nimport matplotlib.pyplot as plt\nimport ipywidgets as widgets\nx = []",
    "import random\n"
    f"for i in range({OUTPUT_MB}): print(random.Random(i).randbytes({MIB // 2}).hex()[1:])",
    "sys.stderr.write('to stderr\\n')\nprint('to stdout')\n6 * 7",
    "1 / 0",
    "from IPython.display import HTML, clear_output, display, update_display\n"
    "shown = display(HTML('<b>first</b>'), display_id='it')",
    "update_display(HTML('<b>second</b>'), display_id='it')",
    "for i in range(20):\n    clear_output(wait=True)\n    print(i)",
    "slider = widgets.IntSlider(value=3)\nslider",
    "out = widgets.Output()\nwith out:\n    print('inside')\nout",
    "%timeit -n1 -r1 -q pass",
    "!echo from the shell",
    "%%bash\necho from bash",
    "print('\\x1b[31mred\\x1b[0m')\nprint('a\\rb')\nprint('é ☃ 🎉')",
    "import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', '<&>']})",
    INTERRUPTED,
    "print('after the interrupt')",
]
AFTER = ["x", "print('after the restart')", "_ = 1\n_"]


def notebook() -> tuple[list[str], int]:
    """100 cells, and before which of them the kernel is restarted."""
    plots = [f"plt.plot([0, {i}], [1, {i}]); plt.show()\nx.append({i}); sum(x)" for i in range(10)]
    fill = [f"print({i})\nx.append({i})\nlen(x)" for i in range(71)]
    cells = [BEFORE[0], *plots, *BEFORE[1:], *fill]
    restart_at = len(cells)
    return [*cells, *AFTER], restart_at


async def executed(kernel_name: str, sources: list[str], restart_at: int) -> Any:
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in sources])
    manager = AsyncKernelManager(kernel_name=kernel_name)
    client = NotebookClient(made, km=manager, allow_errors=True, timeout=120, iopub_timeout=120)
    async with client.async_setup_kernel(cleanup_kc=True):
        for at, cell in enumerate(made.cells):
            if at == restart_at:
                await manager.restart_kernel()
                kc: Any = client.kc
                await kc.wait_for_ready(timeout=120)
            run = asyncio.ensure_future(client.async_execute_cell(cell, at))
            if cell.source == INTERRUPTED:
                while not cell.outputs:  # noqa: ASYNC110 - nbclient tells nobody
                    await asyncio.sleep(0.01)
                await manager.interrupt_kernel()
            await run
    return made


def comparable(made: Any) -> list[Any]:
    """Without what differs from one local kernel to the next: ids, addresses, processes."""
    found = []
    for cell in made.cells:
        cell.outputs = whole_streams(cell.outputs)
        text = nbformat.writes(nbformat.v4.new_notebook(cells=[cell]))
        text = re.sub(r'"model_id": "[0-9a-f]+"', '"model_id": ""', text)
        text = re.sub(r"IPY_MODEL_[0-9a-f]+|0x[0-9a-f]+|ipykernel_[0-9]+", "", text)
        (plain,) = nbformat.reads(text, as_version=4).cells
        found.append([plain.source, plain.execution_count, plain.outputs])
    return found


def whole_streams(outputs: list[Any]) -> list[Any]:
    """A kernel writes its streams by the clock: into how many pieces tells nothing of it. Of what
    is large, the size and the digest."""
    whole: list[Any] = []
    for name, pieces in groupby(outputs, key=lambda one: one.get("name")):
        if name is None:
            whole += pieces
            continue
        text = "".join(piece.text for piece in pieces)
        if len(text) > MIB:
            text = f"{len(text)} {hashlib.sha256(text.encode()).hexdigest()}"
        whole.append(nbformat.v4.new_output("stream", name=name, text=text))
    return whole


@pytest.mark.long
def test_a_notebook_of_a_hundred_cells_is_as_of_a_local_kernel(home: Home, tmp_path: Path) -> None:
    home.add("--mem", "2G")
    sources, restart_at = notebook()
    assert len(sources) == 100
    far = comparable(asyncio.run(executed("far", sources, restart_at)))
    near = comparable(asyncio.run(executed("python3", sources, restart_at)))
    for there, here in zip(far, near, strict=True):
        assert there == here
    assert far[11][2][0]["text"].startswith(f"{OUTPUT_MB * MIB} ")
    assert len(home.jobs()) == 1
    home.until_job(home.jobs()[0].id)
