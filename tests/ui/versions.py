"""The main views in each version of JupyterLab and Notebook 7 that the README names.

    scripts/versions [jupyterlab==4.2 notebook==7.2 …]

It uses a real Chromium, a real Slurm, and a real server with the wheel, that version, and the
newest of all other packages. A cell runs as a job, and another cell stays in the queue.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from playwright.sync_api import Error, Page, expect

from tests.benchmarks.whole_queue import environment_of
from tests.cluster.plugin import running_cluster
from tests.server.served import agent_of, short_home
from tests.test_wheel import built, checkout, environment_to_build_in, pip, run
from tests.ui.conftest import chromium
from tests.ui.kept_page import new_context
from tests.ui.lab import Lab, at_rest, running_lab

VERSIONS: Final = ("jupyterlab==4.2", "jupyterlab==4.4", "jupyterlab", "notebook==7.2", "notebook")
_OK: Final = re.compile(r"jupyter-slurm v\S+ \S*enabled\S* \S*OK")
_CELLS: Final = (
    "%load_ext jupyter_slurm",
    "%%slurm --runtime none --name first\n6 * 7",
    "%%slurm --runtime none --name second --hold --detach\n1",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cache", type=Path)
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="versions-") as name:
        folder = Path(name)
        env = environment_to_build_in(folder / "build")
        wheel = built("--wheel", checkout(folder / "source"), folder / "wheel", env)
        works = [shown(args.cache / one, one, wheel) for one in args.versions]
    return 0 if all(works) else 1


def shown(environment: Path, name: str, wheel: Path) -> bool:
    """Print whether the main views open in that version, and the seconds that it took."""
    front_end = name.partition("=")[0]
    install(environment, name, wheel)
    ask = f"import importlib.metadata as it; print(it.version({front_end!r}))"
    version = run([environment / "bin" / "python", "-c", ask]).strip()
    began_s = time.monotonic()
    try:
        listed = run([environment / "bin" / "jupyter", "labextension", "list"])
        assert _OK.search(listed), listed
        opens(environment, front_end)
        told = f"ok, in {time.monotonic() - began_s:.0f} s"
    except (AssertionError, Error) as exc:
        told = f"FAILED: {exc}"
    sys.stdout.write(f"{front_end} {version}: {told}\n")
    sys.stdout.flush()
    return told.startswith("ok")


def install(environment: Path, name: str, wheel: Path) -> None:
    if not (environment / "bin" / "python").exists():
        run([sys.executable, "-m", "venv", "--without-pip", environment])
    wanted = f"{name}.*" if "==" in name else name
    pip(environment, "install", "--no-compile", "--upgrade", wheel, wanted)
    # All wheels have the same version, and pip would keep the installed wheel.
    pip(environment, "install", "--no-compile", "--no-deps", "--force-reinstall", wheel)


def opens(environment: Path, front_end: str) -> None:
    with short_home() as home, running_cluster(home / "c", nodes=1, cpus=2) as cluster:
        python = str(environment / "bin" / "python")
        env = {**environment_of(cluster, home, python), "HOME": str(home), "LANG": "C.UTF-8"}
        with (
            agent_of(env),
            running_lab(env, home, python=python, front_end=front_end) as lab,
            chromium() as browser,
        ):
            page = new_context(browser).new_page()
            complaints: list[str] = []
            page.on("pageerror", lambda error: complaints.append(str(error)))
            run_cells(page, lab, front_end)
            main_views_come(page)
    assert [one for one in complaints if "slurm" in one.lower()] == []


def run_cells(page: Page, lab: Lab, front_end: str) -> None:
    path = lab.write("one.ipynb", _CELLS)
    below = "lab/tree" if front_end == "jupyterlab" else "notebooks"
    page.goto(f"{lab.url}{below}/{path.name}?token={lab.token}")
    if front_end == "jupyterlab":
        at_rest(page)
        expect(page.get_by_text("| Idle")).to_be_visible()  # cells do not run before this
    else:  # Notebook's logo appears with the kernel and is the only sign of its start
        expect(page.get_by_role("banner").get_by_role("img", name="Python 3")).to_be_visible()
    page.locator(".jp-Notebook .jp-CodeCell .cm-content").first.click()
    for _ in _CELLS:
        page.keyboard.press("Shift+Enter")


def main_views_come(page: Page) -> None:
    card = page.get_by_role("region", name="Job first")
    expect(card).to_contain_text("done")
    expect(page.locator(".jp-OutputArea-output").filter(has_text="42")).to_be_visible()
    expect(page.get_by_role("region", name="Job second")).to_contain_text("waiting")
    card.get_by_role("button", name="Open", exact=True).click()
    expect(page.get_by_role("log", name="Output")).to_be_visible()
    page.get_by_role("tab", name="Timeline", exact=True).click()
    expect(page.get_by_role("tabpanel", name="Timeline")).to_contain_text("Succeeded.")
    command(page, "Show Slurm jobs")
    sidebar = page.get_by_role("region", name="Slurm")
    expect(sidebar.get_by_role("row", name=re.compile("^second"))).to_be_visible()
    expect(sidebar.get_by_role("row", name="Ended today 1")).to_be_visible()
    command(page, "Slurm queue")
    queue = page.get_by_role("grid", name="Queue \N{EN DASH} local")
    expect(queue.get_by_role("row", name=re.compile("second"))).to_be_visible()
    command(page, "New Slurm job")
    expect(page.get_by_role("button", name="Submit", exact=True)).to_be_visible()


def command(page: Page, label: str) -> None:
    """Run a command from the palette. The caller waits for its effect, which takes the focus."""
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Shift+c")
    palette = page.locator(".lm-CommandPalette")
    palette.get_by_role("textbox").fill(label)
    palette.get_by_role("menuitem", name=label).first.click()


if __name__ == "__main__":
    sys.exit(main())
