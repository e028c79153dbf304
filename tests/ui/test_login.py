"""A login as a person in JupyterLab sees it: asked under the cell, and nothing of it is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from playwright.sync_api import expect

from tests.cluster.plugin import SlurmCluster
from tests.ssh.odd_users import Person
from tests.ssh.plugin import MakeGateway
from tests.ssh.profile import write_profile
from tests.ui import apart
from tests.ui.lab import Lab, Notebook
from tests.ui.looks import look

cluster, lab, lab_home = apart.cluster, apart.lab, apart.lab_home

Open = Callable[[Sequence[str]], Notebook]


def test_host_key_password_and_code_are_asked_under_the_cell(
    opened: Open,
    lab: Lab,
    cluster: SlurmCluster,
    gateway: MakeGateway,
    person: Person,
    tmp_path: Path,
) -> None:
    sshd = gateway("password", "code")
    known = tmp_path / "known_hosts"
    lines = ("StrictHostKeyChecking ask", f"UserKnownHostsFile {known}")
    lab.ssh_config.write_text(sshd.stanza("gate", *lines))
    write_profile(Path(cluster.env["JUPYTER_CONFIG_DIR"]), "gate", {"host": "gate"})

    notebook = opened(["%slurm login gate", "%slurm connections"])
    notebook.run(0, 1)
    output = notebook.output(1)
    expect(output).to_contain_text("SHA256:")
    look(notebook.page, "host-key", output)
    notebook.answer(1, "yes/no", "yes")
    notebook.answer(1, "Password", person.password)
    expect(output.locator(".jp-Stdin input").last).to_have_attribute("type", "password")
    look(notebook.page, "code", output)
    notebook.answer(1, "Verification code", person.code())
    notebook.ended(1)
    notebook.run(2)
    expect(notebook.output(2)).to_contain_text("open")
    look(notebook.page, "connected", output)
    assert known.read_text().startswith(f"[127.0.0.1]:{sshd.port} ")
    notebook.saved()
    assert person.password not in notebook.path.read_text()


def test_a_wrong_code_is_asked_again_and_escape_ends_the_login(
    opened: Open, lab: Lab, cluster: SlurmCluster, gateway: MakeGateway, person: Person
) -> None:
    lab.ssh_config.write_text(gateway("code").stanza("gate2"))
    write_profile(Path(cluster.env["JUPYTER_CONFIG_DIR"]), "gate2", {"host": "gate2"})
    notebook = opened(["%slurm login gate2", "print('never')"])
    notebook.run(0)
    notebook.run_all()
    notebook.answer(1, "Verification code", person.wrong_code())
    expect(notebook.output(1)).to_contain_text("asks again")
    notebook.interrupt()
    notebook.ended(1)
    expect(notebook.output(1)).to_contain_text("broken off")
    notebook.never_ran(2)
