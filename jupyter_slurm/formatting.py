"""Formatting of durations, times, sizes and lines for users. No I/O."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Mapping


def visible(line: str) -> str:
    """Return a line without control characters, safe for a terminal.

    >>> visible("a\\x1b[31m\\nb")
    'a�[31m b'
    """
    shown = (one if one.isprintable() else " " if one.isspace() else "�" for one in line)
    return "".join(shown)


def visible_lines(text: str) -> str:
    """Make each line of a text `visible`. Keep a final newline.

    >>> visible_lines("a\\x1b]0;b\\x07\\nc\\rd\\n")
    'a�]0;b�\\nc d\\n'
    """
    return "\n".join(map(visible, text.split("\n")))


_STEERING = re.compile(
    # Allow colours, cursor movement and erasing (progress bars), and hiding the cursor.
    r"\x1b\[(?:[0-9;:]{0,40}m|[0-9]{0,4}[ACDGK]|\?25[hl])"
    r"|[\n\r\t\x08]"
)
_BEGUN = re.compile(r"\x1b(?:\[[0-9;:?]{0,40})?\Z")


def coloured(text: str) -> str:
    """Make a program's output safe for a terminal. Colours and overwriting (progress bars) are
    allowed; setting a title, writing the clipboard and querying the terminal are not.

    >>> coloured("\\x1b[31mred\\x1b[0m\\r50 %\\x1b]52;c;eA==\\x07")
    '\\x1b[31mred\\x1b[0m\\r50 %�]52;c;eA==�'
    """
    return "".join(
        part if _STEERING.fullmatch(part) else visible(part)
        for part in re.split(f"({_STEERING.pattern})", text)
    )


class Coloured:
    """A variant of `coloured` for text in pieces. A piece may end within an escape sequence."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return the text to write now, and hold back an incomplete sequence."""
        text = self._held + piece
        begun = _BEGUN.search(text)
        self._held = begun[0] if begun else ""
        return coloured(text[: begun.start()] if begun else text)


def brief(text: str, most: int = 80) -> str:
    """Shorten a text for use in a sentence.

    >>> brief("a" * 100, 5)
    'aaaa…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def duration(seconds: float) -> str:
    """Format a duration in at most two units.

    >>> duration(7.4), duration(125), duration(3700), duration(200_000)
    ('7 s', '2 min 5 s', '1 h 1 min', '2 d 7 h')
    """
    whole = max(0, int(seconds))
    for size, unit, next_size, next_unit in (
        (86_400, "d", 3_600, "h"),
        (3_600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // next_size
            return f"{whole // size} {unit}" + (f" {rest} {next_unit}" if rest else "")
    return f"{whole} s"


def moment(at_s: float, now_s: float) -> str:
    """Format the local time, with the date unless it is today."""
    at, now = time.localtime(at_s), time.localtime(now_s)
    return time.strftime("%H:%M:%S" if at[:3] == now[:3] else "%Y-%m-%d %H:%M", at)


def date_and_time(at_s: float) -> str:
    """Format the local date and time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))


def width(line: str) -> int:
    """Return the number of terminal columns of a line. A wide character takes two.

    >>> width("state"), width("状態")
    (5, 4)
    """
    if line.isascii():
        return len(line)
    wide = sum(unicodedata.east_asian_width(one) in "WF" for one in line)
    return len(line) + wide - sum(map(bool, map(unicodedata.combining, line)))


def padded(line: str, columns: int) -> str:
    """Pad a line with blanks.

    >>> padded("状態", 6)
    '状態  '
    """
    return line + " " * (columns - width(line))


def cut(line: str, columns: int) -> str:
    """Cut a line to a number of columns.

    >>> cut("状態 running", 7), cut("状態", 3)
    ('状態 ru', '状')
    """
    while width(line) > columns:
        line = line[: -max(1, (width(line) - columns) // 2)]
    return line


def memory(mib: float) -> str:
    """Format an amount of memory in MiB or GiB.

    >>> memory(512), memory(1536)
    ('512 MiB', '1.5 GiB')
    """
    return f"{mib:.0f} MiB" if mib < 1024 else f"{mib / 1024:.1f} GiB"


def size(size_bytes: float) -> str:
    """Format a size in powers of ten.

    >>> size(999), size(1_500), size(33_000_000)
    ('999 B', '1.5 kB', '33.0 MB')
    """
    if size_bytes < 1000:
        return f"{size_bytes:.0f} B"
    for unit in ("kB", "MB", "GB"):
        size_bytes /= 1000
        if size_bytes < 1000:
            return f"{size_bytes:.1f} {unit}"
    return f"{size_bytes / 1000:.1f} TB"


def counted(count: int, noun: str) -> str:
    """Return the count and its noun, with an s in the plural.

    >>> counted(1, "GPU"), counted(2000, "file")
    ('1 GPU', '2,000 files')
    """
    return f"{count:,} {noun if count == 1 else f'{noun}s'}"


def joined(*texts: str | None, between: str = " ") -> str:
    """Join the texts that are not empty.

    >>> joined("Cancelled.", None, "It had not begun.")
    'Cancelled. It had not begun.'
    """
    return between.join(filter(None, texts))


def reasons_told(reasons: Mapping[str, str], count: int) -> list[str]:
    """Return a line for each reason. If `count` is larger than their number, add a line for the
    rest.

    >>> reasons_told({"a.pt": "It cannot be read."}, 3)
    ['a.pt: It cannot be read.', 'and 2 more']
    """
    more = count - len(reasons)
    lines = [f"{name}: {why}" for name, why in reasons.items()]
    return [*lines, *([f"and {more:,} more"] if more > 0 else [])]
