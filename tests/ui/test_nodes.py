"""The nodes of a cluster in JupyterLab's main area."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.cluster.plugin import SlurmCluster
from tests.ui.lab import Lab, at_rest
from tests.ui.looks import look


@pytest.fixture
def opened(page: Page, lab: Lab) -> Page:
    page.goto(f"{lab.url}lab?token={lab.token}&reset")
    at_rest(page)
    page.get_by_role("tab", name="Slurm").click()
    page.get_by_role("button", name="Nodes", exact=True).click()
    page.get_by_role("tab", name="Slurm").click()
    expect(page.get_by_role("rowheader", name="debug")).to_be_visible()
    return page


def test_nodes_view_shows_free_resources_in_partitions_map_and_table(
    cluster: SlurmCluster, page: Page, lab: Lab, request: pytest.FixtureRequest
) -> None:
    job = cluster.submit("--gres=gpu:1", "--wrap", "sleep 600")
    cluster.wait_for(job, "RUNNING")
    request.getfixturevalue("opened")
    partition = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="debug"))
    expect(partition).to_contain_text("1 / 2")
    expect(partition).to_contain_text("1 node · 8 CPUs each · 2 GPUs")
    expect(page.get_by_role("img", name="n1: partly used")).to_be_visible()
    page.get_by_role("button", name="Table", exact=True).click()
    row = page.get_by_role("grid", name="Nodes \N{EN DASH} local").get_by_role("row").nth(1)
    expect(row).to_contain_text("n1")
    expect(row).to_contain_text("partly used")
    page.get_by_label("Filter the nodes").fill("gpus>1")
    expect(row).to_have_count(0)
    page.get_by_label("Filter the nodes").fill("gpus=1 partition:short")
    expect(row).to_be_visible()
    page.get_by_role("button", name="Map", exact=True).click()
    look(page, "nodes")
    cluster.run("scancel", job)
