"""Slurm's quantities: times, memory, node lists, arrays, TRES, exit codes.

`parse_time_s` and `parse_memory_mib` read users' input and raise errors; `parse_duration_s`,
`parse_epoch`, `parse_tres` and `parse_exit` read Slurm's output, where None means "not set".
"""

import re
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Final

from jupyter_slurm.untrusted_json import LATEST_S

from .fields import optional_int

_UNLIMITED: Final = frozenset({"unlimited", "infinite", "-1"})
_UNIT_S: Final = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_MIB: Final = {"K": 2**-10, "M": 1, "G": 2**10, "T": 2**20, "P": 2**30}

_DAYS_FORM = re.compile(r"([0-9]{1,9})-([0-9]{1,9})(?::([0-9]{1,9}))?(?::([0-9]{1,9}))?")
_COLON_FORM = re.compile(r"([0-9]{1,9})(?::([0-9]{1,9}))?(?::([0-9]{1,9}))?")
_UNIT_FORM = re.compile(
    r"(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?", re.IGNORECASE
)
# Limit the digits, because a number with thousands of digits does not fit any time, size or float.
_PRINTED = re.compile(
    r"(?:([0-9]{1,9})-)?(?:([0-9]{1,9}):)?([0-9]{1,9}):([0-9]{1,9}(?:\.[0-9]{1,9})?)"
)
_MEMORY = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([KMGTP]?)(?:i?B)?", re.IGNORECASE)
_MOST: Final = 1e15
"""An upper limit for any count in Slurm."""


def parse_time_s(text: str) -> int | None:
    """Parse a time limit as typed, in seconds; None for no limit. Accept sbatch's forms (`30` is
    minutes, `30:00` is minutes and seconds; sbatch(1), --time) and forms with units: `30m`, `2h`,
    `1d12h`, `90s`. Raise ValueError for anything else.

    >>> parse_time_s("1-12"), parse_time_s("30"), parse_time_s("1d12h"), parse_time_s("UNLIMITED")
    (129600, 1800, 129600, None)
    """
    word = text.strip()
    if word.lower() in _UNLIMITED:
        return None
    if match := _DAYS_FORM.fullmatch(word):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return days * 86400 + hours * 3600 + minutes * 60 + seconds
    if match := _COLON_FORM.fullmatch(word):
        parts = [int(part) for part in match.groups() if part is not None]
        if len(parts) < 3:
            return parts[0] * 60 + (parts[1] if len(parts) == 2 else 0)
        return parts[0] * 3600 + parts[1] * 60 + parts[2]
    if word and (match := _UNIT_FORM.fullmatch(word)):
        pairs = zip(match.groups(), _UNIT_S.values(), strict=True)
        return sum(int(count) * unit for count, unit in pairs if count)
    raise ValueError(
        f"{text!r} is not a time: write minutes (30), H:MM:SS (1:00:00), D-HH (1-12), "
        "units (30m, 2h, 1d12h) or UNLIMITED"
    )


def format_time(seconds: float | None) -> str:
    """Return Slurm's `[D-]HH:MM:SS`, without fractions of a second; `UNLIMITED` for None.

    >>> format_time(1800), format_time(129600), format_time(None)
    ('00:30:00', '1-12:00:00', 'UNLIMITED')
    """
    if seconds is None:
        return "UNLIMITED"
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    clock = f"{hour:02}:{minute:02}:{second:02}"
    return f"{days}-{clock}" if days else clock


