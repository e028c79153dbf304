"""The filter for a job's output in a cell or notebook, based on the trust in the cluster. It allows
everything, puts HTML and scripts into a sandbox, or allows only text and pictures. No other module
decides which types of output can act on the page. No I/O.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from jupyter_slurm.wire import DisplayData, ExecuteResult, Output, Show, UpdateDisplayData

_ORDER: tuple[Show, ...] = ("full", "sandboxed", "text")
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")
_SOURCES = (
    "text/html",
    "image/svg+xml",
    "text/markdown",
    "text/latex",
    "application/javascript",
    "application/json",
)
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; media-src data: blob:"
)
"""The sandbox's policy. It denies network access, so scripts cannot reach local servers."""
_SCRIPT_END = re.compile(r"</(?=script)", re.IGNORECASE)


def stricter(one: Show, other: Show) -> Show:
    return max(one, other, key=_ORDER.index)


def trusted_as(output: Output, show: Show) -> Output:
    """Return the output in the form that `show` allows."""
    match output:
        case DisplayData() | UpdateDisplayData() | ExecuteResult() if show != "full":
            data = _bundle(output.data, show)
            metadata = {mime: _sizes(output.metadata.get(mime)) for mime in data}
            return msgspec.structs.replace(output, data=data, metadata=metadata)
        case _:
            return output


def _bundle(data: Mapping[str, Any], show: Show) -> dict[str, Any]:
    shown = {
        mime: data[mime]
        for mime in _PICTURES
        if isinstance(data.get(mime), str) and _BASE64.fullmatch(data[mime])
    }
    text = data.get("text/plain")
    if text is None:
        found = [data[mime] for mime in _SOURCES if mime in data]
        text = found[0] if found else "" if shown else "[no text to show]"
    shown["text/plain"] = text if isinstance(text, str) else str(text)
    if show == "sandboxed" and (page := _page(data)) is not None:
        shown["text/html"] = _boxed(page)
    return shown


def _page(data: Mapping[str, Any]) -> str | None:
    """Return the content of the sandbox; None for an output without HTML, SVG and JavaScript."""
    for mime in ("text/html", "image/svg+xml"):
        if isinstance(data.get(mime), str):
            return str(data[mime])
    script = data.get("application/javascript")
    if isinstance(script, str):
        return "<script>" + _SCRIPT_END.sub(r"<\\/", script) + "</script>"
    return None


def _boxed(page: str) -> str:
    """Return a frame without an origin: its scripts cannot access the page around it."""
    policy = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(_POLICY)}">'
    inside = html.escape(f"<!doctype html>{policy}{page}")
    return (
        '<iframe sandbox="allow-scripts" referrerpolicy="no-referrer" srcdoc="'
        + inside
        + '" style="width: 100%; height: 400px; border: 0; resize: vertical"></iframe>'
    )


def _sizes(metadata: Any) -> dict[str, int]:
    """Keep only the integers in a picture's metadata, because some pages insert metadata into their
    HTML."""
    known = metadata if isinstance(metadata, dict) else {}
    return {name: known[name] for name in ("width", "height") if type(known.get(name)) is int}
