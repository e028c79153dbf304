"""Text from a host, cleaned for display.

Before the login a server can send anything: escape sequences that repaint a terminal, characters
that reverse the reading direction, a megabyte of blanks.
"""

from __future__ import annotations

import re
import unicodedata

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colors and cursor (CSI)
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # window title, links (OSC)
    r"|\x1b[ -/]*[0-~]"
)
_MANY_NEWLINES = re.compile(r"\n{3,}")
_MARK = " …"


def shown(text: str | bytes, limit: int = 2000) -> str:
    """Return at most `limit` characters of `text`, without control, bidi and other invisible
    characters. Newlines stay, with at most one empty line in a row; trailing blanks are removed.
    """
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    text = _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n").expandtabs(8)
    # All Unicode categories named "other": controls, formats (bidi, zero width), private use.
    text = "".join(c for c in text if c == "\n" or unicodedata.category(c)[0] != "C")
    text = "\n".join(line.rstrip() for line in text.split("\n"))
    text = _MANY_NEWLINES.sub("\n\n", text).strip("\n")
    return text if len(text) <= limit else text[: limit - len(_MARK)] + _MARK


def shown_line(text: str | bytes, limit: int = 200) -> str:
    """Clean `text` as `shown` does, and return it on one line."""
    return shown(" ".join(shown(text, 4 * limit).split()), limit)
