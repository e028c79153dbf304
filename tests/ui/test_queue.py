"""The queue of a cluster in JupyterLab's main area."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.cluster.plugin import SlurmCluster
from tests.ui.lab import Lab, at_rest
from tests.ui.looks import look

SELECTED = "true"


@pytest.fixture
def jobs(cluster: SlurmCluster) -> Iterator[dict[str, str]]:
    """Yield the IDs by name of held jobs, a running job, an array that waits for it, and another
    user's job."""
    made = {
        "first one": cluster.submit("-H", "-J", "first one", "--wrap", "true"),
        "second": cluster.submit("-H", "-J", 'second "one" <i>x</i>', "--wrap", "true"),
        "third one": cluster.submit("-H", "-J", "third one", "-t", "3:00:00", "--wrap", "true"),
        "runs": cluster.submit("-J", "runs", "--gres=gpu:2", "--wrap", "sleep 600"),
        "theirs": cluster.submit("-H", "--uid=nobody", "-D", "/", "-J", "theirs", "--wrap", "true"),
    }
    cluster.wait_for(made["runs"], "RUNNING")
    array = ("-a", "1-40%2", "-J", "sweep", "--wrap", "sleep 600")
    made["sweep"] = cluster.submit(*array)
    cluster.wait_for(f"{made['sweep']}_2", "RUNNING")
    yield made
    cluster.run("scancel", *made.values(), check=False)


@pytest.fixture
def grid(page: Page, lab: Lab, jobs: dict[str, str]) -> Locator:
    page.goto(f"{lab.url}lab?token={lab.token}&reset")
    at_rest(page)
    page.get_by_role("tab", name="Slurm").click()
    page.get_by_role("button", name="Queue", exact=True).click()
    page.get_by_role("tab", name="Slurm").click()
    grid = page.get_by_role("grid", name="Queue \N{EN DASH} local")
    # Wait for only these jobs, since the first listing may still have those of the previous test.
    order = ("runs", "sweep", "first one", "second", "third one", "theirs")
    rows(grid, *(jobs[name] for name in order))
    return grid


def rows(grid: Locator, *texts: str) -> None:
    """Assert that exactly these rows are shown, in this order."""
    expect(grid.get_by_role("row")).to_have_count(len(texts) + 1)
    for at, text in enumerate(texts, 1):
        expect(grid.get_by_role("row").nth(at)).to_contain_text(text)


def test_queue_is_filtered_and_navigated_by_keyboard_and_arrays_expand(
    page: Page, grid: Locator, jobs: dict[str, str]
) -> None:
    rows(grid, "runs", "sweep", "first one", "second", "third one", "theirs")
    expect(grid.get_by_role("row").filter(has_text='second "one" <i>x</i>')).to_be_visible()
    words = page.get_by_label("Filter the queue")
    for asked, found in (
        ("first", ["first one"]),
        ("one -first", ["second", "third one"]),
        ("gpus>1", ["runs"]),
        ("user:nobody", ["theirs"]),
        ("limit>2h state:pending", ["third one"]),
    ):
        words.fill(asked)
        rows(grid, *found)
    words.fill("no such job")
    expect(page.get_by_text("No jobs match the filter.")).to_be_visible()
    page.get_by_role("button", name="Show all").click()
    states = page.get_by_role("group", name="States")
    expect(states.get_by_role("button").first).to_contain_text("running")
    states.get_by_role("button", name="running").click()
    rows(grid, "runs", "sweep")
    expect(words).to_have_value("state:running")
    page.get_by_role("button", name="Mine", exact=True).click()
    words.fill("theirs")
    rows(grid)
    words.fill("")
    page.get_by_role("button", name="Everyone").click()
    rows(grid, "runs", "sweep", "first one", "second", "third one", "theirs")

    array = grid.get_by_role("row").filter(has_text="40 tasks")
    array.focus()
    array.press("ArrowRight")
    expect(grid.get_by_title(f"{jobs['sweep']}_2", exact=True)).to_have_text("_2")
    waiting = grid.get_by_role("row").filter(has_text="_[3-40%2]")
    expect(waiting).to_contain_text("waiting")
    grid.get_by_role("row").nth(1).click()
    page.keyboard.press("Shift+ArrowDown")
    look(page, "queue")
    assert grid.evaluate("e => e.scrollWidth <= e.clientWidth"), "every column is visible"
    expect(grid.get_by_role("row").filter(has_text="first one")).to_contain_text("on hold")
    array.focus()
    array.press("ArrowLeft")
    expect(waiting).to_have_count(0)

    first = grid.get_by_role("row").nth(1)
    first.focus()
    page.keyboard.press("End")
    expect(grid.get_by_role("row").filter(has_text="theirs")).to_be_focused()
    page.keyboard.press("Home")
    expect(first).to_be_focused()
    page.keyboard.press("Shift+ArrowDown")
    expect(grid.locator(f"[aria-selected={SELECTED}]")).to_have_count(2)


def test_only_the_users_jobs_can_be_cancelled_and_focus_survives_a_removed_row(
    page: Page, grid: Locator, cluster: SlurmCluster, jobs: dict[str, str]
) -> None:
    second = grid.get_by_role("row").filter(has_text="second")
    second.focus()
    cluster.run("scancel", jobs["second"])
    expect(second).to_have_count(0)
    expect(grid.get_by_role("row").filter(has_text="third one")).to_be_focused()
    page.keyboard.press("Home")
    expect(grid.get_by_role("row").nth(1)).to_be_focused()

    words = page.get_by_label("Filter the queue")
    words.fill("name:one,theirs")
    rows(grid, "first one", "third one", "theirs")
    grid.get_by_role("row").nth(1).click()
    grid.get_by_role("row").nth(2).click(modifiers=["Control"])
    actions = page.get_by_role("group", name="Selection")
    expect(actions).to_contain_text("2 selected")
    actions.get_by_role("button", name="Release").click()
    rows(grid, "theirs")  # these two have ended
    grid.get_by_role("row").nth(1).click()
    expect(actions).to_contain_text("This job is not yours.")
    expect(actions.get_by_role("button", name="Cancel")).to_be_disabled()
