"""A cell's displays: records on the event pipe, MIME bundles of values, and `display()`.

Runs on the cluster, Python 3.6 and later, standard library only. IPython formats values once it is
imported (`Publisher.shell`). Before that, this module uses `_repr_*_` methods and `pprint`.
"""

import binascii
import json
import os
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds of every job
    from typing import Any, Callable, ContextManager, Dict, List, Optional, Tuple

    Bundle = Tuple[Dict[str, Any], Dict[str, Any]]

MAX_ITEMS = 1000
"""Maximum number of items in the text form of a container, as in IPython."""
MIME_METHODS = (
    ("text/html", "_repr_html_"),
    ("text/markdown", "_repr_markdown_"),
    ("text/latex", "_repr_latex_"),
    ("image/svg+xml", "_repr_svg_"),
    ("image/png", "_repr_png_"),
    ("image/jpeg", "_repr_jpeg_"),
    ("application/pdf", "_repr_pdf_"),
    ("application/json", "_repr_json_"),
    ("application/javascript", "_repr_javascript_"),
)
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


class Publisher:
    """A writer of records to the event pipe, as lines of JSON. `wait_turn` waits until the other
    pipes are empty. `shield` delays signals while a line is written."""

    def __init__(
        self, descriptor: int, wait_turn: "Callable[[int], None]", shield: "ContextManager[None]"
    ) -> None:
        self.descriptor = descriptor
        self.wait_turn = wait_turn
        self.shield = shield
        self.shell: "Any" = None
        self.lock = threading.RLock()
        self.pid = os.getpid()

    def send(self, record: "Dict[str, Any]") -> None:
        """Write a record. In a process that the cell forked, print its text instead."""
        if os.getpid() != self.pid:
            # Lines of several processes could be mixed on the pipe.
            text = record.get("data", {}).get("text/plain")
            if text is not None:
                print(text)
            return
        data = memoryview(to_json(record) + b"\n")
        with self.shield, self.lock:
            self.wait_turn(self.descriptor)
            while data:
                data = data[os.write(self.descriptor, data) :]

    def display(
        self,
        bundle: "Bundle",
        display_id: "Optional[str]" = None,
        kind: str = "display_data",
    ) -> None:
        """Send a bundle as `display_data` or `update_display_data`."""
        data, metadata = bundle
        shown = _sendable(data)
        self.send({"type": kind, "data": shown, "metadata": metadata, "display_id": display_id})

    def result(self, bundle: "Bundle") -> None:
        data, metadata = bundle
        self.send({"type": "execute_result", "data": _sendable(data), "metadata": metadata})

    def clear(self, wait: bool = False) -> None:
        self.send({"type": "clear_output", "wait": bool(wait)})

    def error(self, ename: str, evalue: str, lines: "List[str]") -> None:
        self.send({"type": "error", "ename": ename, "evalue": evalue, "traceback": lines})

    def bundle(self, value: "Any") -> "Bundle":
        """Return the representations of a value; an empty bundle if the value has displayed
        itself."""
        if self.shell is not None:
            data, metadata = self.shell.display_formatter.format(value)
            return data, metadata
        show = _method(value, "_ipython_display_")
        if show is not None:
            show()
            return {}, {}
        return _bundle(value)


def to_json(record: "Dict[str, Any]") -> bytes:
    """Return the record as one line of ASCII. Values that JSON cannot express become text."""
    try:
        text = json.dumps(record, allow_nan=False, default=_plain)
    except (ValueError, TypeError):  # NaN, a cycle, keys that are not text
        text = json.dumps(_tamed(record, 0), allow_nan=False)
    return text.encode("ascii")


def _plain(value: "Any") -> "Any":
    """Convert bytes to base64, NumPy values to Python values, and anything else to text."""
    if isinstance(value, bytes):
        return binascii.b2a_base64(value, newline=False).decode("ascii")
    tolist = getattr(value, "tolist", None)
    return tolist() if callable(tolist) else str(value)


def _tamed(value: "Any", depth: int) -> "Any":
    if depth > 100:
        return "…"
    if isinstance(value, dict):
        return {str(key): _tamed(part, depth + 1) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_tamed(part, depth + 1) for part in value]
    if isinstance(value, float):
        return value if value - value == 0 else None
    if value is None or isinstance(value, (str, int)):
        return value
    return _tamed(_plain(value), depth + 1)


def _sendable(data: "Dict[str, Any]") -> "Dict[str, Any]":
    """Return the bundle without the view of a widget, because the front end does not have the
    widget's model."""
    return {mime: value for mime, value in data.items() if mime != WIDGET_VIEW}


