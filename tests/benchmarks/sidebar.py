"""A sidebar with 5,000 jobs. It measures the page's memory, its frames during scrolling, and its
frames while a batch script or a cell writes a megabyte a second to the log beside it.

    scripts/bench sidebar [--jobs 5000] [--rate 1] [--seconds 10] [--rounds 5]

Chromium, JupyterLab, agent and Slurm are real. The 5,000 jobs are records of ended jobs. A frame's
length is the page's wait for it. On a shared machine, the CPU time of the page's longest task is a
better measure than the longest frame. Both are medians.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from playwright.sync_api import Browser, Page, expect, sync_playwright

from jupyter_slurm.jobs.records.registry import Record, Store
from jupyter_slurm.wire import JobState
from tests.benchmarks.table import show
from tests.benchmarks.whole_queue import environment_of, lab_of
from tests.cluster.plugin import SlurmCluster, jupyter_homes, running_cluster
from tests.specs import known
from tests.ui.conftest import CHROMIUM, OPTIONS
from tests.ui.kept_page import new_context
from tests.ui.lab import at_rest, submit_script

_MB: Final = 1_000_000
_MOST_MB: Final = 120
_MOST_MS: Final = 50
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz234567"
_SCROLLED: Final = """
async () => {
  const box = document.querySelector('.jp-slurm-Jobs .jp-slurm-Grid');
  for (let at = 0; at < 120; at += 1) {
    box.scrollTop += 960;
    await new Promise(done => requestAnimationFrame(done));
  }
  box.scrollTop = 0;
}
"""
"""Scroll by 40 rows in each frame."""
_WATCHED: Final = """
() => {
  window.bench = { frames: [], over: false };
  let before;
  const frame = now => {
    if (before !== undefined) bench.frames.push(now - before);
    before = now;
    if (!bench.over) requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}
"""
_NUMBER: Final = """
() => {
  const blocks = [...document.querySelectorAll('.jp-slurm-LogText .jp-slurm-LogBlock')];
  const lines = blocks.slice(-2).flatMap(block => block.textContent.split('\\n'));
  return Number(lines.findLast(line => line.endsWith('.')).split(' ')[0]);
}
"""
"""JavaScript that returns the number of the last complete line."""
_LINE_BYTES: Final = 76
_TASK: Final = "RunTask"
"""The name of a thread's uninterrupted work in Chromium's traces."""
_WRITES: Final = """
import sys, time
line = "of a log that does not end ".ljust(65, ".") + "\\n"
number = 0
began = time.monotonic()
while True:
    for _ in range({rate} // 20 // 76 + 1):
        sys.stdout.write(f"{{number:09}} {{line}}")
        number += 1
    sys.stdout.flush()
    time.sleep(max(0, began + number * 76 / {rate} - time.monotonic()))
"""
_SENDS: Final = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "jupyter_slurm")
shell.run_cell("%%slurm --fresh --runtime none --detach --name cell\\n" + sys.argv[1]).raise_error()
"""


@dataclass(frozen=True)
class Busy:
    """The longest frame by the clock and the longest task by its CPU time, in ms."""

    frame_ms: float
    task_ms: float


Line = tuple[str, str, str]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5_000)
    parser.add_argument("--rate", type=int, default=1, help="MB a second")
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds of each log")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bs") as name, sync_playwright() as playwright:
        folder = Path(name)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        record(Path(jupyter_homes(folder / "l")["JUPYTER_DATA_DIR"]), args.jobs)
        with (
            running_cluster(folder / "home", nodes=1, cpus=2) as cluster,
            lab_of(cluster, folder / "l") as lab,
        ):
            page = new_context(browser).new_page()
            page.goto(f"{lab.url}lab?token={lab.token}")
            at_rest(page)
            lines, ok = measured(browser, page, cluster, folder, args)
        browser.close()
    load = os.getloadavg()[0]
    show(f"A sidebar of many jobs (load {load:.1f})", [("what", "jupyter-slurm", ""), *lines])
    return 0 if ok else 1


def measured(
    browser: Browser, page: Page, cluster: SlurmCluster, folder: Path, args: argparse.Namespace
) -> tuple[list[Line], bool]:
    """Return the lines of the table, and whether the memory is within its budget."""
    closed_mb = heap_mb(page)
    page.get_by_role("tab", name="Slurm").click()
    head = page.get_by_role("row", name=re.compile(rf"^Ended .*\b{args.jobs:,}\b"))
    expect(head).to_be_visible()
    page.evaluate(_SCROLLED)  # compiled only at first use
    scrolled = [busy(browser, page, _SCROLLED) for _ in range(args.rounds)]
    lines = [
        (f"heap, {args.jobs:,} jobs, sidebar closed", f"{closed_mb:.0f} MB", ""),
        held("  sidebar open", open_mb := heap_mb(page)),
        *told("scrolled by 40 rows a frame: longest frame", scrolled),
    ]
    writes = _WRITES.format(rate=args.rate * _MB)
    submit_script(page, "script", "#!/usr/bin/env python3" + writes)
    of_script, script_mb = logged(browser, page, "script", args)
    cluster.run("scancel", "--me")
    sends = [sys.executable, "-c", _SENDS, writes]
    env = environment_of(cluster, folder / "l")
    subprocess.run(sends, env=env, check=True, timeout=60, capture_output=True)
    of_cell, cell_mb = logged(browser, page, "cell", args)
    return [*lines, *of_script, *of_cell], max(open_mb, script_mb, cell_mb) <= _MOST_MB


