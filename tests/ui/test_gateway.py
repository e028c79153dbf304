"""JupyterLab and a browser on a laptop. Through a gateway with a password and a one-time code, they
reach a login node, and nodes that run an image."""

from __future__ import annotations

import re
import shlex
import shutil
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Playwright, expect

from tests.cluster.image import lean_copy
from tests.ssh.laptop import Laptop
from tests.ssh.site import Site
from tests.ssh.waiting import wait_until
from tests.ui.conftest import CHROMIUM, launched, new_page
from tests.ui.lab import Lab, at_rest, running_lab, show_more
from tests.ui.looks import SCREENSHOTS, look
from tests.ui.newcomer import Newcomer

START_MS = 120_000
"""Timeout for the start of JupyterLab on a busy machine."""
ADDRESS = re.compile(r"^http://lab-[a-z2-7]{8}-[0-9a-f]{20}\.localhost:\d+/lab")
_THERE, _INSIDE = Path(sysconfig.get_path("data")), "/mnt/jupyter"
_MOUNT = ("--mount", f"{_THERE}:{_INSIDE}")
_WHERE = f"import os; print(os.uname().nodename, os.listdir('{_INSIDE}/share'))"
_THAT_IS = re.compile(r"^c[12] \[.*'jupyter'")


@pytest.fixture
def ground() -> None:
    """Override the shared clean-up, since these tests share nothing with others."""


@pytest.fixture(scope="module")
def image(ssh_site: Site, demo_image: Path) -> Iterator[Path]:
    """Yield an image with only Python, readable for all users."""
    folder = lean_copy(demo_image, ssh_site.folder / "image")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def lab(laptop: Laptop, image: Path) -> Iterator[Lab]:
    """Run JupyterLab on the laptop before any login. The image has the same Python and no
    JupyterLab, so the tests' JupyterLab is mounted into it."""
    packages = Path(sysconfig.get_path("purelib")).relative_to(_THERE)
    laptop.home.write_profile(
        runtime="charliecloud",
        images={"jupyter": str(image)},
        defaults={"image": "jupyter", "mem": "2G"},
        job_env={
            "PYTHONPATH": f"{_INSIDE}/{packages}",
            "JUPYTERLAB_DIR": f"{_INSIDE}/share/jupyter/lab",
        },
    )
    laptop.slurm("kernel", "add", "--display-name", "Far away", *_MOUNT)
    home, machine = laptop.home, laptop.site.laptop_machine
    with running_lab(home.env, home.folder, machine=machine) as started:
        yield started
    site, far_home = laptop.site, laptop.site.person.account.home
    site.run("scancel", "--me")

    def left() -> str:
        return site.run("squeue", "--noheader").stdout

    wait_until(lambda: left() == "", 120, left)
    shutil.rmtree(far_home / ".jupyter", ignore_errors=True)  # the workspaces of the labs
    for path in (*far_home.glob("*.ipynb"), *far_home.glob("slurm-*.out")):
        path.unlink()


@pytest.fixture
def page(laptop: Laptop, lab: Lab, playwright: Playwright) -> Iterator[Page]:
    with page_on(laptop, lab, playwright) as page:
        yield page


@pytest.fixture
def newcomer(laptop: Laptop, playwright: Playwright) -> Iterator[Newcomer]:
    """Open a JupyterLab without clusters, on a laptop without known host keys."""
    laptop.home.write_profile().unlink()
    laptop.home.client.known_hosts.write_text("")
    home, machine = laptop.home, laptop.site.laptop_machine
    with (
        running_lab(home.env, home.folder, machine=machine) as lab,
        page_on(laptop, lab, playwright) as page,
    ):
        yield Newcomer(page)


@contextmanager
def page_on(laptop: Laptop, lab: Lab, playwright: Playwright) -> Iterator[Page]:
    """Open a page in a browser on the laptop."""
    program = laptop.home.folder / "chromium"
    argv = laptop.site.laptop_machine.argv(CHROMIUM)
    program.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n')
    program.chmod(0o700)
    with launched(playwright, program) as browser, new_page(browser) as page:
        page.goto(f"{lab.url}lab?token={lab.token}&reset")
        at_rest(page)
        yield page


