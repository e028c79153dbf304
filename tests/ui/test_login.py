"""Logins in JupyterLab, from the sidebar in dialogs and under a cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.cluster.plugin import SlurmCluster
from tests.ssh.odd_users import Person
from tests.ssh.plugin import MakeGateway
from tests.ssh.profile import write_profile
from tests.ui import apart
from tests.ui.lab import Lab, Notebook
from tests.ui.looks import fits, look
from tests.ui.side import open_sidebar

cluster, lab, lab_home = apart.cluster, apart.lab, apart.lab_home

Open = Callable[[Sequence[str]], Notebook]


def test_dialogs_prompt_for_host_key_password_and_code(
    lab: Lab,
    cluster: SlurmCluster,
    gateway: MakeGateway,
    person: Person,
    page: Page,
    tmp_path: Path,
) -> None:
    sshd = gateway("password", "code")
    lines = ("StrictHostKeyChecking ask", f"UserKnownHostsFile {tmp_path / 'known_hosts'}")
    lab.ssh_config.write_text(sshd.stanza("gate", *lines))
    write_profile(Path(cluster.env["JUPYTER_CONFIG_DIR"]), "gate", {"host": "gate"})
    sidebar = open_sidebar(page, lab)
    sidebar.get_by_role("button", name="Connect gate", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("code")).to_contain_text("SHA256:")
    look(page, "dialog-host-key", dialog.locator(".jp-slurm-Question"))
    dialog.get_by_role("button", name="Yes, remember this key").click()
    password = dialog.get_by_label("Password")
    expect(password).to_have_attribute("type", "password")
    look(page, "dialog-password", dialog.locator(".jp-slurm-Question"))
    page.set_viewport_size({"width": 320, "height": 700})
    fits(page, page.locator(".jp-Dialog-content"))
    password.fill(person.password)
    password.press("Enter")
    code = dialog.get_by_label("Verification code")
    code.fill(person.code())
    code.press("Enter")
    leave = sidebar.get_by_role("button", name="Disconnect gate")
    expect(leave).to_be_visible()
    leave.click()
    expect(sidebar.get_by_role("button", name="Connect gate", exact=True)).to_be_visible()


def test_cell_prompts_for_host_key_password_and_code(
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
    lab.ssh_config.write_text(sshd.stanza("gate2", *lines))
    write_profile(Path(cluster.env["JUPYTER_CONFIG_DIR"]), "gate2", {"host": "gate2"})

    notebook = opened(["%slurm login gate2", "%slurm connections"])
    notebook.run(0, 1)
    output = notebook.output(1)
    expect(output).to_contain_text("SHA256:")
    look(notebook.page, "host-key", output)
    notebook.answer(1, "yes/no", "yes")
    notebook.answer(1, "Password", person.password)
    expect(output.locator(".jp-Stdin input").last).to_have_attribute("type", "password")
    notebook.answer(1, "Verification code", person.code())
    notebook.ended(1)
    notebook.run(2)
    expect(notebook.output(2)).to_contain_text("open")
    assert known.read_text().startswith(f"[127.0.0.1]:{sshd.port} ")
    notebook.saved()
    assert person.password not in notebook.path.read_text()
