"""The whole queue in the browser, compared with jupyterlab-slurm.

    scripts/bench whole_queue [--jobs 50000] [--held 2000] [--tabs 1 5 20] [--minute 20]
                              [--peer FOLDER | --alone]

Chromium, JupyterLab's server, agent and Slurm are real. 50,000 jobs come from a generated listing,
printed by a stand-in for `squeue` on PATH. Another 2,000 jobs are real and held. Our panel and
jupyterlab-slurm 4.1.0 show them, each with default settings. `--peer` is a Python environment with
jupyterlab-slurm (default: a new environment). `--alone` omits the comparison.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, sync_playwright

from tests.benchmarks.queue_listing import CountedSqueue, counted_squeue
from tests.benchmarks.queue_pages import blank_lab, bytes_in, keystrokes, opened
from tests.benchmarks.table import show
from tests.cluster.plugin import ROOT, SlurmCluster, jupyter_homes, running_cluster
from tests.ui.conftest import CHROMIUM, OPTIONS
from tests.ui.lab import Lab, running_lab

PEER = "jupyterlab-slurm==4.1.0"
HEAD = ("what", "jobs", "jupyter-slurm", "jupyterlab-slurm 4.1.0", "at most")
_CHANGED = 100
_FRAMES = 200

Line = tuple[str, str, str, str, str]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--held", type=int, default=2_000, help="held jobs (0 for none)")
    parser.add_argument("--tabs", type=int, nargs="+", default=[1, 5, 20])
    parser.add_argument("--minute", type=float, default=20.0, help="seconds of counting squeue")
    beside_us = parser.add_mutually_exclusive_group()
    beside_us.add_argument("--peer", type=Path)
    beside_us.add_argument("--alone", action="store_true")
    args = parser.parse_args()
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="bq") as name, sync_playwright() as playwright:
        folder = Path(name)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        with running_cluster(folder / "home", nodes=1, cpus=8) as cluster:
            asked_as_usual(cluster)
            squeue = counted_squeue(folder / "counted", cluster.folder / "bin")
            squeue.list(args.jobs)
            with lab_of(cluster, folder / "o") as lab:
                lines += generated(browser, lab, squeue, args.jobs)
            squeue.listing.unlink()
            if args.held:
                lines += held_by_both(browser, squeue, cluster, args, folder)
        browser.close()
    show("The whole queue, in the browser", [HEAD, *lines])
    return 0


def held_by_both(
    browser: Browser,
    squeue: CountedSqueue,
    cluster: SlurmCluster,
    args: argparse.Namespace,
    folder: Path,
) -> list[Line]:
    peers = [] if args.alone else [peer_python(args.peer or folder / "peer")]
    hold(cluster, args.held)
    taken: list[list[Line]] = []
    for python in (sys.executable, *peers):
        ours = python not in peers
        with lab_of(cluster, folder / ("q" if ours else "p"), python) as lab:
            taken.append(held(browser, lab, squeue, cluster, args, ours=ours))
    if args.alone:
        return taken[0]
    return [beside(mine, theirs) for mine, theirs in zip(*taken, strict=True)]


@contextmanager
def lab_of(cluster: SlurmCluster, home: Path, python: str = sys.executable) -> Iterator[Lab]:
    """Run a JupyterLab. Its agent ends with it."""
    env = environment_of(cluster, home, python)
    try:
        with running_lab(env, home, python=python) as lab:
            yield lab
    finally:
        stop = [sys.executable, "-m", "jupyter_slurm", "agent", "stop"]
        subprocess.run(stop, env=env, check=False, timeout=60, capture_output=True)


def environment_of(
    cluster: SlurmCluster, home: Path, python: str = sys.executable
) -> dict[str, str]:
    """Return the environment of a JupyterLab and of other clients of its agent."""
    path = os.pathsep.join([str(Path(python).parent), cluster.env["PATH"]])
    env = {
        **cluster.env,
        **jupyter_homes(home),
        "JUPYTER_CONFIG_DIR": cluster.env["JUPYTER_CONFIG_DIR"],
        "PYTHONPATH": str(ROOT),
        "PATH": path,
    }
    if python != sys.executable:
        del env["PYTHONPATH"]
    return env


def asked_as_usual(cluster: SlurmCluster) -> None:
    """Poll as often as with default profiles. The tests' own profile polls every second."""
    text = cluster.profile_path.read_text()
    cluster.profile_path.write_text(re.sub(r"(?m)^poll_s = .*\n", "", text))


