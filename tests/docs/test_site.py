"""The build of the documentation site."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, written


@pytest.mark.real
def test_site_builds_without_warnings(tmp_path: Path) -> None:
    words = ["--quiet", "--fail-on-warning", "--keep-going", "-d", str(tmp_path / "doctrees")]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *words, str(DOCS), str(tmp_path / "site")],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    built = {one.relative_to(tmp_path / "site") for one in (tmp_path / "site").rglob("*.html")}
    pages = {page.path.relative_to(DOCS).with_suffix(".html") for page in written()}
    assert pages - built == {Path("administrators-figures.html")}
