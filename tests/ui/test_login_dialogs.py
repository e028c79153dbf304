"""A login from the sidebar: its questions as dialogs, each by its kind."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.cluster.plugin import SlurmCluster
from tests.ssh.odd_users import Person
from tests.ssh.plugin import MakeGateway
from tests.ssh.profile import write_profile
from tests.ui import apart
from tests.ui.lab import Lab, at_rest
from tests.ui.looks import look

cluster, lab, lab_home = apart.cluster, apart.lab, apart.lab_home


def opened(page: Page, lab: Lab) -> Locator:
    page.goto(f"{lab.url}lab?token={lab.token}&reset")
    at_rest(page)
    page.get_by_role("tab", name="Slurm").click()
    return page.get_by_role("region", name="Slurm")


def test_host_key_password_and_code_are_asked_in_dialogs(
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
    sidebar = opened(page, lab)
    sidebar.get_by_role("button", name="Connect gate", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("code")).to_contain_text("SHA256:")
    look(page, "dialog-host-key", dialog.locator(".jp-slurm-Question"))
    dialog.get_by_role("button", name="Yes, remember this key").click()
    password = dialog.get_by_label("Password")
    expect(password).to_have_attribute("type", "password")
    look(page, "dialog-password", dialog.locator(".jp-slurm-Question"))
    password.fill(person.password)
    password.press("Enter")
    code = dialog.get_by_label("Verification code")
    code.fill(person.code())
    code.press("Enter")
    leave = sidebar.get_by_role("button", name="Disconnect gate")
    expect(leave).to_be_visible()
    look(page, "connected-sidebar", sidebar.locator(".jp-slurm-SidebarBody"))
    leave.click()
    expect(sidebar.get_by_role("button", name="Connect gate", exact=True)).to_be_visible()


def test_what_is_given_up_is_said_and_what_another_tab_answers_disappears(
    lab: Lab, cluster: SlurmCluster, gateway: MakeGateway, person: Person, page: Page
) -> None:
    lab.ssh_config.write_text(gateway("password").stanza("gate2"))
    write_profile(Path(cluster.env["JUPYTER_CONFIG_DIR"]), "gate2", {"host": "gate2"})
    sidebar = opened(page, lab)
    sidebar.get_by_role("button", name="Connect gate2", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Give up the login").click()
    expect(page.get_by_text("The login to gate2 was given up")).to_be_visible()

    sidebar.get_by_role("button", name="Connect gate2", exact=True).click()
    expect(dialog.get_by_label("Password")).to_be_visible()
    other = page.context.new_page()
    theirs = opened(other, lab)
    theirs.get_by_role("button", name="Answer… gate2").click()
    password = other.get_by_role("dialog").get_by_label("Password")
    password.fill(person.password)
    password.press("Enter")
    # Since when it is connected is seen until Slurm, which this account cannot ask, was asked.
    expect(theirs.get_by_role("button", name="Disconnect gate2")).to_be_visible()
    expect(dialog).to_have_count(0)
    expect(sidebar.get_by_role("button", name="Disconnect gate2")).to_be_visible()
