"""Interaction with a real ipykernel. The jobs are in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from tests.magics.kernel import LOAD_FAKE, ROOT, Kernel, running_kernel


@pytest.fixture
def kernel(jupyter_dirs: Path) -> Iterator[Kernel]:
    with running_kernel(dict(os.environ), jupyter_dirs) as started:
        assert started.run(LOAD_FAKE.format(folder=str(jupyter_dirs)))
        yield started


def test_card_of_a_detached_job_is_updated_in_its_cell(kernel: Kernel) -> None:
    request = kernel.start("%%slurm --detach\nlinger()")
    kernel.reply(request)
    kernel.run("api.finish(api.jobs()[0].id)")
    card = kernel.until_card("done", request)
    assert card["msg_type"] == "update_display_data"


def test_interrupted_cell_detaches_and_shows_the_attach_command(kernel: Kernel) -> None:
    request = kernel.start("%%slurm\nprint('before')\nlinger()")
    kernel.until(lambda message: "before" in message["content"].get("text", ""))
    kernel.manager.interrupt_kernel()
    reply = kernel.reply(request)
    assert (reply.content["status"], reply.content["ename"]) == ("error", "Detached")
    assert "%slurm attach" in reply.content["evalue"]
    assert len(reply.content["traceback"]) == 1
    kernel.run("api.finish(api.jobs()[0].id)")
    kernel.until_card("done", request)
    back = kernel.run("%slurm attach")
    assert (back.content["status"], back.text) == ("ok", "before\n")


def test_interrupted_cell_cancels_its_job_with_on_interrupt_cancel(kernel: Kernel) -> None:
    request = kernel.start("%%slurm --on-interrupt cancel\nprint('before')\nlinger()")
    kernel.until(lambda message: "before" in message["content"].get("text", ""))
    kernel.manager.interrupt_kernel()
    reply = kernel.reply(request)
    assert "cancelled" in reply.content["evalue"]
    assert reply.text == "before\n"
    assert "cancel" in kernel.run("print(api.calls)").text


@pytest.mark.skipif(version("ipykernel").startswith("6."), reason="ipykernel 6 has no subshells")
def test_widget_handles_clicks_while_a_cell_waits(kernel: Kernel) -> None:
    kernel.run("%slurm")
    comm = kernel.until(
        lambda m: m["msg_type"] == "comm_open" and "_esm" in m["content"]["data"]["state"]
    )
    session = kernel.client.session
    kernel.client.control_channel.send(session.msg("create_subshell_request"))
    subshell = kernel.client.get_control_msg(timeout=60)["content"]["subshell_id"]
    request = kernel.start("%%slurm\nprint('before')\nlinger()")
    kernel.until(lambda message: "before" in message["content"].get("text", ""))
    job_id = kernel.until(lambda m: _names_a_job(m, request))["content"]["data"][MIME]["id"]
    content = {"do": "cancel", "id": job_id}
    click = session.msg(
        "comm_msg",
        {
            "comm_id": comm["content"]["comm_id"],
            "data": {"method": "custom", "content": content},
        },
    )
    click["header"]["subshell_id"] = subshell
    kernel.client.shell_channel.send(click)
    reply = kernel.reply(request)
    assert reply.content["ename"] == "CellFailed"
    assert "cancelled by you" in reply.content["evalue"]


MIME = "application/vnd.jupyter-slurm.job+json"


def _names_a_job(message: dict[str, object], request: str) -> bool:
    content, parent = message["content"], message["parent_header"]
    assert isinstance(content, dict)
    assert isinstance(parent, dict)
    return parent.get("msg_id") == request and MIME in content.get("data", {})


def execute(cells: list[str], folder: Path) -> tuple[NotebookNode, CellExecutionError | None]:
    """Run a notebook as `jupyter execute` does, and save it. Return the notebook and its error."""
    setup = new_code_cell(LOAD_FAKE.format(folder=str(folder)))
    notebook = new_notebook(cells=[setup, *map(new_code_cell, cells)])
    error: CellExecutionError | None = None
    with TemporaryDirectory(prefix="kernel-") as sockets:
        manager = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=f"{sockets}/k")
        resources = {"metadata": {"path": str(folder)}}
        client = NotebookClient(notebook, km=manager, timeout=60, resources=resources)
        client.owns_km = True
        try:
            client.execute(env={**os.environ, "PYTHONPATH": str(ROOT)})
        except CellExecutionError as exc:
            error = exc
    path = folder / "run.ipynb"
    nbformat.write(notebook, path)
    return nbformat.read(path, as_version=4), error


def test_notebook_is_saved_with_outputs_and_the_final_card(jupyter_dirs: Path) -> None:
    notebook, error = execute(
        ["%%slurm --out x\nprint('hello')\ndisplay({'text/plain': 'figure'})\nx = 1", "x + 1"],
        jupyter_dirs,
    )
    assert error is None
    card, *_ = outputs = notebook.cells[1].outputs
    assert "done" in card.data["text/html"]
    assert "done" in card.data["text/plain"]
    assert set(card.data[MIME]) == {"v", "cluster", "id", "complete"}
    assert [one.text for one in outputs if one.output_type == "stream"] == ["hello\n"]
    assert notebook.cells[2].outputs[0].data["text/plain"] == "2"


def test_run_all_stops_at_a_failed_job(jupyter_dirs: Path) -> None:
    notebook, error = execute(["%%slurm\n1 / 0", "print('not reached')"], jupyter_dirs)
    assert error is not None
    assert error.ename == "CellFailed"
    assert notebook.cells[2].outputs == []
    failed = notebook.cells[1].outputs[-1]
    assert any("ZeroDivisionError" in line for line in failed.traceback)


SHOW_BOTH = """
from jupyter_slurm.magics.follow import Replay
from jupyter_slurm.wire import CellJob, JobState, LogChunk, Stream
texts = [("stderr", "a"), ("stdout", "b"), ("stderr", "c"), ("stdout", "d")]
job = CellJob(id="i", cluster="c", name="n", state=JobState.RUNNING, created_s=0, state_since_s=0)
outputs = tuple(Stream(name=name, text=text) for name, text in texts)
Replay("i", 1000, "full", lambda: None).show(LogChunk(job=job, outputs=outputs, cursor=""))
"""


def test_output_on_both_streams_keeps_its_order(kernel: Kernel) -> None:
    messages = kernel.run(SHOW_BOTH).messages
    shown = [m["content"]["text"] for m in messages if m["msg_type"] == "stream"]
    assert shown == ["a", "b", "c", "d"]


LOGIN = """
from jupyter_slurm.wire import QuestionKind
from tests.far import Asked
api.need_login(Asked(QuestionKind.SECRET, "Password:", "s3cret"))
"""


def input_request(kernel: Kernel) -> dict[str, Any]:
    """Return the kernel's input request."""
    message = kernel.client.get_stdin_msg(timeout=60)
    assert message["msg_type"] == "input_request"
    content: dict[str, Any] = message["content"]
    return content


def test_password_prompt_of_a_cell_is_masked_and_not_saved(kernel: Kernel) -> None:
    kernel.run(LOGIN)
    request = kernel.client.execute("%%slurm\nprint('there')", allow_stdin=True)
    question = input_request(kernel)
    assert question == {"prompt": "alice@gateway.example.org asks: Password: ", "password": True}
    kernel.client.input("s3cret")
    reply = kernel.reply(request)
    assert reply.content["status"] == "ok"
    assert reply.text.endswith("there\n")
    assert "s3cret" not in repr(reply)
