"""Delivery of an outcome: after the page's acknowledgement, or at once for clients that cannot
acknowledge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from jupyter_slurm.views.card import CARDS_VARIABLE, MIME
from tests.magics.fake import FakeApi
from tests.magics.shell import Shell

CELL = "%%slurm --name fit\nprint('the output')"


@dataclass
class Client:
    """The client of the next cell, as the kernel's request names it."""

    session: str = "page-1"
    metadata: dict[str, Any] = field(default_factory=lambda: {"cellId": "c1"})

    def get_parent(self, _channel: str) -> dict[str, Any]:
        return {"header": {"session": self.session}, "metadata": self.metadata}


@pytest.fixture
def client(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Return a client like JupyterLab with our extension."""
    made = Client()
    monkeypatch.setenv(CARDS_VARIABLE, "live")
    monkeypatch.setattr(shell.ip, "kernel", made)
    return made


def jobs(api: FakeApi) -> int:
    return len(api.jobs())


def test_cell_attaches_after_a_page_reload(shell: Shell, api: FakeApi, client: Client) -> None:
    shell.run(CELL)
    client.session = "page-2"
    ran = shell.run(CELL)
    assert "the output" in ran.out
    assert jobs(api) == 1
    shell.run(CELL)
    assert jobs(api) == 2


def test_acknowledged_outcome_is_not_shown_again(
    shell: Shell, api: FakeApi, client: Client
) -> None:
    shell.run(CELL)
    [job] = api.jobs()
    api.delivered(job.id)
    client.session = "page-2"
    shell.run(CELL)
    assert jobs(api) == 2


def test_attach_without_an_id_finds_the_job_of_another_page(shell: Shell, client: Client) -> None:
    shell.run(CELL)
    assert shell.run("%slurm attach").error is not None
    client.session = "page-2"
    assert "the output" in shell.run("%slurm attach").out


@pytest.mark.parametrize("cell", [CELL, "%%slurm\n1 / 0", "%%slurm --out nothing\n1"])
def test_last_card_is_marked_complete(shell: Shell, client: Client, cell: str) -> None:
    """This includes a failed cell, whose error follows the card."""
    *before, last = [one.data for one in shell.run(cell).shown if MIME in one.data]
    assert not any("complete" in card[MIME] for card in before)
    assert last[MIME]["complete"]
    assert "attach" not in last["text/html"]


@pytest.mark.parametrize(
    ("metadata", "namespace"),
    [({}, {}), ({"cellId": "c1"}, {"__vsc_ipynb_file__": "/home/ana/fit.ipynb"})],
    ids=["a console, or nbclient", "VS Code"],
)
def test_outcome_counts_as_delivered_at_once_for_other_clients(
    shell: Shell, api: FakeApi, client: Client, metadata: dict[str, Any], namespace: dict[str, str]
) -> None:
    client.metadata = metadata
    shell.ip.user_ns.update(namespace)
    shell.run(CELL)
    api.until(lambda api: [job.delivered for job in api.jobs()] == [True])
    client.session = "page-2"
    shell.run(CELL)
    assert jobs(api) == 2