def logged(
    browser: Browser, page: Page, name: str, args: argparse.Namespace
) -> tuple[list[Line], float]:
    """Open the panel of a writing job, measure its log, and close it. Return the table's lines and
    the memory in MB."""
    row = page.get_by_role("row", name=re.compile(f"^{name}"))
    row.focus()
    row.press("Enter")
    expect(page.get_by_role("log", name="Output")).to_contain_text("of a log that does not end")
    page.wait_for_timeout(2_000)  # until the log has started, and the page has compiled its code
    began_s, first = time.monotonic(), page.evaluate(_NUMBER)
    rounds = [busy(browser, page, args.seconds * 1_000) for _ in range(args.rounds)]
    rate = (page.evaluate(_NUMBER) - first) * _LINE_BYTES / _MB / (time.monotonic() - began_s)
    mb = heap_mb(page)
    page.get_by_role("main").get_by_role("tab", name=name, exact=True).click(button="middle")
    what = f"log of a {name}, {rate:.1f} MB a second: longest frame"
    return [*told(what, rounds), held("  heap", mb)], mb


def busy(browser: Browser, page: Page, does: str | float) -> Busy:
    """Measure the page while it runs a script, or for a number of milliseconds."""
    browser.start_tracing(page=page, categories=["disabled-by-default-devtools.timeline"])
    page.evaluate(_WATCHED)
    if isinstance(does, str):
        page.evaluate(does)
    else:
        page.wait_for_timeout(does)
    frames: list[float] = page.evaluate("() => { bench.over = true; return bench.frames; }")
    return Busy(max(frames), longest_task_ms(json.loads(browser.stop_tracing())))


def longest_task_ms(trace: dict[str, Any]) -> float:
    """Return the CPU time of the longest task of the threads that run pages."""
    events = trace["traceEvents"]
    named = [one for one in events if one["name"] == "thread_name"]
    pages = {(one["pid"], one["tid"]) for one in named if one["args"]["name"] == "CrRendererMain"}
    tasks = [one for one in events if one["name"] == _TASK and (one["pid"], one["tid"]) in pages]
    # A task that started earlier has no CPU time.
    longest_us: int = max(one.get("tdur", 0) for one in tasks)
    return longest_us / 1_000


def told(what: str, rounds: Sequence[Busy]) -> list[Line]:
    frame_ms = median(one.frame_ms for one in rounds)
    task_ms = median(one.task_ms for one in rounds)
    return [
        (what, f"{frame_ms:.0f} ms", verdict(frame_ms, _MOST_MS, "ms")),
        ("  CPU of the longest task", f"{task_ms:.0f} ms", verdict(task_ms, _MOST_MS, "ms")),
    ]


def held(what: str, mb: float) -> Line:
    return (what, f"{mb:.0f} MB", verdict(mb, _MOST_MB, "MB"))


def verdict(value: float, most: int, unit: str) -> str:
    return "ok" if value <= most else f"MORE THAN {most} {unit}"


def record(data: Path, jobs: int) -> None:
    """Write records of `jobs` jobs that ended just now, as an agent would."""
    host = os.uname().nodename.split(".")[0]
    store = Store(data / "jupyter-slurm" / host)
    now_s = time.time()
    for number in range(jobs):
        digits = [_LETTERS[number // 32**place % 32] for place in range(8)]
        job = known(
            id="".join(digits),
            cluster="arandu",
            name=f"fit-{number}",
            slurm_id=str(1000 + number),
            state=JobState.COMPLETED,
            created_s=now_s - 3600,
            submitted_s=now_s - 3600,
            started_s=now_s - 1800,
            ended_s=now_s - number % 60,
            state_since_s=now_s - number % 60,
            nodes=("n1",),
            job_dir=f"/home/ana/.jupyter-slurm/{number}",
            delivered=True,
        )
        store.save(Record(job=job, spec=None))


def heap_mb(page: Page) -> float:
    """Return the heap after garbage collection, including JupyterLab's own."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used: float = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return used / _MB


if __name__ == "__main__":
    sys.exit(main())
