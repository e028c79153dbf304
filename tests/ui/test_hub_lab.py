"""A lab and a terminal under a real JupyterHub, in a browser that reaches no port of the machine
where Jupyter runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from jupyter_slurm.server.lab_proxy import SWITCHED_OFF
from tests.cluster.plugin import ROOT, SlurmCluster
from tests.server.served import Client
from tests.server.test_hub import start_hub
from tests.ssh.accounts import make_folder
from tests.ssh.kept import keeping
from tests.ssh.waiting import wait_until
from tests.ui import apart
from tests.ui.kept_page import new_context
from tests.ui.lab import at_rest, settings, submit_script
from tests.ui.side import Sbatch, row, runs
from tests.ui.test_remote import START_MS, job_of_a_notebook, start
from tests.ui.test_terminal import SCREEN, menu, shows, typed

cluster, lab_home = apart.cluster, apart.lab_home

MORE = """\
# All are this test's own user, each with a home of their own.
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = "{folder}/home/{{username}}"
c.Spawner.environment = {environment!r}
c.Spawner.args = ["--allow-root", "--LabApp.news_url="]
c.Spawner.default_url = "/lab"
"""
SWITCH = "lab_same_origin = true\n"


@dataclass(frozen=True)
class Hub:
    url: str
    token: str
    seen: Path
    """The requests to lab servers, as recorded."""


def switch(cluster: SlurmCluster, *, on: bool) -> None:
    text = cluster.profile_path.read_text().replace(SWITCH, "")
    cluster.profile_path.write_text((SWITCH if on else "") + text)


@pytest.fixture(scope="module")
def hub(
    cluster: SlurmCluster,
    lab_home: tuple[Path, dict[str, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Hub]:
    """Run a hub whose users share an agent, with labs that record requests."""
    home, env = lab_home
    tmp_path = tmp_path_factory.mktemp("labs")
    seen = tmp_path / "seen"
    enabled = tmp_path / "jupyter" / "jupyter_server_config.d" / "seen.json"
    enabled.parent.mkdir(parents=True)
    extensions = {"seen_by_the_lab": True}
    enabled.write_text(json.dumps({"ServerApp": {"jpserver_extensions": extensions}}))
    job_env = {
        "JUPYTER_CONFIG_PATH": str(enabled.parents[1]),
        "PYTHONPATH": str(Path(__file__).parent),
        "SEEN_BY_THE_LAB": str(seen),
        **settings(tmp_path),
    }
    profile = cluster.profile_path.read_text()
    table = "".join(f"{name} = {json.dumps(text)}\n" for name, text in job_env.items())
    others, _, _ = profile.partition("[job_env]")
    cluster.profile_path.write_text(f"{others}\n[job_env]\n{table}")
    with keeping() as keeper:
        folder = make_folder(keeper, "hub-")
        environment = env | settings(home) | {"PYTHONPATH": str(ROOT)}
        more = MORE.format(folder=folder, environment=environment)
        url, token = start_hub(keeper, folder, more)
        yield Hub(url, token, seen)
        admin, server = Client(url, token), "hub/api/users/ada/server"
        admin.ask("DELETE", server, None)
        wait_until(lambda: not admin.get("hub/api/users/ada").value["servers"], 60)
    cluster.profile_path.write_text(profile)


@pytest.fixture
def adas(page: Page, hub: Hub) -> Page:
    """Return Ada's JupyterLab."""
    logged_in(page, hub, "ada")
    page.wait_for_url(f"{hub.url}user/ada/lab*", timeout=START_MS)
    at_rest(page)
    return page


def logged_in(page: Page, hub: Hub, name: str, path: str = "") -> None:
    page.goto(hub.url + path)
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill("any")
    page.get_by_role("button", name="Sign in").click()


def requests(hub: Hub) -> list[dict[str, Any]]:
    return [json.loads(line) for line in hub.seen.read_text().splitlines()]


def test_lab_under_jupyterhub_uses_the_hubs_address_if_the_cluster_is_trusted(
    hub: Hub, adas: Page, browser: Browser, cluster: SlurmCluster
) -> None:
    form = adas.get_by_role("form", name="Jupyter on a node")
    switch(cluster, on=True)
    tab = start(adas, form, "on")
    below = re.compile(f"^{re.escape(hub.url)}user/ada/jupyter-slurm/lab-proxy/[a-z2-7]{{8}}/lab")
    tab.wait_for_url(below, timeout=START_MS)
    at_rest(tab)
    assert json.loads(tab.locator("#jupyter-config-data").inner_text())["token"] == ""
    assert cluster.job_state(job_of_a_notebook(tab)) == "RUNNING"
    bar = tab.get_by_role("group", name="Slurm job")
    expect(bar).to_contain_text(re.compile(r"min left.*End"))

    # The lab's server received requests for a page and its WebSockets, without credentials.
    seen = requests(hub)
    assert any("/channels" in one["uri"] for one in seen)
    assert any(one["uri"].partition("?")[0].endswith("/lab") for one in seen)
    names = {name.lower() for one in seen for name, _ in one["headers"]}
    assert not names & {"cookie", "x-xsrftoken", "referer", "forwarded", "x-real-ip", "origin"}
    assert not {name for name in names if name.startswith("x-forwarded")}
    cookies = [one["value"] for one in tab.context.cookies()]
    assert len(cookies) > 2
    told = hub.seen.read_text()
    assert not [text for text in (*cookies, hub.token) if text in told]

    # Another user of the hub is rejected, and so is a client without a user.
    lab_url = tab.url.partition("/lab-proxy/")[0] + "/lab-proxy/" + tab.url.split("/")[7] + "/"
    context = new_context(browser)
    thief = context.new_page()
    assert thief.request.get(f"{lab_url}api/kernels", max_redirects=0).status in {302, 403}
    logged_in(thief, hub, "bob", "hub/home")
    thief.wait_for_url(f"{hub.url}hub/home")
    refused = thief.goto(f"{lab_url}lab")
    assert refused is not None
    assert refused.status == 403
    context.close()

    # Disabling `lab_same_origin` takes effect at once.
    switch(cluster, on=False)
    of_a_page = {"Referer": f"{hub.url}user/ada/lab"}
    answer = tab.request.get(f"{lab_url}api/kernels", headers=of_a_page)
    assert (answer.status, answer.json()["message"]) == (403, SWITCHED_OFF)
    cluster.run("scancel", "--user", str(Path.home().owner()), check=False)


@pytest.mark.own_page
def test_terminal_in_a_job_works_under_jupyterhub(hub: Hub, adas: Page, sbatch: Sbatch) -> None:
    _, slurm_id = submit_script(adas, "far", "#!/bin/sh\nsleep 600\n")
    sbatch.ids.append(slurm_id)
    asked: list[str] = []
    adas.on("request", lambda request: asked.append(request.url))
    adas.on("websocket", lambda socket: asked.append(socket.url))
    adas.get_by_role("tab", name="Slurm").click()
    sidebar = adas.get_by_role("region", name="Slurm")
    expect(runs(sidebar).filter(has_text="far")).to_be_visible()

    menu(adas, row(sidebar, "far"), "Open a terminal")
    adas.locator(SCREEN).click()
    typed(adas, "echo =$SLURM_JOB_ID=")
    shows(adas, f"={slurm_id}=")

    ours = [url.split("://")[1] for url in asked if "/jupyter-slurm/" in url]
    below = f"{hub.url.split('://')[1]}user/ada/"
    assert ours
    assert not [url for url in ours if not url.startswith(below)]