def start(page: Page, name: str) -> Page:
    """Fill in the form, and return the new tab."""
    page.get_by_text("Jupyter on a node…", exact=True).click()
    form = page.get_by_role("form", name="Jupyter on a node")
    show_more(form)
    form.get_by_label("Name").fill(name)
    form.get_by_label("Other options").fill(shlex.join(_MOUNT))
    with page.context.expect_page() as opened:
        form.get_by_role("button", name="Start").click()
    return opened.value


def log_in(page: Page, laptop: Laptop) -> None:
    dialog = page.get_by_role("dialog")
    answer_questions(dialog, laptop)
    expect(dialog).to_have_count(0)


def answer_questions(dialog: Locator, laptop: Laptop) -> None:
    """Answer the questions in the gateway's order."""
    for question, answer in (
        ("Password", laptop.site.person.password),
        ("Verification code", laptop.site.person.code()),
    ):
        asked = dialog.get_by_label(question)
        asked.fill(answer)
        asked.press("Enter")


def first_cell(page: Page, kernel: str) -> Locator:
    """Return the first cell of a new notebook with that kernel."""
    page.get_by_text(kernel, exact=True).first.click()
    cell = page.locator(".jp-Notebook .jp-CodeCell").first
    expect(page.get_by_text("| Idle")).to_be_visible()
    return cell


def run(page: Page, cell: Locator, code: str) -> Locator:
    """Run the code in the cell, and return its output."""
    cell.locator(".cm-content").click()
    page.keyboard.insert_text(code)
    page.keyboard.press("Shift+Enter")
    return cell.locator(".jp-Cell-outputArea")


def test_one_login_serves_a_lab_and_a_remote_kernel(laptop: Laptop, lab: Lab, page: Page) -> None:
    site = laptop.site
    askings, logins = site.gateway.askings(), site.logins()
    in_the_way = site.run("sbatch", "--parsable", "--exclusive", "-N2", "--wrap", "sleep 600")
    room = start(page, "mine")
    expect(room.get_by_text("answer its questions in the other tab")).to_be_visible()
    log_in(page, laptop)
    expect(room.get_by_role("status")).to_contain_text("waiting")
    room.screenshot(path=SCREENSHOTS / "gateway-waits.png")
    site.run("scancel", in_the_way.stdout.strip())
    room.wait_for_url(ADDRESS, timeout=START_MS)
    at_rest(room)
    output = run(room, first_cell(room, "Python 3 (ipykernel)"), _WHERE)
    expect(output).to_contain_text(_THAT_IS)

    page.bring_to_front()
    output = run(page, first_cell(page, "Far away"), _WHERE)
    expect(output).to_contain_text(_THAT_IS, timeout=START_MS)
    assert (site.gateway.askings(), site.logins()) == (askings + 1, logins + 1)


def test_new_user_adds_a_cluster_behind_a_gateway_and_runs_a_job(
    laptop: Laptop, newcomer: Newcomer
) -> None:
    page, site = newcomer.page, laptop.site
    askings = site.gateway.askings()
    sidebar = newcomer.open_sidebar()
    newcomer.press(sidebar, "Connect to a cluster…")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Host").fill("nowhere")
    dialog.get_by_label("Host").press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("nowhere", timeout=START_MS)
    dialog.get_by_label("Host").fill("login")
    dialog.get_by_label("User").fill(site.person.account.name)
    expect(dialog.get_by_label("Name")).to_have_value("login")
    look(page, "new-cluster", dialog.locator(".jp-slurm-NewCluster").first)
    newcomer.press(dialog, "Connect")
    expect(dialog.get_by_text("Hop 1 of 2")).to_be_visible(timeout=START_MS)
    newcomer.press(dialog, "Yes, remember this key")
    answer_questions(dialog, laptop)
    expect(dialog.get_by_text("Hop 2 of 2")).to_be_visible(timeout=START_MS)
    newcomer.press(dialog, "Yes, remember this key")
    expect(dialog.get_by_text("debug").first).to_be_visible(timeout=START_MS)
    look(page, "new-cluster-found", dialog.locator(".jp-slurm-NewCluster"))
    newcomer.press(dialog, "Add cluster")
    code = "import os; print('on', os.uname().nodename)"
    newcomer.run_first_job(sidebar, code, re.compile("^on c[12]"))
    assert site.gateway.askings() == askings + 1