def peer_python(folder: Path) -> str:
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([python, "-m", "pip", "-qq", "install", "jupyterlab", PEER], check=True)
    return str(python)


def hold(cluster: SlurmCluster, jobs: int) -> None:
    """Submit real jobs on hold."""
    script = f'for i in $(seq {jobs}); do sbatch -Q -H -J "held $i" --wrap true; done'
    subprocess.run(["sh", "-c", script], env=cluster.env, cwd=cluster.folder / "jobs", check=True)


def generated(browser: Browser, lab: Lab, squeue: CountedSqueue, jobs: int) -> list[Line]:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page = blank_lab(context, lab, "generated")
    first = opened(page, ours=True)
    keys = keystrokes(
        page, [("", "471"), ("user:user", "12"), ("gpus>", "3"), ("eval ", "47")], ours=True
    )
    scrolled = page.evaluate(f"bench.scroll({_FRAMES})")
    page.evaluate("bench.frames()")
    squeue.list(jobs, changed=_CHANGED)
    seen = page.get_by_role("group", name="States").get_by_role("button", name="suspended")
    before = len(page.evaluate("bench.messages"))
    seen.wait_for()
    refreshed = [int(one["bytes"]) for one in page.evaluate("bench.messages")[before:]]
    busy = page.evaluate("bench.longest")
    context.close()

    def line(what: str, ours: str, most: str = "") -> Line:
        return (what, f"{jobs} generated", ours, "", most)

    return [
        line("click to first paint", f"{first.click_to_paint:.2f} s"),
        line("data in the browser to first paint", f"{first.data_to_paint:.2f} s", "1 s"),
        line("bytes of the first listing", f"{first.bytes:,}"),
        line("key in the filter to paint, median", f"{median(keys):.0f} ms", "100 ms"),
        line(f"key in the filter to paint, longest of {len(keys)}", f"{max(keys):.0f} ms"),
        line(f"blank frames of {_FRAMES} from top to end", str(scrolled["blank"]), "0"),
        line("frame while scrolling, median", f"{median(scrolled['lengths']):.0f} ms"),
        line(f"bytes of a refresh, {_CHANGED} jobs changed", f"{max(refreshed, default=0):,}"),
        line("longest frame around that refresh", f"{busy:.0f} ms"),
    ]


def held(
    browser: Browser,
    lab: Lab,
    squeue: CountedSqueue,
    cluster: SlurmCluster,
    args: argparse.Namespace,
    *,
    ours: bool,
) -> list[Line]:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page = blank_lab(context, lab, "held")
    first = opened(page, ours=ours)
    keys = keystrokes(page, [("", "72"), ("held ", "85")], ours=ours)
    cluster.run("scontrol", "update", f"jobid={args.held}", "jobname=another")
    told = bytes_in(page, args.minute)
    context.close()
    lines = [
        ("click to first paint", f"{first.click_to_paint:.2f} s"),
        ("data in the browser to first paint", f"{first.data_to_paint:.2f} s"),
        ("bytes of the first listing", f"{first.bytes:,}"),
        ("key in the filter to paint, median", f"{median(keys):.0f} ms"),
        ("key in the filter to paint, longest", f"{max(keys):.0f} ms"),
        (f"bytes in {args.minute:g} s, one job changed", f"{told:,}"),
    ]
    for tabs in args.tabs:
        opening, watching = processes(browser, lab, squeue, tabs, args.minute, ours=ours)
        for what, value in (*lines, (f"{tabs} tabs", f"{opening} to open, then {watching}")):
            sys.stderr.write(f"  {what}: {value}\n")
        lines.append((f"squeue processes to open {tabs} tabs", str(opening)))
        lines.append((f"squeue processes in {args.minute:g} s of {tabs} tabs", str(watching)))
    return [(what, f"{args.held} held", value, "", "") for what, value in lines]


def processes(
    browser: Browser, lab: Lab, squeue: CountedSqueue, tabs: int, seconds: float, *, ours: bool
) -> tuple[int, int]:
    """Count squeue processes while tabs open one after another, and while they then stay open."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    began = squeue.count
    for at in range(tabs):
        page = blank_lab(context, lab, f"tab{at}")
        opened(page, ours=ours)
    begun = squeue.count
    page.wait_for_timeout(seconds * 1000)
    ended = squeue.count
    context.close()
    return begun - began, ended - begun


def beside(ours: Line, theirs: Line) -> Line:
    return (ours[0], ours[1], ours[2], theirs[2], "")


if __name__ == "__main__":
    sys.exit(main())
