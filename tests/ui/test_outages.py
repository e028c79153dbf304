"""Outages: a killed agent, a silent network, a lost cluster. The views show that they are outdated,
and recover."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Locator, Page, expect

from tests.cluster.plugin import SlurmCluster
from tests.ssh.accounts import PLAIN_SHELL, oneself
from tests.ssh.plugin import Delayed, MakeSshd
from tests.ui import apart
from tests.ui.four_views import FourViews, beside_one_another
from tests.ui.lab import Lab, Notebook

cluster, lab, lab_home = apart.cluster, apart.lab, apart.lab_home
_CELL = "%%slurm --detach\nimport time\ntime.sleep(600)"
_PATIENCE_MS = 60_000
"""A silent connection counts as lost after 20 to 25 s."""
_AWAY = "The Jupyter server cannot be reached."
_AGE = r"\d\d:\d\d(:\d\d)?"


def shown(page: Page, lab: Lab, name: str, cell: str = _CELL) -> FourViews:
    """Return a running job in all its views, with the nodes beside them."""
    lab.write(name, ["%load_ext jupyter_slurm", cell])
    notebook = Notebook(page, lab, name)
    notebook.run_all()
    views = beside_one_another(notebook)
    views.show_nodes()
    views.all_say("running")
    return views


def told_in(views: FourViews) -> dict[str, Locator]:
    """Return each view's text about its age."""
    page = views.page
    return {
        "card": views.card,
        "panel": views.panel,
        "sidebar": page.get_by_role("region", name="Slurm"),
        "queue": page.locator(".jp-slurm-QueueBar"),
        "nodes": page.locator(".jp-slurm-NodesHead").first,
    }


def expect_doubt(views: FourViews) -> None:
    """Assert that each view shows its age once, and keeps its content."""
    for where in told_in(views).values():
        expect(where.get_by_text(_AWAY)).to_have_count(1, timeout=_PATIENCE_MS)
        expect(where).to_contain_text(re.compile(_AGE))
    expect(views.page.get_by_role("button", name=_AWAY)).to_be_visible()
    views.all_say("running")


def expect_no_doubt(views: FourViews) -> None:
    for where in told_in(views).values():
        expect(where.get_by_text(_AWAY)).to_have_count(0)
    expect(views.page.get_by_role("button", name=_AWAY)).to_have_count(0)


def test_every_view_recovers_from_a_killed_agent_and_from_a_silent_network(
    page: Page,
    lab: Lab,
    lab_home: tuple[Path, dict[str, str]],
    delayed: Delayed,
    cluster: SlurmCluster,
    tmp_path: Path,
) -> None:
    """After each outage, every view shows the changes of the job."""
    line = delayed(urlsplit(lab.url).port or 0, 0.0)
    far = dataclasses.replace(lab, url=f"http://127.0.0.1:{line.port}/")
    gate = tmp_path / "gate"
    wait = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.1)"
    views = shown(page, far, "away.ipynb", f"%%slurm --detach --time 20\n{wait}\n1 / 0")

    def changed(*what: str) -> None:
        cluster.run("scontrol", "update", f"JobId={views.slurm_id}", *what)

    asked = [sys.executable, "-m", "jupyter_slurm", "status", "--json"]
    told = subprocess.run(asked, env=lab_home[1], capture_output=True, check=True)
    os.kill(json.loads(told.stdout)["agent"]["pid"], signal.SIGKILL)
    changed("JobName=replaced")
    views.all_say("replaced", "running")
    expect_no_doubt(views)

    line.freeze()
    expect_doubt(views)  # after a silent period
    changed("JobName=thawed")
    line.thaw()
    views.all_say("thawed", "running")
    expect_no_doubt(views)

    gate.touch()
    views.all_say_that_it_is_over("failed")


def test_lost_cluster_is_shown_as_lost_and_recovers(
    page: Page, lab: Lab, cluster: SlurmCluster, make_sshd: MakeSshd, delayed: Delayed
) -> None:
    sshd = make_sshd(PLAIN_SHELL, account=oneself())
    line = delayed(sshd.port, 0.0)
    known = lab.folder / "known_hosts"
    known.write_text("".join(sshd.known_hosts_lines()).replace(f":{sshd.port}", f":{line.port}"))
    ours = (f"Port {line.port}", f"UserKnownHostsFile {known}", "ServerAliveInterval 1")
    lab.ssh_config.write_text(sshd.stanza("far", *ours))
    told = cluster.profile_path.read_text(encoding="utf-8").splitlines(keepends=True)
    profile = cluster.profile_path.with_name("far.toml")
    profile.write_text('host = "far"\n' + "".join(i for i in told if not i.startswith("origin")))
    lab.write(
        "far.ipynb",
        ["%load_ext jupyter_slurm", _CELL.replace("--detach", "--cluster far --detach")],
    )
    notebook = Notebook(page, lab, "far.ipynb")
    notebook.run_all()
    card = notebook.card(1)
    expect(card).to_contain_text("running")
    page.get_by_role("tab", name="Slurm").click()
    far = page.get_by_role("list", name="Clusters").get_by_role("listitem").filter(has_text="far")
    expect(far).to_contain_text("connected since")
    line.freeze()
    expect(far).to_contain_text("because it no longer answers")
    expect(card).to_contain_text(re.compile(f"Last update ({_AGE})"))
    expect(card).to_contain_text("running")
    cluster.run("scancel", card.get_by_text(re.compile(r"^Job \d+ · far")).inner_text().split()[1])
    line.thaw()
    expect(far).to_contain_text("connected since")
    expect(card).to_contain_text("cancelled")
    expect(card).not_to_contain_text("Last update")
    profile.unlink()
