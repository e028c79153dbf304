"""Whatever a job is called and whatever it writes is text on the page, in every view."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.cluster.plugin import SlurmCluster
from tests.ui.lab import Lab, Notebook, at_rest
from tests.ui.side import waits

_MARK = "<img src=x onerror=window.harmed=1><script>window.harmed=1</script>"
_NAMES = (
    "two  words and a\ttab",
    'it\'s "quoted" `and` $(more)',
    f"h{_MARK}",
    "🦙🚀 état",
    "עברית \u202egpj.exe",
)
_CELL = f"""%%slurm --detach
import sys
print({_MARK!r} + "\\x1b]0;title\\x07\\x1b[2J\\x1b[31mred\\x1b[0m")
sys.stderr.write({_MARK!r})"""


def opened_lab(page: Page, lab: Lab) -> None:
    page.goto(f"{lab.url}lab?token={lab.token}&reset")
    at_rest(page)
    page.get_by_role("tab", name="Slurm").click()


def is_unharmed(page: Page) -> bool:
    return not page.evaluate("Boolean(window.harmed)")


def test_a_name_is_text_in_sidebar_queue_and_panel(
    page: Page, lab: Lab, cluster: SlurmCluster
) -> None:
    for name in _NAMES:
        cluster.submit("-H", "-J", name, "--wrap", "true")
    opened_lab(page, lab)
    page.get_by_role("button", name="Queue", exact=True).click()
    grid = page.get_by_role("grid", name="Queue of local")
    row = waits(page)
    for name in _NAMES:
        # Tabs are blanks; what turns text around is shown, and turns nothing.
        shown = " ".join(name.replace("\u202e", "\ufffd").split())
        expect(row.filter(has_text=shown)).to_be_visible()
        expect(grid.get_by_role("row").filter(has_text=shown)).to_be_visible()
    for name in _NAMES:
        shown = " ".join(name.replace("\u202e", "\ufffd").split())
        row.filter(has_text=shown).first.dblclick()
        expect(page.locator(".jp-slurm-JobHead:visible")).to_contain_text(shown)
        page.get_by_role("tab", name="Details", exact=True).click()
        expect(page.get_by_role("rowheader", name="JobId")).to_be_visible()
    assert is_unharmed(page)


def test_output_with_control_sequences_and_a_script_tag_is_text_in_card_and_panel(
    opened: Callable[..., Notebook],
) -> None:
    notebook = opened([_CELL])
    page = notebook.page
    notebook.run_all()
    card = page.get_by_role("region", name="Job")
    expect(card).to_contain_text("done")  # its buttons move no more
    card.get_by_role("button", name="Log", exact=True).click()
    expect(card.get_by_role("log", name="Log")).to_contain_text("<script>window.harmed=1</script>")
    card.get_by_role("button", name="Open", exact=True).click()
    log = page.get_by_role("log", name="Output")
    expect(log).to_contain_text("<script>window.harmed=1</script>")
    expect(log.get_by_text("red", exact=True)).to_be_visible()
    expect(log.locator("script, img")).to_have_count(0)
    assert is_unharmed(page)


def test_a_name_of_a_megabyte_is_refused_with_a_sentence(page: Page, lab: Lab) -> None:
    answer = page.request.post(
        f"{lab.url}jupyter-slurm/api/spec",
        headers={"Authorization": f"token {lab.token}"},
        data={"line": f"--name {'n' * (1 << 20)}", "code": "1"},
    )
    assert answer.status == 400
    assert "characters" in answer.json()["message"]["text"]
