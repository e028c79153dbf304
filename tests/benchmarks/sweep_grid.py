"""The grid of a sweep of 10,000 tasks, in its card in Chromium.

Chromium, JupyterLab, agent and Slurm are real, but no task runs. The job is a record in the agent's
folder. This program writes the files by which `job.sh` and the runner report starts and ends, those
of 100 tasks at once. The tasks are in random order, so that the lists of a state's tasks have
almost no ranges. Slurm does not list the job, so it is recorded as submitted in the future: only
later listings would end its tasks.

An update begins with the message that has the new states. It ends after the frame that shows the
drawn grid. On a shared machine, the CPU time of the page's main thread is a better measure than its
time by the clock. The model reports changes after 16 ms, and a frame waits for the screen, so the
page is mostly idle between the two moments.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import random
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from statistics import median
from typing import Any, Final

import nbformat
from nbformat.v4 import new_code_cell, new_notebook, new_output
from playwright.sync_api import Browser, Page, expect, sync_playwright

from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.outcome.array_tasks import runs
from jupyter_slurm.jobs.records.registry import Record, Store, TaskArray
from jupyter_slurm.wire import JobKind, JobState
from tests.benchmarks.table import show
from tests.benchmarks.whole_queue import asked_as_usual, lab_of
from tests.cluster.plugin import jupyter_homes, running_cluster
from tests.specs import known
from tests.ui.conftest import CHROMIUM, OPTIONS
from tests.ui.kept_page import new_context
from tests.ui.lab import Lab, at_rest

HEAD: Final = ("what", "takes", "at most", "")
TASKS: Final = 10_000
CHANGED: Final = 100
_FIRST_MS: Final = 1_000
_UPDATE_MS: Final = 16
_ID: Final = "gridgrid"
_MIME: Final = "application/vnd.jupyter-slurm.job+json"
_DAY_S: Final = 86_400.0
_RUN_S: Final = 0.2
_MARKED: Final = """
(() => {
  const bench = (window.bench = { painted: 0 });
  const Native = window.WebSocket;
  window.WebSocket = class extends Native {
    constructor(...args) {
      super(...args);
      this.addEventListener('message', ({ data }) => {
        if (data.length > 10_000) performance.mark('news');
      });
    }
  };
  // The painter calls this once for each drawing.
  const { setTransform } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.setTransform = function (...args) {
    setTransform.apply(this, args);
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => {
        performance.mark('painted');
        bench.painted += 1;
        bench.heard?.();
      };
      port2.postMessage(null);
    });
  };
  bench.until = async count => {
    while (bench.painted < count) await new Promise(done => (bench.heard = done));
  };
  new MutationObserver((_, observer) => {
    if (document.querySelector('.jp-slurm-CardHost')) {
      performance.mark('card');
      observer.disconnect();
    }
  }).observe(document, { childList: true, subtree: true });
  document.addEventListener('dblclick', () => performance.mark('opened'), { capture: true });
})();
"""
"""Script that marks the time of the message, of the card, and of the end of each frame after a
drawing."""
_FIRST: Final = """
() => Object.fromEntries(
  ['opened', 'card', 'painted'].map(name => [name, performance.getEntriesByName(name)[0].startTime])
)
"""
_TRACED: Final = ["disabled-by-default-devtools.timeline", "blink.user_timing"]


class Sweep:
    """The record and files of a sweep. `job.sh` and the runner would write the same files."""

    def __init__(self, data: Path, folder: Path) -> None:
        self._dir = JobDir(PurePosixPath(folder))
        folder.mkdir(parents=True)
        tasks = list(range(TASKS))
        random.Random(1).shuffle(tasks)
        done, failed = tasks[:1500], tasks[1500:2000]
        self._running, self._waiting = tasks[2000:4500], tasks[4500:]
        states = {
            **dict.fromkeys(done, "COMPLETED"),
            **dict.fromkeys(failed, "FAILED"),
            **dict.fromkeys(self._running, "RUNNING"),
            **dict.fromkeys(self._waiting, "PENDING"),
        }
        now_s = time.time()
        job = known(
            id=_ID,
            kind=JobKind.SWEEP,
            cluster="local",
            name="tries",
            slurm_id="1000000",
            arrays=("1000000",),
            state=JobState.RUNNING,
            created_s=now_s,
            submitted_s=now_s,
            started_s=now_s,
            state_since_s=now_s,
            nodes=("n1",),
            job_dir=str(folder),
            tasks=runs(states.items()),
        )
        array = TaskArray(
            token=_ID,
            tasks=f"0-{TASKS - 1}",
            slurm_id="1000000",
            sbatch_calls=1,
            submitted_s=now_s + _DAY_S,
        )
        store = Store(data / "jupyter-slurm" / os.uname().nodename.split(".")[0])
        store.save(Record(job=job, spec=None, arrays=(array,)))
        self._key = store.new_key(_ID)

    def go_on(self, turn: int) -> None:
        """Start 100 tasks in even turns, and end 100 tasks in odd turns."""
        source = self._running if turn % 2 else self._waiting
        some, source[:] = source[:CHANGED], source[CHANGED:]
        for task in some:
            if turn % 2:
                self._end(task, exit_code=int(task % 10 == 0))
            else:
                self._start(task)
                self._running.append(task)
        with Path(self._dir.news).open("a") as news:
            news.write("".join(f"{task} 0\n" for task in some))

    def _start(self, task: int) -> None:
        self._write(task, "started", {"slurm_id": str(task), "node": "n1", "time_s": time.time()})

    def _end(self, task: int, exit_code: int) -> None:
        now_s = time.time()
        self._start(task)
        result = {
            "status": "error" if exit_code else "ok",
            "exit_code": exit_code,
            "started_s": now_s - _RUN_S,
            "ended_s": now_s,
            "peak_rss_mib": 10.0,
            "cpu_s": _RUN_S,
            "python": [3, 11, 2],
        }
        body = json.dumps(result) + "\n"
        signature = hmac.new(self._key, body.encode(), hashlib.sha256).hexdigest()
        Path(self._dir.task(task).result(0)).write_text(f"{signature}\n{body}")
        self._write(task, "exit", {"exit_code": exit_code, "signal": "", "time_s": now_s})

    def _write(self, task: int, name: str, fact: dict[str, Any]) -> None:
        path = Path(getattr(self._dir.task(task), name)(0))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(fact))


@dataclass(frozen=True)
class Update:
    """The times of an update in ms: the main thread's CPU time, its busy time, and the whole
    duration."""

    cpu: float
    busy: float
    whole: float


def grid(folder: Path, rounds: int, updates: int) -> bool:
    """Print the table, and return whether all targets are met."""
    data = Path(jupyter_homes(folder / "l")["JUPYTER_DATA_DIR"])
    with (
        running_cluster(folder / "home", nodes=1, cpus=2) as cluster,
        sync_playwright() as playwright,
    ):
        asked_as_usual(cluster)
        sweep = Sweep(data, folder / "job")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        with lab_of(cluster, folder / "l") as lab:
            write_notebook(lab.folder / "sweep.ipynb")
            first = [painted(browser, lab) for _ in range(rounds)]
            with opened(browser, lab) as page:
                taken = updated(browser, page, sweep, updates)
        browser.close()
    measured = [
        ("double click on the notebook to first paint", [one for one, _ in first], None),
        ("  card in the page to first paint", [one for _, one in first], _FIRST_MS),
        (f"update of {CHANGED} tasks: CPU", [one.cpu for one in taken], _UPDATE_MS),
        ("  main thread busy", [one.busy for one in taken], None),
        ("  message to the end of the frame", [one.whole for one in taken], None),
    ]
    lines = [
        (f"{what}, {word}", f"{value:.1f} ms", *verdict(value, most))
        for what, values, most in measured
        for word, value in (("median", median(values)), ("longest", max(values)))
    ]
    show(f"A grid of {TASKS:,} tasks in Chromium (load {os.getloadavg()[0]:.1f})", [HEAD, *lines])
    return all(most is None or max(values) <= most for _, values, most in measured)


def verdict(value: float, most: int | None) -> tuple[str, str]:
    """Return the limit, and whether the value is within it."""
    return ("", "") if most is None else (f"{most} ms", "ok" if value <= most else "TOO SLOW")


def write_notebook(path: Path) -> None:
    """Write a notebook with the card of the sweep."""
    card = new_output("display_data", {_MIME: {"v": 1, "id": _ID}, "text/plain": "tries"})
    cell = new_code_cell("", outputs=[card], execution_count=1)
    kernel = {"name": "python3", "display_name": "python3"}
    nbformat.write(new_notebook(cells=[cell], metadata={"kernelspec": kernel}), path)


@contextmanager
def opened(browser: Browser, lab: Lab) -> Iterator[Page]:
    """Open the notebook in a new page of JupyterLab."""
    context = new_context(browser)
    page = context.new_page()
    page.add_init_script(_MARKED)
    page.goto(f"{lab.url}lab?token={lab.token}&reset")
    at_rest(page)
    page.get_by_role("listitem", name="sweep.ipynb").dblclick()
    page.evaluate("bench.until(1)")
    yield page
    context.close()


def painted(browser: Browser, lab: Lab) -> tuple[float, float]:
    """Return the ms from the double click and from the card to the first paint."""
    with opened(browser, lab) as page:
        at: dict[str, float] = page.evaluate(_FIRST)
    return at["painted"] - at["opened"], at["painted"] - at["card"]


def updated(browser: Browser, page: Page, sweep: Sweep, updates: int) -> list[Update]:
    """Measure updates while the sidebar is open, too."""
    expect(page.get_by_text("| Idle")).to_be_visible()
    page.get_by_role("tab", name="Slurm").click()
    expect(page.get_by_role("row", name="tries")).to_be_visible()
    page.wait_for_timeout(2_000)  # until the page has compiled the sidebar's code
    painted: int = page.evaluate("bench.painted")
    browser.start_tracing(page=page, categories=_TRACED)
    for turn in range(updates):
        sweep.go_on(turn)
        page.evaluate("count => bench.until(count)", painted + turn + 1)
    return list(updates_in(json.loads(browser.stop_tracing())["traceEvents"]))


def updates_in(events: Iterable[dict[str, Any]]) -> Iterator[Update]:
    """Return the updates in a trace."""
    marks = [one for one in events if one["name"] in ("news", "painted")]
    thread = {(one["pid"], one["tid"]) for one in marks}
    tasks = [
        one
        for one in events
        if one["name"] == "RunTask" and (one["pid"], one["tid"]) in thread and "dur" in one
    ]
    news_us = None
    for mark in sorted(marks, key=lambda one: one["ts"]):
        if mark["name"] == "news":
            news_us = news_us or mark["ts"]
        elif news_us is not None:
            # The message arrives in the first task, and the last task only marks the end.
            of_update = [
                one for one in tasks if one["ts"] + one["dur"] > news_us and one["ts"] < mark["ts"]
            ]
            yield Update(
                cpu=sum(one.get("tdur", 0) for one in of_update) / 1000,
                busy=sum(one["dur"] for one in of_update) / 1000,
                whole=(mark["ts"] - news_us) / 1000,
            )
            news_us = None
