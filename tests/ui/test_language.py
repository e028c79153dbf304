"""Labels in the page's language, with messages from Python in English."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_output
from playwright.sync_api import Page, expect

from jupyter_slurm.views.card import MIME
from tests.cluster.plugin import ROOT, SlurmCluster
from tests.ui import apart
from tests.ui.lab import Lab, adopt, at_rest, running_lab
from tests.ui.looks import are_lines, look, look_as_it_is
from tests.ui.side import Sbatch, open_sidebar

cluster, lab_home = apart.cluster, apart.lab_home


@pytest.fixture(scope="module")
def lab(lab_home: tuple[Path, dict[str, str]], port_apart: int) -> Iterator[Lab]:
    """One whose user has chosen Portuguese."""
    home, env = lab_home
    chosen = home / "settings/@jupyterlab/translation-extension/plugin.jupyterlab-settings"
    chosen.parent.mkdir(parents=True)
    chosen.write_text(json.dumps({"locale": "pt_BR"}))
    for locale in ("ja_JP", "da_DK", "it_IT"):
        _empty_pack(home / "packs", locale)
    paths = os.pathsep.join([env["PYTHONPATH"], str(home / "packs")])
    with running_lab(env | {"PYTHONPATH": paths}, home, port_apart) as started:
        yield started


def test_jobs_are_told_of_in_portuguese(page: Page, lab: Lab, cluster: SlurmCluster) -> None:
    slurm_id = cluster.run("sbatch", "--parsable", "-H", "--wrap", "sleep 600").stdout.strip()
    page.goto(f"{lab.url}lab?token={lab.token}&reset")
    expect(page.get_by_role("button", name="Enviados daqui: nenhum job")).to_be_visible()
    names = {"v": 1, "cluster": "local", "id": adopt(page, slurm_id)}
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
    look(page, "portuguese", card)
    page.get_by_role("tab", name="Slurm").click()
    mine = page.get_by_role("treegrid").get_by_role("row", name=re.compile(", esperando, "))
    expect(mine).to_contain_text("retido")
    look(page, "portuguese-sidebar")
    card.get_by_role("button", name="Cancelar").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancelar o job").click()
    expect(card).to_contain_text("cancelado")


def _empty_pack(folder: Path, locale: str) -> None:
    """Stands for JupyterLab's own pack of a language, without which it loads nobody's catalogue."""
    name = f"jupyterlab_language_pack_{locale}"
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").touch()
    about = folder / f"{name}-0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\n")
    (about / "entry_points.txt").write_text(f"[jupyterlab.languagepack]\n{locale} = {name}\n")


@pytest.mark.parametrize("locale", ["pt_BR", "ja_JP", "da_DK", "it_IT"])
def test_sidebar_and_form_are_in_each_language_and_fit(
    page: Page, lab: Lab, sbatch: Sbatch, locale: str
) -> None:
    sbatch(f"{locale} held with a name that is longer than its line", "-H")
    words = json.loads(_catalogue(locale).read_text(encoding="utf-8"))
    _choose(page, lab, locale)
    try:
        sidebar = open_sidebar(page, lab)
        expect(sidebar.get_by_role("heading", name=words["My jobs"][0])).to_be_visible()
        mine = sidebar.get_by_role("treegrid").get_by_role("row").filter(has_text=locale)
        expect(mine).to_have_count(1)
        are_lines(mine)
        page.get_by_text(words["Slurm job"][0], exact=True).click()
        form = page.get_by_role("form", name=words["Slurm job"][0])
        form.get_by_label(words["Code"][0], exact=True).fill("1")
        expect(form.get_by_text(words["Expected to start immediately"][0])).to_be_visible()
        look(page, f"language-{locale}", form)
    finally:
        _choose(page, lab, "pt_BR")


def test_a_lab_that_waits_and_the_settings_page_are_in_the_users_language(
    page: Page, lab: Lab
) -> None:
    page.goto(f"{lab.url}lab?token={lab.token}&reset")
    at_rest(page)
    words = json.loads(_catalogue("pt_BR").read_text(encoding="utf-8"))
    page.get_by_text(words["Jupyter on a node…"][0], exact=True).click()
    form = page.get_by_role("form", name=words["Jupyter on a node"][0])
    form.get_by_text(words["More"][0], exact=True).click()
    form.get_by_label(words["Name"][0], exact=True).fill("meu")
    form.get_by_label(words["Other options"][0]).fill("--hold")
    with page.context.expect_page() as opened:
        form.get_by_role("button", name=words["Start"][0]).click()
    tab = opened.value
    expect(tab.locator("#why")).to_contain_text("On hold (by you).")
    expect(tab.locator("#why").get_by_role("code")).to_contain_text("scontrol release")
    title = words["%1 on %2"][0].replace("%1", "meu").replace("%2", "local")
    expect(tab.get_by_role("heading", name=title)).to_be_visible()
    expect(tab.locator("html")).to_have_attribute("lang", "pt-BR")
    look_as_it_is(tab, "portuguese-room")
    tab.reload()
    expect(tab.locator("#why")).to_contain_text("On hold (by you).")

    page.bring_to_front()
    page.keyboard.press("Control+,")
    page.locator(".jp-PluginList-wrapper input").first.fill("Slurm")
    expect(page.get_by_label("Avisar quando um job começa")).to_be_checked()


def _choose(page: Page, lab: Lab, locale: str) -> None:
    page.request.get(f"{lab.url}lab?token={lab.token}")  # which lets the browser in
    plugin = "lab/api/settings/@jupyterlab/translation-extension:plugin"
    chosen = page.request.put(
        f"{lab.url}{plugin}?token={lab.token}",
        data={"raw": json.dumps({"locale": locale})},
        headers={"X-XSRFToken": _xsrf(page)},
    )
    assert chosen.ok, chosen.text()


def _xsrf(page: Page) -> str:
    [value] = [one["value"] for one in page.context.cookies() if one["name"] == "_xsrf"]
    return value


def _catalogue(locale: str) -> Path:
    return ROOT / "jupyter_slurm" / "locale" / locale / "LC_MESSAGES" / "jupyter_slurm.json"
