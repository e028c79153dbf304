"""The output of Slurm's own commands, parsed as a table if that is unambiguous. No I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from jupyter_slurm.formatting import visible
from jupyter_slurm.views.table import Table

_NO_HEADER = re.compile(r"-[A-Za-z]*h.*|--no-?header")


@dataclass(frozen=True, slots=True, repr=False)
class SlurmText:
    """The output of a Slurm command: `text` as printed, and `table` if it is unambiguous."""

    text: str
    table: Table | None

    @property
    def rows(self) -> list[dict[str, str]]:
        """Return the table's rows; [] if the text is not a table."""
        return self.table.rows if self.table else []

    def to_pandas(self) -> Any:
        """Return a DataFrame of strings. Raise ValueError if the text is not a table."""
        if self.table is None:
            raise ValueError(
                "This output may not be a table. Use a separator, e.g. `%sacct -P` "
                "or `%squeue -o '%i|%j|%T'`."
            )
        return self.table.to_pandas()

    def __repr__(self) -> str:
        return "\n".join(visible(line) for line in self.text.rstrip("\n").split("\n"))

    def _repr_html_(self) -> str:
        if self.table is not None:
            return self.table._repr_html_()
        return f'<pre style="white-space:pre">{escape(self.text)}</pre>'


def read(argv: Sequence[str], text: str) -> SlurmText:
    """Parse the output of `argv` as a table, without guessing."""
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines or any(_NO_HEADER.fullmatch(word) for word in argv[1:]):
        return SlurmText(text, None)
    rows = _by_separator(lines) or _by_rule(lines) or _by_blanks(lines)
    if rows is None or len(set(rows[0])) != len(rows[0]) or not all(rows[0]):
        return SlurmText(text, None)
    return SlurmText(text, Table(tuple(rows[0]), tuple(tuple(row) for row in rows[1:])))


def _by_separator(lines: list[str]) -> list[list[str]] | None:
    """Split the output of `-P`, `--parsable2` or `-o '%i|%j'`, where every line has as many `|` as
    the header."""
    rows = [line.split("|") for line in lines]
    if len(rows[0]) < 2 or any(len(row) != len(rows[0]) for row in rows):
        return None
    if all(row[-1] == "" for row in rows):  # --parsable adds a separator to each line
        rows = [row[:-1] for row in rows]
    return [[cell.strip() for cell in row] for row in rows]


def _by_rule(lines: list[str]) -> list[list[str]] | None:
    """Split the output of sacct, sacctmgr or sshare, where the second line underlines each column
    with dashes."""
    if len(lines) < 2 or not re.fullmatch(r"-+( +-+)+ *", lines[1]):
        return None
    spans = [match.span() for match in re.finditer(r"-+", lines[1])]
    return [_cut(line, spans) for line in (lines[0], *lines[2:])]


def _by_blanks(lines: list[str]) -> list[list[str]] | None:
    """Split the output of squeue, sinfo or sprio, with a blank between columns of fixed width.

    Columns are ranges between positions that are blank in every line. Blanks in values can only add
    ranges beyond the header's words. The output is then not a table.
    """
    names = lines[0].split()
    if len(names) < 2 or lines[0] != lines[0].upper():
        return None
    width = max(map(len, lines))
    padded = [line.ljust(width) for line in lines]
    filled = "".join("x" if any(line[at] != " " for line in padded) else " " for at in range(width))
    spans = [match.span() for match in re.finditer(r"x+", filled)]
    header = _cut(padded[0], spans)
    return [_cut(line, spans) for line in padded] if header == names else None


def _cut(line: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """Cut a line into cells. The last column extends to the end of the line, because values may be
    longer than the dashes."""
    *most, (last, _) = spans
    return [*(line[start:end].strip() for start, end in most), line[last:].strip()]