# --- representations without IPython ------------------------------------------------------------


def _method(value: "Any", name: str) -> "Any":
    """Return a value's representation method, or None; always None for classes. Detect mocks and
    proxies, which have every attribute, by a name that no class defines."""
    if isinstance(value, type):
        return None
    try:
        if getattr(value, "_ipython_canary_method_should_not_exist_", None) is not None:
            return None
        method = getattr(value, name, None)
    except Exception:
        return None
    return method if callable(method) else None


def _bundle(value: "Any") -> "Bundle":
    data: "Dict[str, Any]" = {"text/plain": as_text(value)}
    metadata: "Dict[str, Any]" = {}
    figure = _figure_png(value)
    if figure is not None:
        data["image/png"] = figure
    for mime, name in MIME_METHODS:
        found = _call(_method(value, name))
        if isinstance(found, tuple) and len(found) == 2:
            found, metadata[mime] = found
        if found is not None:
            data[mime] = found
    mimebundle = _method(value, "_repr_mimebundle_")
    found = _call(mimebundle and (lambda: mimebundle(include=None, exclude=None)))
    if isinstance(found, tuple) and len(found) == 2:
        metadata.update(found[1])
        found = found[0]
    if isinstance(found, dict):
        data.update(found)
    return data, metadata


def _call(method: "Any") -> "Any":
    """Return the result of a representation method. After an error, print it to stderr and return
    None."""
    if not method:
        return None
    try:
        return method()
    except NotImplementedError:
        return None
    except Exception:
        import traceback  # needed only after an error

        traceback.print_exc()
        return None


def _figure_png(value: "Any") -> "Optional[bytes]":
    module = sys.modules.get("matplotlib.figure")
    if module is None or not isinstance(value, module.Figure):
        return None
    import runner_figures  # imports matplotlib

    return runner_figures.png(value)


def as_text(value: "Any") -> str:
    """Return the text form of a value. `pprint` formats containers, and cuts them after 1,000
    items."""
    if type(value) not in (list, tuple, dict, set, frozenset):
        return _safe_repr(value)
    cut = len(value) > MAX_ITEMS
    if cut:
        value = _first(value)
    text = _safe_repr(value)
    if len(text) > 79:
        import pprint  # needed only for long values

        order = {"sort_dicts": False} if sys.version_info >= (3, 8) else {}
        text = pprint.pformat(value, width=79, **order)
    return text[:-1] + ",\n ..." + text[-1] if cut else text


def _first(value: "Any") -> "Any":
    if isinstance(value, dict):
        return {key: value[key] for key, _ in zip(value, range(MAX_ITEMS))}  # noqa: B905 - 3.10
    return type(value)([item for item, _ in zip(value, range(MAX_ITEMS))])  # noqa: B905 - 3.10


def _safe_repr(value: "Any") -> str:
    try:
        return repr(value)
    except Exception as error:
        return "<%s whose repr() fails: %s>" % (type(value).__name__, type(error).__name__)


# --- display() ----------------------------------------------------------------------------------


class DisplayHandle:
    """The result of `display(…, display_id=…)`. It can replace the displayed value."""

    def __init__(self, publisher: Publisher, display_id: str) -> None:
        self.display_id = display_id
        self._publisher = publisher

    def display(self, value: "Any") -> None:
        self._publisher.display(self._publisher.bundle(value), self.display_id)

    def update(self, value: "Any") -> None:
        self._publisher.display(
            self._publisher.bundle(value), self.display_id, "update_display_data"
        )


def make_display(publisher: Publisher) -> "Callable[..., Any]":
    """Return the `display` function of a cell, with IPython's arguments."""

    def display(
        *values: "Any",
        display_id: "Any" = None,
        raw: bool = False,
        clear: bool = False,
        **options: "Any",
    ) -> "Any":
        """Show values in the output of this cell."""
        if publisher.shell is not None:
            import IPython.display as ipython  # already imported

            return ipython.display(  # type: ignore[no-untyped-call,unused-ignore]
                *values, display_id=display_id, raw=raw, clear=clear, **options
            )
        if display_id is True:
            display_id = binascii.hexlify(os.urandom(16)).decode("ascii")
        if clear:
            publisher.clear(wait=True)
        for value in values:
            data, metadata = (value, {}) if raw else publisher.bundle(value)
            metadata.update(options.get("metadata") or {})
            if data:
                publisher.display((data, metadata), display_id)
        return DisplayHandle(publisher, display_id) if display_id else None

    return display
