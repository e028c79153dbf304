"""Machine-readable calls of Slurm's commands: environment, separators, and splitting of output. The
module of each command interprets its fields.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

FIELD_END: Final = "\x1f"
RECORD_END: Final = "\x1e"
_DELIMITER: Final = "--delimiter="
_MOST_DIGITS: Final = 15
"""Maximum number of digits that JSON and a float represent exactly. Slurm's own numbers have up to
thirteen."""
_MOST: Final = 1e15

SLURM_ENV: Final[Mapping[str, str]] = MappingProxyType(
    {"LC_ALL": "C.UTF-8", "SLURM_BITSTR_LEN": "0", "SLURM_TIME_FORMAT": "%s"}
)
"""The environment of every parsed call. With it, Slurm prints UTF-8, full array ranges (the default
cuts them at 64 bytes), and times as epoch seconds."""


_UNSET: Final = frozenset(
    {"", "(null)", "(none)", "n/a", "none", "none assigned", "not_set", "unknown", "invalid"}
)


@dataclass(frozen=True, slots=True)
class Sealed:
    """A command with records that another user cannot forge. A name or comment may contain any
    known separator, so a secret follows the separator that ends a record. For sacct, it follows
    each delimiter, because a record of sacct is a line with a fixed number of delimiters. squeue,
    sinfo and sprio print the text after a field unchanged, up to the next `%` or `,` (_parse_token
    and _parse_long_token in src/squeue/opts.c). sacct prints its delimiter unchanged
    (src/common/print_fields.c). Both hold for 18.08 to 26.05.
    """

    argv: tuple[str, ...]
    mark: bytes
    """The separator with the secret; b"" if the command has none."""

    def opened(self, output: bytes) -> bytes:
        """Return the output with plain separators, for its parser. A separator within a text
        becomes an escape, such as `\\x1e`."""
        if not self.mark:
            return output
        plain, shown = self.mark[:1], b"\\x%02x" % self.mark[0]
        return plain.join(part.replace(plain, shown) for part in output.split(self.mark))


def sealed(argv: Sequence[str], secret: str) -> Sealed:
    """Return the command with `secret` after the separators of its format, if any. `secret`:
    letters that are new for each call, so that no listed text can contain them.
    """
    words, mark = list(argv), ""
    for at, word in enumerate(words):
        if at and words[at - 1] in ("-o", "-O") and RECORD_END in word:
            mark = RECORD_END + secret
            words[at] = word.replace(RECORD_END, mark)
        elif word == _DELIMITER + FIELD_END:
            mark = FIELD_END + secret
            words[at] = _DELIMITER + mark
    return Sealed(tuple(words), mark.encode())


def decode(output: str | bytes) -> str:
    """Decode a command's output; a byte that is not UTF-8 becomes an escape, such as `\\xff`."""
    if isinstance(output, bytes):
        return output.decode("utf-8", "backslashreplace")
    return output


def optional(text: str) -> str | None:
    """Return the text of a field; None if it is one of Slurm's words for "not set"."""
    text = text.strip()
    return None if text.lower() in _UNSET else text


def optional_text(text: str) -> str | None:
    """Return a user's free text (name, comment) unchanged; None for `(null)`."""
    return None if text in ("", "(null)") else text


def optional_int(text: str) -> int | None:
    """Return an integer; None for any other text or an impossible number."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def optional_float(text: str) -> float | None:
    """Return a plain decimal number; None for any other text or if the number is too large."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if -_MOST < number < _MOST else None  # this comparison is false for `nan`


def lines(output: str | bytes) -> list[str]:
    """Split at newlines only; `str.splitlines` also splits at other characters."""
    return decode(output).split("\n")


def split_records(output: str | bytes, names: Sequence[str]) -> list[dict[str, str]]:
    """Split records as `cut_records` does. Return each as a dict with the fields `names`."""
    return [dict(zip(names, values, strict=True)) for values in cut_records(output, len(names))]


def cut_records(output: str | bytes, count: int) -> list[list[str]]:
    """Split records that end in RECORD_END into `count` fields each; the first field does not
    contain a newline.

    The last field takes the rest. A piece with too few fields is not a record. Text before the
    first field comes from another program, such as a site's wrapper or a login shell.
    """
    records: list[list[str]] = []
    for piece in decode(output).split(RECORD_END):
        values = piece.split(FIELD_END, count - 1)
        if len(values) == count:
            values[0] = values[0].rpartition("\n")[2]
            records.append(values)
    return records


def split_lines(output: str | bytes, names: Sequence[str]) -> list[dict[str, str]]:
    """Split lines at FIELD_END into the fields `names`; the last field takes the rest.

    A line with too few fields continues a free text that contains a newline, so append it to the
    previous record. Only sacct and similar commands end records with a newline.
    """
    records: list[list[str]] = []
    for line in decode(output).split("\n"):
        values = line.split(FIELD_END, len(names) - 1)
        if len(values) == len(names):
            records.append(values)
        elif records and line:
            records[-1][-1] += "\n" + line
    return [dict(zip(names, values, strict=True)) for values in records]


def record_format(codes: Mapping[str, str]) -> str:
    """Return the `-o` format of squeue and sinfo for a table of %-codes by field name.

    Without widths, squeue and sinfo do not truncate values. The separators are plain suffixes (all
    releases).
    """
    return FIELD_END.join(codes.values()) + RECORD_END
