"""The time from a click in a job's panel until its dashboard appears.

    scripts/bench dashboards [--rounds 3] [--only NAME …]

Chromium and JupyterLab are real. Each round uses a new job on two nodes, whose dashboard was never
opened before.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from statistics import median
from typing import Final

from playwright.sync_api import Page, expect, sync_playwright

from tests.benchmarks.queue_pages import PATIENCE_MS
from tests.benchmarks.table import HEAD, Row, show, spread
from tests.benchmarks.whole_queue import environment_of, lab_of
from tests.cluster.image import made_engines_python
from tests.cluster.plugin import SlurmCluster, running_cluster
from tests.ssh.profile import write_profile
from tests.ui.conftest import CHROMIUM, OPTIONS
from tests.ui.kept_page import new_context
from tests.ui.lab import at_rest

_AT_MOST_S: Final = 3.0
_NODES: Final = "--nodes 2 --ntasks-per-node 1 --cpus-per-task 4"
_BOARDS: Final = {
    "ray": (f"--launch ray {_NODES}", "Open Ray's dashboard", "Recent jobs"),
    "dask": (f"--launch dask {_NODES}", "Open Dask's dashboard", "Data Transfer"),
    "tensorboard": ("--tensorboard logs", "Open TensorBoard", "No dashboards are active"),
}
"""The job's options, its button's label, and a text that the page shows when ready."""
_SENDS: Final = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "jupyter_slurm")
shell.run_cell("%%slurm --fresh --runtime none --detach " + sys.argv[1]).raise_error()
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=[*_BOARDS], default=[*_BOARDS])
    args = parser.parse_args()
    rows, lines = [], []
    with tempfile.TemporaryDirectory(prefix="bd") as name, sync_playwright() as playwright:
        folder = Path(name)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        with running_cluster(folder / "home", nodes=2, cpus=4) as cluster:
            told = tomllib.loads(cluster.profile_path.read_text(encoding="utf-8"))
            with lab_of(cluster, folder / "l") as lab:
                page = new_context(browser).new_page()
                page.set_default_timeout(PATIENCE_MS)
                page.goto(f"{lab.url}lab?token={lab.token}")
                at_rest(page)
                page.get_by_role("tab", name="Slurm").click()
                for board in args.only:
                    engines = "dashboards" if board == "ray" else "engines"
                    settings = {**told, "python": str(made_engines_python(engines))}
                    write_profile(cluster.profile_path.parents[2], cluster.name, settings)
                    took = [clicked(page, cluster, folder, board, n) for n in range(args.rounds)]
                    lines.append((board, f"{spread(took)} s"))
                    rows.append(Row(board, median(took), "what it may take", _AT_MOST_S, 1.0))
        browser.close()
    show("Medians", lines)
    show("Dashboards, from the click to the page", [HEAD, *(row.cells() for row in rows)])
    return 0 if all(row.ok for row in rows) else 1


def clicked(page: Page, cluster: SlurmCluster, folder: Path, board: str, number: int) -> float:
    """Return the seconds from the click to the dashboard."""
    options, button, shown = _BOARDS[board]
    name = f"{board}{number}"
    ready = folder / f"{name}.ready"
    code = f"import time\nopen({str(ready)!r}, 'w').close()\ntime.sleep(600)"
    sends = [sys.executable, "-c", _SENDS, f"--name {name} {options}\n{code}"]
    env = environment_of(cluster, folder / "l")
    subprocess.run(sends, env=env, check=True, timeout=60, capture_output=True, cwd=folder)
    while not ready.exists():
        page.wait_for_timeout(100)
    row = page.get_by_role("row", name=re.compile(rf"^{name}\b"))
    row.focus()
    row.press("Enter")
    opens = page.get_by_role("main").get_by_role("button", name=button)
    expect(opens).to_be_visible()
    with page.context.expect_page() as coming:
        began_s = time.monotonic()
        opens.click()
    expect(coming.value.locator("body")).to_contain_text(shown, timeout=PATIENCE_MS)
    took_s = time.monotonic() - began_s
    coming.value.close()
    page.get_by_role("main").get_by_role("tab", name=name, exact=True).click(button="middle")
    cluster.run("scancel", "--me")
    return took_s


if __name__ == "__main__":
    sys.exit(main())
