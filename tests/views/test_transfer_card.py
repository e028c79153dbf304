"""The card of a transfer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from jupyter_slurm.views import transfer_card
from jupyter_slurm.wire import Behind, Problem, Transfer, TransferState

BEGUN = Transfer(
    id="x",
    cluster="arandu",
    direction="push",
    local="/home/me/code <b>",
    remote="~/code\x1b[31m",
    state=TransferState.RUNNING,
    began_s=100.0,
)
HALF: dict[str, Any] = {"files": 1000, "bytes": 20_000_000, "files_done": 400}
DONE: dict[str, Any] = {"state": TransferState.DONE, "ended_s": 104.0}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "comparing both sides"),
        (HALF, "0%, 400 of 1,000 files, 0 B of 20.0 MB"),
        (
            {**HALF, "bytes_done": 5_000_000},
            "25%, 400 of 1,000 files, 5.0 MB of 20.0 MB, 500.0 kB/s, 30 s left",
        ),
        ({**DONE, "files_done": 1, "bytes_done": 12}, "1 file (12 B) in 4 s"),
        (
            {**DONE, "ended_s": 100.2, "files_done": 2, "bytes_done": 12, "files_same": 4998},
            "2 files (12 B) in under a second, 4,998 files already the same",
        ),
        ({**DONE, "files_same": 5}, "nothing to do, 5 files already the same"),
        (DONE, "no files to transfer"),
        (
            {"state": TransferState.STOPPED, "files_done": 3, "bytes_done": 1500},
            "stopped after 3 files (1.5 kB); the next transfer resumes from there",
        ),
        (
            {
                "state": TransferState.FAILED,
                "problem": Problem(code="transport", message="The disk is full."),
            },
            "failed after 0 files (0 B)",
        ),
        (
            {
                "state": TransferState.FAILED,
                "problem": Problem(code="x", message="The line broke.", transient=True),
                "files_done": 3,
            },
            "failed after 3 files (0 B); the next transfer resumes from there",
        ),
    ],
)
def test_transfer_progress_is_shown_in_words(changes: dict[str, Any], told: str) -> None:
    transfer = msgspec.structs.replace(BEGUN, **changes)
    assert transfer_card.progress_text(transfer, 110.0) == told
    assert transfer_card.plain(transfer, 110.0).endswith(told)


def test_transfer_card_escapes_html_and_control_characters() -> None:
    assert "<b>" not in transfer_card.html(BEGUN, 110.0).replace("<b>▲", "")
    assert "\x1b" not in transfer_card.plain(BEGUN, 110.0) + transfer_card.html(BEGUN, 110.0)


def test_failed_files_are_listed_with_reasons_and_unlisted_files_are_counted() -> None:
    transfer = msgspec.structs.replace(
        BEGUN,
        **{**DONE, "state": TransferState.FAILED},
        problem=Problem(code="file-access", message="4 files did not arrive."),
        failed=Behind(count=4, reasons={"a": "It cannot be read.", "<b>\x1b": "Nor this."}),
        left_out=Behind(count=1, reasons={"link": "It leads outside."}),
    )
    assert transfer_card.plain(transfer, 110.0).splitlines()[1:] == [
        "  did not arrive:",
        "    a: It cannot be read.",
        "    <b>�: Nor this.",
        "    and 2 more",
        "  left out:",
        "    link: It leads outside.",
    ]
    page = transfer_card.html(transfer, 110.0)
    for part in ("a: It cannot be read.", "&lt;b&gt;�: Nor this.", "and 2 more", "link: It leads"):
        assert part in page


def test_progress_bar_has_the_right_width_and_aria_value() -> None:
    half = msgspec.structs.replace(BEGUN, **HALF, bytes_done=10_000_000)
    shown = transfer_card.html(half, 110.0)
    assert 'aria-valuenow="50"' in shown
    assert "width:50%" in shown
    assert "progressbar" not in transfer_card.html(BEGUN, 110.0)
    assert "progressbar" not in transfer_card.html(msgspec.structs.replace(half, **DONE), 110.0)
