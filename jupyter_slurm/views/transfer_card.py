"""A transfer as a line, and as HTML with a progress bar, followed by the first failed files. No
I/O, no clock. Paths come from users, so they are escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from types import MappingProxyType
from typing import Any

from jupyter_slurm.formatting import counted, duration, reasons_told, size, visible
from jupyter_slurm.wire import Transfer, TransferState

_BAR = (
    "display:inline-block;width:12em;height:.6em;border-radius:.3em;margin-right:.7em;"
    "overflow:hidden;background-color:rgba(128,128,128,.3)"
)
_COLOURS: Mapping[TransferState, str] = MappingProxyType(
    {
        TransferState.RUNNING: "#2878c8",
        TransferState.DONE: "#2e8540",
        TransferState.FAILED: "#d0342c",
        TransferState.STOPPED: "#767676",
    }
)
"""Colours with a contrast of at least 3:1 on white and on JupyterLab's dark background, as in the
card."""
_RATE_AFTER_S = 1.0
"""Seconds of transfer before a rate is meaningful."""
_RESUMES = "the next transfer resumes from there"


def bundle(transfer: Transfer, now_s: float) -> dict[str, Any]:
    return {"text/html": html(transfer, now_s), "text/plain": plain(transfer, now_s)}


def plain(transfer: Transfer, now_s: float) -> str:
    """Return a line with direction, progress or outcome, and lines for failed and skipped files."""
    first = f"{_symbol(transfer)} {_way(transfer)}: {progress_text(transfer, now_s)}"
    return "\n".join(map(visible, (first, *(f"  {line}" for line in _behind(transfer)))))


def html(transfer: Transfer, now_s: float) -> str:
    colour = _COLOURS[transfer.state]
    bar = ""
    fraction = done_fraction(transfer)
    if transfer.state is TransferState.RUNNING and fraction is not None:
        percent = round(100 * fraction)
        bar = (
            f'<span role="progressbar" aria-valuemin="0" aria-valuemax="100" '
            f'aria-valuenow="{percent}" aria-label="{escape(_way(transfer), quote=True)}" '
            f'style="{_BAR}"><span style="display:block;height:100%;width:{percent}%;'
            f'background-color:{colour}"></span></span>'
        )
    below = "".join(f"<br>{escape(visible(line))}" for line in _behind(transfer))
    return (
        f'<div style="border-left:4px solid {colour};padding:1px 12px;line-height:1.5">'
        f"<b>{_symbol(transfer)} {escape(visible(_way(transfer)))}</b><br>"
        f"{bar}{escape(visible(progress_text(transfer, now_s)))}{below}</div>"
    )


def progress_text(transfer: Transfer, now_s: float) -> str:
    """Describe the progress or outcome. Omit the reason for a failure, because the error contains
    it."""
    match transfer.state:
        case TransferState.DONE:
            return _all(transfer)
        case TransferState.FAILED:
            resumes = f"; {_RESUMES}" if _may_go_on(transfer) else ""
            return f"failed after {_so_far(transfer)}{resumes}"
        case TransferState.STOPPED:
            return f"stopped after {_so_far(transfer)}; {_RESUMES}"
        case TransferState.RUNNING:
            return _running(transfer, now_s)


def _may_go_on(transfer: Transfer) -> bool:
    return transfer.problem is not None and transfer.problem.transient


def done_fraction(transfer: Transfer) -> float | None:
    """Return the finished fraction of the bytes, 0 to 1; None if the total is unknown."""
    if transfer.files is None or transfer.bytes is None:
        return None
    return min(1.0, transfer.bytes_done / transfer.bytes) if transfer.bytes else 1.0


def _running(transfer: Transfer, now_s: float) -> str:
    fraction = done_fraction(transfer)
    if fraction is None:
        return "comparing both sides"
    past_s = now_s - transfer.began_s
    files = f"{transfer.files_done:,} of {counted(transfer.files or 0, 'file')}"
    moved = f"{size(transfer.bytes_done)} of {size(transfer.bytes or 0)}"
    parts = [f"{fraction:.0%}, {files}, {moved}"]
    if past_s >= _RATE_AFTER_S and transfer.bytes_done:
        rate = transfer.bytes_done / past_s
        left_s = ((transfer.bytes or 0) - transfer.bytes_done) / rate
        parts.append(f"{size(rate)}/s, {duration(left_s + 0.5)} left")
    return ", ".join(parts)


def _all(transfer: Transfer) -> str:
    same = ""
    if transfer.files_same:
        same = f"{counted(transfer.files_same, 'file')} already the same"
    if not transfer.files_done:
        return f"nothing to do, {same}" if same else "no files to transfer"
    lasted_s = (transfer.ended_s or transfer.began_s) - transfer.began_s
    sent = f"{_so_far(transfer)} in {duration(lasted_s) if lasted_s >= 1 else 'under a second'}"
    return f"{sent}, {same}" if same else sent


def _behind(transfer: Transfer) -> Iterator[str]:
    for what, behind in (
        ("did not arrive", transfer.failed),
        ("left out", transfer.left_out),
    ):
        if behind is not None:
            yield f"{what}:"
            yield from (f"  {line}" for line in reasons_told(behind.reasons, behind.count))


def _so_far(transfer: Transfer) -> str:
    return f"{counted(transfer.files_done, 'file')} ({size(transfer.bytes_done)})"


def _way(transfer: Transfer) -> str:
    there = f"{transfer.cluster}:{transfer.remote}"
    if transfer.direction == "push":
        return f"{transfer.local} → {there}"
    return f"{there} → {transfer.local}"


def _symbol(transfer: Transfer) -> str:
    match transfer.state:
        case TransferState.RUNNING:
            return "▲" if transfer.direction == "push" else "▼"
        case TransferState.DONE:
            return "✔"
        case TransferState.FAILED:
            return "✖"
        case TransferState.STOPPED:
            return "⊘"
