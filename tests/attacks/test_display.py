"""Limits on the output of a cluster's jobs, set by the user or the profile."""

# ruff: noqa: F811 - fixtures are imported, and then named as arguments

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_slurm.views.trusted_output import trusted_as
from jupyter_slurm.wire import DisplayData, Show
from tests.jobs.conftest import Site, site, way  # noqa: F401 - fixtures
from tests.magics.conftest import api, jupyter_dirs, shell  # noqa: F401 - fixtures
from tests.magics.fake import FakeApi
from tests.magics.shell import Shell

SCRIPT = "<img src=x onerror=alert(1)><script>parent.pwned = 1</script>"
PNG = "iVBORw0KGgo="
ACTIVE = {
    "text/html": SCRIPT,
    "text/markdown": SCRIPT,
    "text/latex": r"\href{javascript:alert(1)}{x}",
    "image/svg+xml": f"<svg xmlns='http://www.w3.org/2000/svg'>{SCRIPT}</svg>",
    "application/javascript": "alert(1)</script><script>alert(2)",
    "application/pdf": "JVBERi0=",
    "application/vnd.jupyter.widget-view+json": {"model_id": "x"},
    "application/vnd.plotly.v1+json": {"data": []},
    "application/vnd.jupyter-slurm.job+json": {"id": "aaaaaaaa"},
    "text/x-made-up": SCRIPT,
}
PASSIVE = {"text/plain", "image/png", "image/jpeg", "image/gif", "image/webp"}
STRICT: tuple[Show, ...] = ("sandboxed", "text")


class Tags(HTMLParser):
    """The elements of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def check(data: dict[str, Any], show: str) -> None:
    """Assert that nothing in the output runs in the page or accesses it."""
    allowed = PASSIVE | ({"text/html"} if show == "sandboxed" else set())
    assert set(data) <= allowed
    assert isinstance(data["text/plain"], str)
    if "text/html" in data:
        [(tag, attributes)] = Tags(data["text/html"]).found
        assert tag == "iframe"
        assert attributes["sandbox"] == "allow-scripts"
        assert set(attributes) == {"sandbox", "referrerpolicy", "srcdoc", "style"}
        inside = attributes["srcdoc"] or ""
        first, second, *_ = [*re.findall(r"<[^>]*>", inside), ""]
        assert first == "<!doctype html>"
        assert "default-src &#x27;none&#x27;" in second


# --- in the cell --------------------------------------------------------------------------------

CELL = f"""%%slurm
display({json.dumps(ACTIVE | {"text/plain": "plain", "image/png": PNG})}, 'one')
update({json.dumps(ACTIVE)}, 'one')
display({{"text/html": {SCRIPT!r}}})
"""


@pytest.mark.parametrize("show", STRICT)
@pytest.mark.parametrize("said_by", ["config", "profile"])
@pytest.mark.parametrize("again", [False, True], ids=["the cell", "attach"])
def test_job_output_cannot_run_code_in_the_page(
    shell: Shell,
    api: FakeApi,
    show: Show,
    said_by: str,
    again: bool,
) -> None:
    if said_by == "config":
        shell.run(f"%config SlurmMagics.show = {show!r}")
    else:
        api.show = show
    done = shell.run(CELL)
    if again:
        done = shell.run(f"%slurm attach {api.jobs()[0].id}")
    job = api.jobs()[0].id
    jobs = [one for one in done.shown if one.display_id != f"slurm-card-{job}"]
    shown = [one for one in jobs if not str(one.display_id).startswith("slurm-card")]
    assert len(shown) == 3
    for one in shown:
        check(one.data, show)
    assert (shown[0].data["text/plain"], shown[0].data["image/png"]) == ("plain", PNG)
    assert shown[1].update
    if show == "text":
        assert shown[2].data == {"text/plain": SCRIPT}


@pytest.mark.parametrize(("mine", "clusters"), [("text", "sandboxed"), ("sandboxed", "text")])
def test_stricter_limit_from_setting_or_profile_applies(
    shell: Shell, api: FakeApi, mine: str, clusters: Show
) -> None:
    shell.run(f"%config SlurmMagics.show = {mine!r}")
    api.show = clusters
    done = shell.run(f'%%slurm\ndisplay({{"text/html": {SCRIPT!r}}}, "one")')
    job = api.jobs()[0].id
    assert done.last(f"slurm-{job}-one").data == {"text/plain": SCRIPT}


# --- from a real job, by its profile -------------------------------------------------------------


def test_changed_profile_applies_to_existing_jobs(site: Site, tmp_path: Path) -> None:
    job = site.run(f"display({{'text/html': {SCRIPT!r}}}, raw=True)")
    assert site.service.logs(job.id).show == "full"
    path = next((tmp_path / "config").rglob("clusters.d/*.toml"))
    before = path.read_text(encoding="utf-8")
    for show in STRICT:
        path.write_text(f'show = "{show}"\n{before}', encoding="utf-8")
        chunk = site.service.logs(job.id)
        assert chunk.show == show
        for output in chunk.outputs:
            if isinstance(output, DisplayData):
                shown = trusted_as(output, chunk.show)
                assert isinstance(shown, DisplayData)
                check(shown.data, show)


# --- generated bundles ----------------------------------------------------------------------------

VALUES = st.text() | st.none() | st.integers() | st.lists(st.text()) | st.just(SCRIPT)
BUNDLES = st.dictionaries(st.sampled_from([*ACTIVE, *PASSIVE]) | st.text(), VALUES)


@given(BUNDLES, st.sampled_from(STRICT), st.dictionaries(st.sampled_from(sorted(PASSIVE)), VALUES))
def test_any_display_bundle_is_limited_as_configured(
    data: dict[str, Any], show: Show, metadata: dict[str, Any]
) -> None:
    output = trusted_as(DisplayData(data=data, metadata=metadata), show)
    assert isinstance(output, DisplayData)
    check(output.data, show)
    for mime in PASSIVE - {"text/plain"}:
        assert re.fullmatch(r"[A-Za-z0-9+/=\s]*", output.data.get(mime, ""))


def test_sandboxed_page_cannot_close_its_frame() -> None:
    for text in ('"></iframe><script>x</script>', "'><b>", "&quot;><i>", "</script><u>"):
        for mime in ("text/html", "application/javascript"):
            output = trusted_as(DisplayData(data={mime: text}), "sandboxed")
            assert isinstance(output, DisplayData)
            check(output.data, "sandboxed")
