"""Tables of text for notebooks and terminals. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from jupyter_slurm.formatting import padded, visible, width

_CELL = "text-align:left;vertical-align:top;padding:2px 8px"
_SENTENCE = 32
"""Maximum number of characters of a cell that must not wrap."""


@dataclass(frozen=True, slots=True, repr=False)
class Table:
    """A table of text with named columns."""

    columns: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    caption: str = ""
    data: Any = None
    """The data behind the rows, for programs."""

    @property
    def rows(self) -> list[dict[str, str]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.values]

    @property
    def text(self) -> str:
        lines = aligned(self._shown(self.columns), list(map(self._shown, self.values)))
        return "\n".join([*lines, *([self.caption] if self.caption else [])])

    @property
    def terminal_text(self) -> str:
        """Return the text for a terminal; "" without rows, in which case only the caption is
        shown."""
        if not self.values and self.caption:
            return ""
        head = [name.upper() for name in self._shown(self.columns)]
        return "\n".join(aligned(head, list(map(self._shown, self.values))))

    def _shown(self, row: Sequence[str]) -> tuple[str, ...]:
        """Return a row without the columns that are empty in every row."""
        return tuple(
            cell
            for at, cell in enumerate(row)
            if not self.values or any(one[at] for one in self.values)
        )

    def to_pandas(self) -> Any:
        """Return a DataFrame of text. Raise ImportError if pandas is not installed."""
        import pandas as pd  # noqa: PLC0415

        return pd.DataFrame(self.rows, columns=list(self.columns))

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        style = f"{_CELL};white-space:pre"
        names = self._shown(self.columns)
        head = "".join(f'<th style="{style}">{escape(name)}</th>' for name in names)
        rows = ("".join(map(_html, self._shown(row))) for row in self.values)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        caption = (
            f'<div style="white-space:pre-line">{escape(self.caption)}</div>'
            if self.caption
            else ""
        )
        return (
            '<table style="border-collapse:collapse;color:inherit"><thead>'
            f'<tr style="border-bottom:1px solid currentColor">{head}</tr></thead>'
            f"<tbody>{body}</tbody></table>{caption}"
        )


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table with aligned columns.

    >>> aligned(["ID", "State"], [["a", "RUNNING"]])
    ['ID  State', 'a   RUNNING']
    """
    lines = [tuple(map(visible, line)) for line in (head, *rows)]
    widths = [max(map(width, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(map(padded, line, widths)).rstrip() for line in lines]


def _html(cell: str) -> str:
    """Return the cell as HTML. Sentences may wrap; IDs, names and numbers must not."""
    wrap = "pre-wrap;min-width:16em" if len(cell) > _SENTENCE else "pre"
    return f'<td style="{_CELL};white-space:{wrap}">{escape(cell)}</td>'
