"""The job panel with a long log.

    scripts/bench log [--mb 100] [--rate 5] [--seconds 20]

Chromium, JupyterLab, agent and Slurm are real. A job writes 100 MB at once, and then 5 MB a second.
Times are by the page's own clock, and end at the frame that shows the log's last line.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

import psutil
from playwright.sync_api import CDPSession, Page, expect, sync_playwright

from tests.benchmarks.queue_pages import blank_lab
from tests.benchmarks.table import show
from tests.benchmarks.whole_queue import lab_of
from tests.cluster.plugin import SlurmCluster, running_cluster
from tests.ssh.waiting import wait_until
from tests.ui.conftest import CHROMIUM, OPTIONS
from tests.ui.lab import Lab, submit_script

HEAD = ("what", "jupyter-slurm")
_MB = 1_000_000
_LINE_BYTES = 76
# Arguments: the number of initial lines, the file to wait for, then bytes per second, and seconds.
_JOB = f"""#!/usr/bin/env python3
import os, sys, time
lines, go, rate, seconds = sys.argv[1:5]
at = 0
def write(more):
    global at
    for number in range(at, at + more):
        sys.stdout.write(f"line {{number:09}} of a long log".ljust({_LINE_BYTES - 1}, ".") + "\\n")
    sys.stdout.flush()
    at += more
write(lines)
while not os.path.exists(go):
    time.sleep(0.05)
