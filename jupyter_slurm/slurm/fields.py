"""Call Slurm's commands so that a program can read the output, and split that into records.

The environment of every call, the separators, and the splitting of text into records and fields.
The module of a command knows what its fields mean.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

FIELD_END: Final = "\x1f"
RECORD_END: Final = "\x1e"
_DELIMITER: Final = "--delimiter="
_MOST_DIGITS: Final = 15
"""The digits of a number that JSON and a float hold exactly; Slurm's own have thirteen."""
_MOST: Final = 1e15

SLURM_ENV: Final[Mapping[str, str]] = MappingProxyType(
    {"LC_ALL": "C.UTF-8", "SLURM_BITSTR_LEN": "0", "SLURM_TIME_FORMAT": "%s"}
)
"""Set for every call whose output is parsed: UTF-8 as it is, array ranges in full (the default
cuts them at 64 bytes), times as epoch seconds."""


_UNSET: Final = frozenset(
    {"", "(null)", "(none)", "n/a", "none", "none assigned", "not_set", "unknown", "invalid"}
)


@dataclass(frozen=True, slots=True)
class Sealed:
    """A command whose records another user cannot forge, and its output with plain separators.

    A name or a comment may hold any separator that is known beforehand, so a secret follows that
    which ends a record: RECORD_END, or sacct's delimiter, where a record is a line and counts by
    its delimiters. squeue, sinfo and sprio print what follows a field's letter or width up to the
    next `%` or `,` (_parse_token and _parse_long_token in src/squeue/opts.c), and sacct its
    delimiter (src/common/print_fields.c), as they are, 18.08 to 26.05.
    """

    argv: tuple[str, ...]
    mark: bytes
    """The separator with the secret behind it; b"": the command prints none."""

    def opened(self, output: bytes) -> bytes:
        """Return the output as its parser takes it; a separator in a text becomes `\\x1e`."""
        if not self.mark:
            return output
        plain, shown = self.mark[:1], b"\\x%02x" % self.mark[0]
        return plain.join(part.replace(plain, shown) for part in output.split(self.mark))


def sealed(argv: Sequence[str], secret: str) -> Sealed:
    """Return the command with `secret` behind the separators of its format, if it has one.

    `secret`: letters, new for each call, so that the listed texts are older than it.
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
    """Return the text of a command's output; a byte that is not UTF-8 becomes the text `\\xff`."""
    if isinstance(output, bytes):
        return output.decode("utf-8", "backslashreplace")
    return output


def optional(text: str) -> str | None:
    """Return the text of a field, or None for any of Slurm's ways to say that it is not set."""
    text = text.strip()
    return None if text.lower() in _UNSET else text


def optional_text(text: str) -> str | None:
    """Return a user's free text (name, comment) as it is, blanks too; None: `(null)`."""
    return None if text in ("", "(null)") else text


def optional_int(text: str) -> int | None:
    """Return a whole number; None: the field holds anything else, or an impossible one."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def optional_float(text: str) -> float | None:
    """Return a plain decimal number, or None if the field has anything else, or too large a
    number."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if -_MOST < number < _MOST else None  # which `nan` is not


def lines(output: str | bytes) -> list[str]:
    """Split at newlines alone; `str.splitlines` cuts at characters of a text as well."""
    return decode(output).split("\n")


def split_records(output: str | bytes, names: Sequence[str]) -> list[dict[str, str]]:
    """Cut records as `cut_records` does; return each as a dict with the fields `names`."""
    return [dict(zip(names, values, strict=True)) for values in cut_records(output, len(names))]


def cut_records(output: str | bytes, count: int) -> list[list[str]]:
    """Cut records that end in RECORD_END into `count` fields each; no first field has newlines.

    The last field takes whatever is left. A piece with too few fields is not a record. Text before
    a first field is another program's: a site's wrapper, a login shell.
    """
    records: list[list[str]] = []
    for piece in decode(output).split(RECORD_END):
        values = piece.split(FIELD_END, count - 1)
        if len(values) == count:
            values[0] = values[0].rpartition("\n")[2]
            records.append(values)
    return records


def split_lines(output: str | bytes, names: Sequence[str]) -> list[dict[str, str]]:
    """Cut lines at FIELD_END into the fields `names`; the last field takes whatever is left.

    A line with too few fields is the rest of a free text that held a newline (only sacct and its
    kin end records with one), and goes back to the end of the record before it.
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
    """Return the `-o` format of squeue and sinfo for a table of field name -> %-code.

    No widths, so nothing is cut; the separators are plain suffixes (all releases).
    """
    return FIELD_END.join(codes.values()) + RECORD_END
