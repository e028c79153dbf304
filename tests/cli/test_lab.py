"""`jupyter slurm lab`, as people run it, on a real Slurm.

The browser is a program that says what it was told to open."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import requests

from jupyter_slurm.job import HUB_VARIABLE
from jupyter_slurm.wire import Job, JobState, LabEntry
from tests.agent.home import AgentHome
from tests.cli.test_cluster import Shell
from tests.cluster.plugin import ROOT, SlurmCluster
from tests.lab_visitor import LabVisitor
from tests.ssh.profile import write_profile
from tests.ssh.waiting import wait_until

PATIENCE_S = 120.0
BROWSER = """#!/bin/sh
printf '%s' "$1" >{told}
"""


@pytest.fixture
def shell(
    slurm_cluster: SlurmCluster,
    agent_home: AgentHome,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Shell]:
    profile = tomllib.loads(slurm_cluster.profile_path.read_text(encoding="utf-8"))
    config = tmp_path / "config"
    write_profile(config, slurm_cluster.name, {**profile, "python": sys.executable})
    browser = tmp_path / "browser"
    browser.write_text(BROWSER.format(told=tmp_path / "told"), encoding="utf-8")
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(config))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("SLURM_CONF", raising=False)
    shell = Shell(dict(os.environ), tmp_path)
    yield shell
    for lab in listed(shell):
        if not JobState(lab["state"]).final:
            shell.ok("lab", "stop", lab["id"])
    wait_until(lambda: all(JobState(one["state"]).final for one in listed(shell)), PATIENCE_S)


def listed(shell: Shell) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(shell.ok("lab", "list", "--json"))
    assert all(one["kind"] == "lab" for one in found)
    return found


def test_a_lab_is_started_opened_listed_and_stopped(shell: Shell, tmp_path: Path) -> None:
    assert "no labs" in shell.ok("lab", "list")
    code, out, err = shell.run("lab", "start", "--runtime", "none", "--name", "mine", "--idle=2h")
    assert code == 0, err
    [job] = listed(shell)
    assert out == f"{job['lab']['url']}\n"
    assert job["idle_s"] == 7200
    assert "JupyterLab starts." in err
    told = tmp_path / "told"
    wait_until(lambda: told.exists() and told.stat().st_size > 0)
    page = Path(told.read_text(encoding="utf-8").removeprefix("file://"))
    text = page.read_text(encoding="utf-8")
    assert page.stat().st_mode & 0o777 == 0o600
    assert f'action="{out.strip()}login?next=%2Flab"' in text
    [token] = set(re.findall(r'value="([0-9a-f]{64})"', text))
    assert token not in out + err + told.read_text(encoding="utf-8")

    told.unlink()
    assert shell.ok("lab", "open", "mine", "--no-browser") == out
    assert not told.exists()
    assert out.strip() in shell.ok("lab", "list")
    assert job["id"] in shell.ok("lab", "stop", "mine")
    wait_until(lambda: JobState(listed(shell)[0]["state"]).final, PATIENCE_S)
    assert listed(shell)[0]["why"] == "Shut down."
    wait_until(lambda: not page.exists())


def test_below_a_hub_a_lab_is_where_the_hub_shows_it_if_its_cluster_is_trusted(
    shell: Shell, tmp_path: Path
) -> None:
    """Its browsers are on other machines, so none is opened here."""
    hub = Shell(shell.env | {HUB_VARIABLE: "/user/ada%20l/"}, shell.cwd)
    profile = tmp_path / "config" / "jupyter-slurm" / "clusters.d" / "local.toml"
    profile.write_text("lab_same_origin = true\n" + profile.read_text(encoding="utf-8"))
    out = hub.ok("lab", "start", "--runtime", "none")
    [job] = listed(shell)
    base_url = f"/user/ada%20l/jupyter-slurm/lab-proxy/{job['id']}/"
    assert f" {base_url}lab " in out
    assert not (tmp_path / "told").exists()
    assert job["lab"]["base_url"] == base_url
    port = job["lab"]["port"]
    assert job["lab"]["url"].endswith(f".localhost:{port}{base_url}")
    visitor = LabVisitor(urlsplit(job["lab"]["url"]).netloc, port)
    assert visitor.get(f"{base_url}api").status_code == 200
    assert visitor.get("/api").status_code == 404
    hub.ok("lab", "stop")
    profile.write_text(profile.read_text(encoding="utf-8").replace("lab_same_origin = true\n", ""))
    hub.ok("lab", "start", "--runtime", "none", "--detach")
    assert listed(shell)[0]["lab"]["base_url"] == "/"


def test_a_lab_goes_on_under_another_name_after_the_agent_was_killed(shell: Shell) -> None:
    shell.ok("lab", "start", "--runtime", "none", "--no-browser")
    [told] = listed(shell)
    one = let_in(told)
    kernel = one.start_kernel()
    one.run(kernel, "kept = 42")
    pid = json.loads(shell.ok("status", "--json"))["agent"]["pid"]
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(requests.ConnectionError):
        one.get("/api/status")
    address = shell.ok("lab", "open", "--no-browser").strip()
    [again] = listed(shell)
    assert again["lab"] == told["lab"] | {"url": address}
    assert address != told["lab"]["url"]
    assert json.loads(shell.ok("status", "--json"))["agent"]["pid"] != pid
    assert one.get("/api/status").status_code == 421
    assert let_in(again).run(kernel, "print(kept)") == "42\n"


def let_in(lab: dict[str, Any]) -> LabVisitor:
    """As the page that `lab open` writes does it."""
    job = msgspec.convert(lab, Job)
    [page] = Path(os.environ["JUPYTER_RUNTIME_DIR"]).rglob(f"labs/{job.id}.html")
    text = page.read_text(encoding="utf-8")
    [token] = set(re.findall(r'value="([0-9a-f]{64})"', text))
    [login_url] = re.findall(r'action="([^"]+)"', text)
    one = LabVisitor.of(job)
    assert one.log_in(LabEntry(login_url=login_url, token=token)).status_code == 302
    return one


def test_a_lab_that_cannot_start_tells_why_and_what_to_do(shell: Shell, tmp_path: Path) -> None:
    """The node's Python is told that there is none."""
    hides = tmp_path / "hides" / "sitecustomize.py"
    hides.parent.mkdir()
    hides.write_text(
        "import importlib.util as util, shutil\n"
        "find, which = util.find_spec, shutil.which\n"
        "util.find_spec = lambda name, *more: None if name == 'jupyterlab' else find(name, *more)\n"
        "shutil.which = lambda name: None if name == 'jupyter-lab' else which(name)\n",
        encoding="utf-8",
    )
    code, out, err = shell.run(
        "lab", "start", "--runtime", "none", "--env", f"PYTHONPATH={hides.parent}"
    )
    assert code == 1
    assert "There is no JupyterLab for the lab to run." in err
    assert "pip install jupyterlab" in err
    assert (out + err).count("there is no JupyterLab for") == 1


def test_words_that_cannot_be_are_refused(shell: Shell) -> None:
    for words, said in (
        (("lab", "begin"), "There are: start, open, extend, stop, list"),
        (("lab", "start", "--in", "x"), "--in belongs to cells"),
        (("lab", "start", "--idle", "never"), "--idle"),
        (("lab", "open", "nosuch"), "There is no lab `nosuch`"),
        (("lab", "stop"), "There is no lab."),
        (("lab", "list", "x"), "`x` is one word too many"),
    ):
        code, _, err = shell.run(*words)
        assert code != 0
        assert said in err, err
