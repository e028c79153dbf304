"""The folded output of other ranks below a cell."""

from __future__ import annotations

from jupyter_slurm.views.other_ranks import as_html, text_of
from jupyter_slurm.wire import ErrorOutput, Output, Stream


def test_each_rank_with_output_has_a_fold() -> None:
    html = as_html({1: "a\nb", 2: "", 3: "<b>"}, "")
    assert html.count("<details>") == 2
    assert "<summary>Rank 1: 2 lines</summary>" in html
    assert "<summary>Rank 3: 1 line</summary>" in html
    assert "&lt;b&gt;" in html


def test_traceback_of_a_rank_follows_its_output_without_colours() -> None:
    outputs: list[Output] = [
        Stream(name="stdout", text="begun\n"),
        ErrorOutput(ename="E", evalue="x", traceback=("\x1b[0;31mE\x1b[0m: x\x07",)),
    ]
    assert text_of(outputs).startswith("begun\nE: x")
    assert "\x1b" not in text_of(outputs)
    assert "\x07" not in text_of(outputs)