@lru_cache(maxsize=4096)
def parse_duration_s(text: str) -> float | None:
    """Parse a duration that squeue or sacct printed. Return seconds.

    Return None for anything else, such as UNLIMITED, INVALID, NOT_SET, Partition_Limit or N/A.

    >>> parse_duration_s("1-02:03:04"), parse_duration_s("00:01.500"), parse_duration_s("N/A")
    (93784.0, 1.5, None)
    """
    match = _PRINTED.fullmatch(text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds


def parse_memory_mib(text: str) -> int:
    """Parse a memory size as typed, in MiB, rounded up; the default unit is MiB (sbatch(1), --mem).

    0 is Slurm's "all of the node's memory". Raise ValueError for anything else.

    >>> parse_memory_mib("64G"), parse_memory_mib("1500"), parse_memory_mib("1.5G")
    (65536, 1500, 1536)
    """
    match = _MEMORY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a memory size: write 500M, 64G or 1T (no unit: MiB)")
    number, unit = match.groups()
    return -int(-(float(number) * _MIB[unit.upper() or "M"]) // 1)


def format_memory(mib: int) -> str:
    """Return the shortest exact text: `64G`, `1500M`, `0` for all of a node's memory."""
    for unit in ("P", "T", "G"):
        size = int(_MIB[unit])
        if mib >= size and mib % size == 0:
            return f"{mib // size}{unit}"
    return f"{mib}M" if mib else "0"


_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
NODE_NAME: Final = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,253}"
"""A host name. A word that does not match is unsafe in a command or an address."""
_LETTERS = re.compile(r"[A-Za-z0-9_.-]{0,254}")
_MAX_PIECES: Final = 11
"""Number of parts of a name with five ranges in brackets (HIGHEST_DIMENSIONS in slurm/slurm.h)."""
_MAX_NODES: Final = 65_536
"""Maximum number of nodes in a list (MAX_SLURM_NODES in slurm/slurm.h)."""


def parse_nodelist(text: str) -> list[str]:
    """Return the names in a node list, in its order.

    An unset list (`(null)`, `None assigned`) is empty. Raise ValueError for an unbalanced bracket,
    a malformed range, an invalid host name, or more names than Slurm has nodes.

    >>> parse_nodelist("n[001-003,7],gpu1")
    ['n001', 'n002', 'n003', 'n7', 'gpu1']
    """
    if text.strip() in ("", "(null)", "None assigned", "N/A", "None"):
        return []
    names: list[str] = []
    for part in _split_outside_brackets(text.strip()):
        names.extend(_expand(part, _MAX_NODES - len(names)))
    return names


def _split_outside_brackets(text: str) -> list[str]:
    parts, start, depth = [], 0, 0
    for at, char in enumerate(text):
        depth += {"[": 1, "]": -1}.get(char, 0)
        if depth not in (0, 1):
            break
        if char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    if depth:
        raise ValueError(f"{text[:60]!r} is not a node list: its brackets do not match")
    return [part for part in (*parts, text[start:]) if part]


def _expand(part: str, room: int) -> list[str]:
    """Return the names in a part such as `a[1-3]b[2,4]`. Raise ValueError if the part is malformed
    or has more than `room` names."""
    pieces = re.split(r"[][]", part)
    if len(pieces) > _MAX_PIECES or not all(map(_LETTERS.fullmatch, pieces[::2])):
        raise ValueError(f"{part[:60]!r} is not a list of nodes")
    names = [""]
    for at, piece in enumerate(pieces):
        texts = _numbers(piece, part, room) if at % 2 else [piece]
        if len(names) * len(texts) > room:
            raise ValueError(f"the node list has more than {_MAX_NODES} names: {part[:60]!r}")
        names = [name + text for name in names for text in texts]
    if not re.fullmatch(NODE_NAME, names[-1]):
        raise ValueError(f"{part[:60]!r} is not a list of nodes")
    return names


def _numbers(inside: str, part: str, room: int) -> list[str]:
    found: list[str] = []
    for item in inside.split(","):
        match = _RANGE.fullmatch(item)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or not 0 <= high - low < room - len(found):
            raise ValueError(f"{item[:60]!r} in {part[:60]!r} is not a range of node numbers")
        found += [f"{number:0{len(match[1])}}" for number in range(low, high + 1)]
    return found


_ARRAY_ITEM = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([1-9][0-9]{0,8}))?)?")
_MAX_ARRAY: Final = 4_000_001
"""Maximum number of tasks of an array: MaxArraySize is at most 4000001 (slurm.conf(5))."""


def parse_array(text: str) -> tuple[tuple[int, ...], int | None]:
    """Return the sorted task IDs of `--array`, and the throttle after `%`, or None.

    >>> parse_array("1-7:2,20%4")
    ((1, 3, 5, 7, 20), 4)
    """
    complaint = ValueError(
        f"{text!r} is not an array: write 1-8, 0-15:4 or 1,3,7, optionally with %4"
    )
    items, percent, limit = text.strip().partition("%")
    if percent and not (re.fullmatch(r"[0-9]{1,9}", limit) and int(limit) > 0):
        raise complaint
    tasks: set[int] = set()
    for item in items.split(","):
        match = _ARRAY_ITEM.fullmatch(item)
        if match is None:
            raise complaint
        low, high = int(match[1]), int(match[2] or match[1])
        if high < low or high >= _MAX_ARRAY:
            raise complaint
        tasks.update(range(low, high + 1, int(match[3] or 1)))
    return tuple(sorted(tasks)), int(limit) if percent else None


def indices(text: str | None) -> tuple[int, ...]:
    """Return the tasks of `3`, `5-8%2`, `[5-8]`; () for None or a truncated text."""
    try:
        return parse_array((text or "").strip("[]"))[0]
    except ValueError:
        return ()


