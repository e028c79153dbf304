"""Labels in the page's language. Messages from Python are in English."""

from __future__ import annotations

import json
import re

import nbformat
import pytest
from nbformat.v4 import new_output
from playwright.sync_api import Page, expect

from jupyter_slurm.views.card import MIME
from tests.cluster.plugin import SlurmCluster
from tests.ui import apart
from tests.ui.lab import Lab, submit_script
from tests.ui.looks import look, look_as_it_is

cluster, lab, lab_home = apart.cluster, apart.lab, apart.lab_home


def open_in(page: Page, lab: Lab, locale: str) -> None:
    """Open JupyterLab with this language in its settings."""
    settings = lab.folder.parent / "settings"
    path = settings / "@jupyterlab/translation-extension/plugin.jupyterlab-settings"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"locale": locale}))
    page.goto(f"{lab.url}lab?token={lab.token}&reset")


@pytest.mark.parametrize(
    ("locale", "title"),
    [("da_DK", "Mine job"), ("it_IT", "I miei job"), ("ja_JP", "自分のジョブ")],
)
def test_sidebar_is_in_the_language_of_the_settings(
    page: Page, lab: Lab, locale: str, title: str
) -> None:
    open_in(page, lab, locale)
    page.get_by_role("tab", name="Slurm").click()
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    look_as_it_is(page, f"sidebar-{locale}")


def test_card_and_row_of_a_job_are_in_portuguese(
    page: Page, lab: Lab, cluster: SlurmCluster
) -> None:
    open_in(page, lab, "pt_BR")
    expect(page.get_by_role("button", name="Enviados daqui: nenhum job")).to_be_visible()
    job_id, _ = submit_script(page, "fila", "#!/bin/sh\nsleep 600\n", hold="")
    names = {"v": 1, "cluster": "local", "id": job_id}
    expect(
        page.get_by_role("button", name="Slurm: Enviados daqui: 1 job esperando")
    ).to_be_visible()

    path = lab.write("fila.ipynb", ["1"])
    notebook = nbformat.read(path, as_version=4)
    data = {MIME: names, "text/plain": "job"}
    notebook.cells[0].outputs = [new_output("display_data", data)]
    nbformat.write(notebook, path)
    page.goto(lab.address(path.name))
    card = page.get_by_role("region", name="Job")
    expect(card).to_contain_text("esperando")
    expect(card).to_contain_text("retido")
    expect(card.get_by_role("button", name="Liberar")).to_be_visible()
    page.get_by_role("tab", name="Slurm").click()
    mine = page.get_by_role("treegrid").get_by_role("row", name=re.compile(", esperando, "))
    expect(mine).to_contain_text("retido")
    look(page, "portuguese-sidebar")
    card.get_by_role("button", name="Cancelar").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancelar o job").click()
    expect(card).to_contain_text("cancelado")
