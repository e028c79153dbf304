"""Measurements in a page with a queue, ours or jupyterlab-slurm's. Times are by the page's own
clock, from an event to the frame that shows its effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import BrowserContext, Page, expect

from tests.ui.lab import Lab

PATIENCE_MS = 180_000.0
PROBE = """
(() => {
  const bench = (window.bench = { messages: [] });
  const Native = window.WebSocket;
  window.WebSocket = class extends Native {
    constructor(...args) {
      super(...args);
      if (String(args[0]).includes('jupyter-slurm')) {
        this.addEventListener('message', event => {
          bench.messages.push({ at: performance.now(), bytes: event.data.length });
        });
      }
    }
  };
  const frame = () => new Promise(done => requestAnimationFrame(done));
  bench.count = () => {
    const grid = document.querySelector('.jp-slurm-Grid[role=grid], .ag-root');
    return Number(grid?.getAttribute('aria-rowcount') ?? 0);
  };
  const filled = () =>
    document.querySelectorAll(
      '[role=grid] .jp-slurm-GridBody [role=row], .ag-center-cols-container .ag-row'
    ).length > 5;
  // Resolves with the time at which rows have been painted.
  bench.painted = async () => {
    while (!filled() || bench.count() < 100) await frame();
    await frame();
    return performance.now();
  };
  // Arms itself for the next key: how long until a frame shows another number of rows.
  bench.next_key = () => {
    bench.key = new Promise(done => {
      document.addEventListener('keydown', async () => {
        const began = performance.now();
        const before = bench.count();
        while (bench.count() === before && performance.now() - began < 3_000) await frame();
        await frame();
        done(performance.now() - began);
      }, { capture: true, once: true });
    });
  };
  bench.data = () => {
    const rest = performance.getEntriesByType('resource')
      .filter(one => /\\/squeue\\b/.test(one.name))
      .map(one => ({ at: one.responseEnd, bytes: one.decodedBodySize }));
    return [...bench.messages, ...rest];
  };
  // Scrolls to the end in so many frames; frames in which the middle of the grid held no row.
  bench.scroll = async frames => {
    const box = document.querySelector('.jp-slurm-Grid[role=grid]');
    const { left, top, height } = box.getBoundingClientRect();
    const lengths = [];
    let blank = 0;
    let last = performance.now();
    for (let at = 1; at <= frames; at += 1) {
      box.scrollTop = (box.scrollHeight * at) / frames;
      await frame();
      const now = performance.now();
      lengths.push(now - last);
      last = now;
      for (const part of [0.15, 0.5, 0.9]) {
        const hit = document.elementFromPoint(left + 20, top + height * part);
        if (!hit?.closest('.jp-slurm-GridRow')) { blank += 1; break; }
      }
    }
    box.scrollTop = 0;
    return { blank, lengths };
  };
  // The longest that the page was busy from now until it is asked.
  bench.frames = () => {
    bench.longest = 0;
    let last = performance.now();
    const tick = () => {
      const now = performance.now();
      bench.longest = Math.max(bench.longest, now - last);
      last = now;
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  };
})();
"""


@dataclass(frozen=True)
class Opened:
    """The times of opening a queue, in seconds."""

    click_to_paint: float
    data_to_paint: float
    bytes: int


def blank_lab(context: BrowserContext, lab: Lab, workspace: str) -> Page:
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.add_init_script(PROBE)
    page.goto(f"{lab.url}lab/workspaces/{workspace}?token={lab.token}&reset")
    expect(page.locator("#jupyterlab-splash")).to_have_count(0, timeout=PATIENCE_MS)
    return page


def opened(page: Page, *, ours: bool) -> Opened:
    """Open the queue's panel as a user does."""
    if ours:
        page.get_by_role("tab", name="Slurm").click()
        button = page.get_by_role("button", name="Queue", exact=True)
    else:
        button = page.get_by_text("Slurm Dashboard").first
    expect(button).to_be_visible(timeout=PATIENCE_MS)
    began, ended = button.evaluate(
        """async button => {
          const began = performance.now();
          button.click();
          return [began, await bench.painted()];
        }"""
    )
    data: list[dict[str, float]] = page.evaluate("bench.data()")
    told = max((one for one in data if one["at"] <= ended), key=lambda one: one["bytes"])
    return Opened(
        click_to_paint=(ended - began) / 1000,
        data_to_paint=(ended - told["at"]) / 1000,
        bytes=int(told["bytes"]),
    )


def keystrokes(page: Page, words: Sequence[tuple[str, str]], *, ours: bool) -> list[float]:
    """Return the ms from each key typed into the filter to the frame with another number of rows.
    In each pair, the first text is already in the filter, and the second is typed."""
    if ours:
        box = page.get_by_label("Filter the queue")
    else:
        box = page.locator("input.MuiInputBase-input[type=text]").first
    taken: list[float] = []
    for there, typed in words:
        box.fill(there)
        page.wait_for_timeout(1000)
        box.press("End")
        for key in typed:
            page.evaluate("bench.next_key()")
            page.keyboard.press(key)
            taken.append(page.evaluate("bench.key"))
            page.wait_for_timeout(200)
    box.fill("")
    page.wait_for_timeout(1000)
    return taken


def bytes_in(page: Page, seconds: float) -> int:
    """Return the bytes of the queue that the page receives in `seconds`."""
    before: list[Any] = page.evaluate("bench.data()")
    page.wait_for_timeout(seconds * 1000)
    after: list[Any] = page.evaluate("bench.data()")
    return sum(int(one["bytes"]) for one in after[len(before) :])
