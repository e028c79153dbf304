"""The waiting room of a lab: a page of the server's whose words JupyterLab translates."""

from __future__ import annotations

import re

from tests.cluster.plugin import ROOT

_TEXT = re.compile(r"'([A-Z%][^'\n]* [^'\n]*|Output)'")
"""A literal that people read; the others of that page are names."""


def test_jupyterlab_knows_all_that_the_page_says_itself() -> None:
    page = (ROOT / "jupyter_slurm/server/lab_room.html").read_text(encoding="utf-8")
    said = set(_TEXT.findall(page.partition("<script")[2]))
    assert {"One moment …", "JupyterLab starts.", "Starts ~%1"} <= said
    known = (ROOT / "labextension/src/labs/interpreter.ts").read_text(encoding="utf-8")
    assert said <= set(_TEXT.findall(known))