def format_array(tasks: Iterable[int]) -> str:
    """Return task IDs in the form of `--array`, the inverse of `parse_array`.

    >>> format_array([7, 1, 2, 3])
    '1-3,7'
    """
    runs: list[tuple[int, int]] = []
    for task in sorted(tasks):
        if runs and task == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], task)
        else:
            runs.append((task, task))
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def parse_tres(text: str) -> dict[str, float]:
    """Parse resources, `cpu=4,mem=64G,gres/gpu:a100=2`: memory in MiB, the rest as numbers.

    Skip values that are not numbers; Slurm's `0` or a missing `mem` can mean all of a node's
    memory.

    >>> parse_tres("cpu=4,mem=2.5G,node=1,billing=4,gres/gpu:a100=2")["mem"]
    2560.0
    """
    amounts: dict[str, float] = {}
    for item in text.split(","):
        name, equals, amount = item.strip().rpartition("=")
        match = _MEMORY.fullmatch(amount)
        if not equals or match is None:
            continue
        number, unit = float(match[1]), match[2].upper()
        if number > _MOST:
            continue
        if name in ("mem", "vmem") or name.startswith("bb/"):
            amounts[name] = number * _MIB[unit or "M"]
        else:
            amounts[name] = number * _MIB[unit] * 2**20 if unit else number
    return amounts


_GRES_GPU = re.compile(r"(?:gres[:/])?gpu(?::([^:=,()]+?))?(?:[:=]([0-9]{1,9}))?(?:\(.*)?")
_SOCKETS = re.compile(r"\([^()]*\)")
_MOST_GPUS: Final = 1_000_000
_COUNT = re.compile(r"[0-9]{1,9}")


def gpus_by_type(text: str) -> dict[str, int]:
    """Count the GPUs in a TRES text (`gres/gpu=2,gres/gpu:a100=2`) or a gres text (`gpu:a100:2`).

    GPUs without a type count under "". A type may consist of digits: `gpu:3090:2` means two GPUs,
    but `gpu:3090` means 3090 GPUs. A bare `gpu` means one GPU (sbatch(1), --gres).

    >>> gpus_by_type("gpu:a100:4(S:0-1),gpu:3090:2,gpu:1")
    {'a100': 4, '3090': 2, '': 1}
    """
    counts: dict[str, int] = {}
    for item in _SOCKETS.sub("", text).split(","):
        match = _GRES_GPU.fullmatch(item.strip())
        if match is None:
            continue
        kind, count = match.groups()
        if kind is not None and count is None and _COUNT.fullmatch(kind):
            kind, count = None, kind
        counts[kind or ""] = counts.get(kind or "", 0) + int(count or 1)
    return counts


@lru_cache(maxsize=1024)
def gpus_in_tres(text: str) -> int:
    """Count all GPUs in a text as in `gpus_by_type`; the total without a type takes precedence.

    >>> gpus_in_tres("cpu=1,gres/gpu=2,gres/gpu:a100=2"), gpus_in_tres("gres:gpu:a100:4(S:0-1)")
    (2, 4)
    """
    counts = gpus_by_type(text)
    return min(counts.get("", 0) or sum(counts.values()), _MOST_GPUS)


def gpus_of_option(value: str) -> int:
    """Count the GPUs of all types in a value of --gpus, --gpus-per-node or a similar option.

    >>> gpus_of_option("2"), gpus_of_option("a100:1,v100:1"), gpus_of_option("")
    (2, 2, 0)
    """
    return sum(gpus_in_tres(f"gpu:{part}") for part in value.split(",") if part)


def parse_epoch(text: str) -> float | None:
    """Parse a time printed by Slurm, and return UTC epoch seconds; None for `N/A`, `Unknown`,
    `None`.

    Accept epoch seconds (`SLURM_TIME_FORMAT=%s`) and the default ISO form, which is in the local
    time of the machine that printed it.
    """
    word = text.strip()
    number = optional_int(word)
    if number is not None:
        return float(number) if 0 < number <= LATEST_S else None
    try:
        return datetime.fromisoformat(word).timestamp()
    except (ValueError, OverflowError, OSError):  # the last two mean an impossible year
        return None


def parse_exit(text: str) -> tuple[int, int] | None:
    """Parse `code:signal` of scontrol and sacct, or return None.

    >>> parse_exit("1:0"), parse_exit("0:9"), parse_exit("")
    ((1, 0), (0, 9), None)
    """
    match = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", text.strip())
    return (int(match[1]), int(match[2])) if match else None