end = time.time() + seconds
while time.time() < end:
    write(rate // 20 // {_LINE_BYTES})
    time.sleep(0.05)
print("the last", flush=True)
time.sleep(600)
"""
# Resolves with the time of the frame that shows this text at the end of the log.
_SEEN = """
async text => {
  const frame = () => new Promise(done => requestAnimationFrame(done));
  for (;;) {
    const box = document.querySelector('.jp-slurm-LogText');
    const last = [...(box?.querySelectorAll('.jp-slurm-LogBlock') ?? [])].at(-1);
    if (last?.textContent.includes(text)) {
      const inner = last.getBoundingClientRect().bottom;
      if (Math.abs(inner - box.getBoundingClientRect().bottom) < 60) break;
    }
    await new Promise(done => setTimeout(done, 50)); // to look costs the page something itself
  }
  await frame();
  return performance.now();
}
"""


@dataclass(frozen=True)
class Cost:
    """The CPU time used, in seconds, and the memory held, in MB."""

    page_s: float
    heap_mb: float
    agent_s: float
    agent_mb: float
    server_s: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--rate", type=int, default=5, help="MB a second")
    parser.add_argument("--seconds", type=int, default=20, help="seconds of writing at this rate")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bl") as name, sync_playwright() as playwright:
        folder = Path(name)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        with (
            running_cluster(folder / "home", nodes=1, cpus=2) as cluster,
            lab_of(cluster, folder / "l") as lab,
        ):
            page = blank_lab(browser.new_context(), lab, "log")
            lines = measured(page, lab, cluster, args)
        browser.close()
    show("A long log, in the job panel", [HEAD, *lines])
    return 0


def measured(
    page: Page, lab: Lab, cluster: SlurmCluster, args: argparse.Namespace
) -> list[tuple[str, str]]:
    go = cluster.folder / "jobs" / "go"
    count = args.mb * _MB // _LINE_BYTES
    output = cluster.folder / "jobs" / "long.out"
    code = _JOB.replace("sys.argv[1:5]", repr((count, str(go), args.rate * _MB, args.seconds)))
    job_id, _ = submit_script(page, "long log", code, output=str(output))
    wait_until(lambda: output.exists() and output.stat().st_size >= count * _LINE_BYTES)
    meter = Meter(page)
    row = page.get_by_role("row", name=re.compile("^long log"))
    page.get_by_role("tab", name="Slurm").click()
    expect(row).to_be_visible(timeout=60_000)
    before = meter.read()
    row.focus()
    began_ms = page.evaluate("performance.now()")
    row.press("Enter")
    opened_s = (page.evaluate(_SEEN, f"line {count - 1:09}") - began_ms) / 1000
    first = meter.read()
    told = sum(one["bytes"] for one in page.evaluate("bench.messages"))
    page.get_by_label("Find in the output").fill(f"{count - 100:09}")
    expect(page.get_by_role("search").get_by_role("status")).to_contain_text("1 of 1")
    page.get_by_label("Find in the output").fill("")
    page.get_by_role("log", name="Output").press("Home")
    page.get_by_role("button", name="Load more").click()
    page.wait_for_function("bench.messages.some(one => one.bytes > 16e6)")
    page.get_by_role("button", name="Follow", exact=True).click()
    page.evaluate(_SEEN, f"line {count - 1:09}")
    more = meter.read()
    go.touch()
    began = time.time()
    page.evaluate(_SEEN, "the last")
    took_s = time.time() - began
    behind_s = time.time() - output.stat().st_mtime
    followed = meter.read()
    download_s, size, grown_mb = downloaded(lab, job_id)
    return [
        (f"{args.mb} MB: key to the end in sight", f"{opened_s:.2f} s"),
        ("  CPU of the page", f"{first.page_s - before.page_s:.2f} s"),
        ("  CPU of the agent", f"{first.agent_s - before.agent_s:.2f} s"),
        ("  bytes to the page", f"{told:,}"),
        ("  heap of the page", f"{before.heap_mb:.0f} -> {first.heap_mb:.0f} MB"),
        ("heap with all that can be loaded", f"{more.heap_mb:.0f} MB"),
        (f"{args.rate} MB/s for {args.seconds} s: last line written to seen", f"{behind_s:.2f} s"),
        ("  CPU of the page, each second", f"{(followed.page_s - more.page_s) / took_s:.2f} s"),
        ("  CPU of the server", f"{(followed.server_s - more.server_s) / took_s:.2f} s"),
        ("  CPU of the agent", f"{(followed.agent_s - more.agent_s) / took_s:.2f} s"),
        ("  heap of the page after it", f"{followed.heap_mb:.0f} MB"),
        ("  memory of the agent after it", f"{followed.agent_mb:.0f} MB"),
        (f"download of {size / _MB:.0f} MB", f"{download_s:.1f} s"),
        ("  by which the server grew", f"{grown_mb:.0f} MB"),
    ]


class Meter:
    def __init__(self, page: Page) -> None:
        self._cdp: CDPSession = page.context.new_cdp_session(page)
        self._cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
        status = page.evaluate(
            """async () => {
              const url = document.baseURI.replace(/lab\\b.*/, 'jupyter-slurm/api/status');
              return await (await fetch(url)).json();
            }"""
        )
        self._agent = psutil.Process(status["pid"])

    def read(self) -> Cost:
        self._cdp.send("HeapProfiler.collectGarbage")
        told = self._cdp.send("Performance.getMetrics")["metrics"]
        page = {one["name"]: one["value"] for one in told}
        agent = self._agent.cpu_times()
        server = server_process().cpu_times()
        return Cost(
            page_s=page["TaskDuration"],
            heap_mb=page["JSHeapUsedSize"] / _MB,
            agent_s=agent.user + agent.system,
            agent_mb=self._agent.memory_info().rss / _MB,
            server_s=server.user + server.system,
        )


def server_process() -> psutil.Process:
    """Return the process of the running JupyterLab."""
    children = psutil.Process().children()
    return next(one for one in children if "jupyterlab" in one.cmdline())


def downloaded(lab: Lab, job_id: str) -> tuple[float, int, float]:
    """Return the seconds, the bytes, and the server's peak growth in MB."""
    server = server_process()
    before = most = server.memory_info().rss
    url = f"{lab.url}jupyter-slurm/api/logfile?job_id={job_id}"
    began = time.monotonic()
    size = 0
    with urlopen(Request(url, headers={"Authorization": f"token {lab.token}"})) as answer:
        while piece := answer.read(1 << 20):
            size += len(piece)
            most = max(most, server.memory_info().rss)
    return time.monotonic() - began, size, (most - before) / _MB


if __name__ == "__main__":
    sys.exit(main())
