"""One check for each kind of value that an option of sbatch can have.

A check takes the text as typed and returns the text for sbatch; ValueError with a sentence that
says what would be right. `option_table` has the kind of each option.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from .units import (
    format_memory,
    format_time,
    parse_array,
    parse_memory_mib,
    parse_nodelist,
    parse_time_s,
)

MAX_TEXT_BYTES: Final = 1024
"""The limit for names, comments, accounts, partitions, gres (MAX_JOB_NAME_LEN and kin in
slurmctld)."""
MAX_PATH_BYTES: Final = 4096
MAX_ARRAY_BYTES: Final = 4096

_SIGNALS: Final = frozenset(
    "HUP INT QUIT ABRT KILL ALRM TERM USR1 USR2 URG CONT STOP TSTP TTIN TTOU XCPU PIPE CHLD".split()
)
_COUNT = re.compile(r"[1-9][0-9]*")
_NODES = re.compile(r"[1-9][0-9]*[km]?(?:-[1-9][0-9]*[km]?)?", re.IGNORECASE)
_NODE_SIZE = r"[1-9][0-9]*(?:-[1-9][0-9]*(?::[1-9][0-9]*)?)?"
_NODE_SIZES = re.compile(rf"{_NODE_SIZE}(?:,{_NODE_SIZE})*")
_RANGE = re.compile(r"\*|[1-9][0-9]*(?:-(?:\*|[1-9][0-9]*))?")
_GEOMETRY = re.compile(r"(?:\*|[1-9][0-9]*)(?::(?:\*|[1-9][0-9]*)){0,2}")
_GPUS = re.compile(r"(?:[^\s:,=]+[:=])?[0-9]+(?:,[^\s:,=]+[:=][0-9]+)*")
_GRES_ITEM = re.compile(
    r"(?:gres[:/])?[A-Za-z_][A-Za-z0-9_.-]*(?:[:=][^\s:,=]+(?:[:=][0-9]+[kmgtp]?)?)?",
    re.IGNORECASE,
)
_SIGNAL = re.compile(r"(?:(?P<to>[RB]{1,2}):)?(?P<signal>[A-Z0-9]+)(?:@(?P<before>[0-9]{1,5}))?")
_OURS = r"(?-i:(?!afterany)[a-z2-7]{8})"
"""An id of jupyter-slurm; sbatch gets Slurm's id in its place."""
_JOB = rf"(?:[0-9]+|{_OURS})(?:_(?:[0-9]+|\*)|\+[0-9]+)?(?:\+[0-9]+)?"
_AFTER = (
    rf"(?:after(?:any|burstbuffer|corr|notok|ok)?(?::{_JOB})+|singleton|expand:[0-9]+|{_JOB}"
    rf"(?::{_JOB})*)"
)
_DEPENDENCY = re.compile(rf"{_AFTER}(?:(?:,{_AFTER})*|(?:\?{_AFTER})*)", re.IGNORECASE)
_OUR_ID = re.compile(rf"(?<![a-z0-9])(?![0-9]{{8}}){_OURS}(?![a-z0-9])", re.IGNORECASE)
_SWITCHES = re.compile(r"([0-9]+)(?:@(.+))?")
_CLOCK = r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?: ?[AP]M)?"
_DATE = (
    r"(?:[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}|[0-9]{1,2}/[0-9]{1,2}(?:/(?:[0-9]{2}){1,2})?"
    r"|[0-9]{1,2}\.[0-9]{1,2}(?:\.[0-9]{2})?|[0-9]{4}(?:[0-9]{2})?)"
)
_DAY = r"(?:today|tomorrow|midnight|noon|elevenses|fika|teatime)"
_BEGIN = re.compile(
    rf"now(?: ?\+ ?[0-9]+ ?(?:(?:second|minute|hour|day|week)s?|sec|min)?)?"
    rf"|uts[0-9]+|{_DAY}(?:[T ]?{_CLOCK})?|{_DATE}(?:[T -]{_CLOCK})?|{_CLOCK}(?: ?{_DATE})?",
    re.IGNORECASE,
)


def _bounded(value: str, limit_bytes: int) -> str:
    size = len(value.encode("utf-8", "surrogateescape"))
    if size > limit_bytes:
        raise ValueError(f"it is {size} bytes long; Slurm takes {limit_bytes} at most")
    return value


def _text(value: str) -> str:
    return _bounded(value, MAX_TEXT_BYTES)


def _path(value: str) -> str:
    if not value:
        raise ValueError("a path is missing")
    return _bounded(value, MAX_PATH_BYTES)


def _time(value: str) -> str:
    return format_time(parse_time_s(value))


def _memory(value: str) -> str:
    return format_memory(parse_memory_mib(value))


def _matched(pattern: re.Pattern[str], value: str, remedy: str) -> str:
    word = value.strip()
    if not pattern.fullmatch(word):
        raise ValueError(remedy)
    return word


def _count(value: str) -> str:
    return _matched(_COUNT, value, "write a whole number from 1")


def _number(value: str) -> str:
    return _matched(re.compile(r"[0-9]+"), value, "write a whole number")


def _signed(value: str) -> str:
    return _matched(re.compile(r"[+-]?[0-9]+"), value, "write a whole number, or none")


def _priority(value: str) -> str:
    return _matched(re.compile(r"[0-9]+|TOP"), value, "write a whole number or TOP")


def _nodes(value: str) -> str:
    word = value.strip()
    if match := _NODES.fullmatch(word):
        low, dash, high = match[0].partition("-")
        if dash and low.isdigit() and high.isdigit() and int(high) < int(low):
            raise ValueError(f"the range ends ({high}) before it begins ({low})")
        return word
    return _matched(_NODE_SIZES, value, "write a number (2), a range (2-4) or sizes (1,2,4)")


def _range(value: str) -> str:
    return _matched(_RANGE, value, "write a whole number or a range (2-4)")


def _geometry(value: str) -> str:
    return _matched(_GEOMETRY, value, "write sockets[:cores[:threads]], like 2:16")


def _array(value: str) -> str:
    parse_array(value)
    return _bounded(value.strip(), MAX_ARRAY_BYTES)


def _nodelist(value: str) -> str:
    word = value.strip()
    if "/" not in word and not parse_nodelist(word):
        raise ValueError("write node names, like n[1-4],gpu1")
    return word


def _gpus(value: str) -> str:
    return _matched(_GPUS, value, "write a number (2) or a type and a number (a100:2)")


def _gres(value: str) -> str:
    word = value.strip()
    if not all(_GRES_ITEM.fullmatch(item) for item in word.split(",")):
        raise ValueError("write name[:type][:count], like gpu:2 or gpu:a100:2")
    return _bounded(word, MAX_TEXT_BYTES)


def _signal(value: str) -> str:
    match = _SIGNAL.fullmatch(value.strip().upper())
    remedy = "write a signal and the seconds before the end, like USR1@120 or B:TERM@60"
    if match is None:
        raise ValueError(remedy)
    name = match["signal"].removeprefix("SIG")
    is_number = name.isdigit() and 0 < int(name) <= 64
    if not is_number and name not in _SIGNALS:
        raise ValueError(f"there is no signal {match['signal']}; {remedy}")
    if match["before"] and int(match["before"]) > 65535:
        raise ValueError("the time before the end is 65535 seconds at most")
    to = f"{match['to']}:" if match["to"] else ""
    return f"{to}{name}" + (f"@{match['before']}" if match["before"] else "")


def with_slurm_ids(dependency: str, slurm_id: Callable[[str], str]) -> str:
    """Replace each of our ids in a checked value of --dependency by its `slurm_id`.

    >>> with_slurm_ids("afterok:k3j5x2m7+5:12,singleton", lambda ours: "34")
    'afterok:34+5:12,singleton'
    """
    return _OUR_ID.sub(lambda match: slurm_id(match[0]), dependency)


def _dependency(value: str) -> str:
    return _matched(
        _DEPENDENCY,
        value,
        "write afterok:123, afterany:12:13 or singleton; join them by , or ?",
    )


def _begin(value: str) -> str:
    return _matched(
        _BEGIN,
        value,
        "write 16:00, now+1hour, tomorrow, 2026-01-20 or 2026-01-20T12:34",
    )


def _switches(value: str) -> str:
    match = _SWITCHES.fullmatch(value.strip())
    if match is None:
        raise ValueError("write a number, and maybe how long to wait for it, like 1@30m")
    return match[1] + (f"@{_time(match[2])}" if match[2] else "")


CHECKS: Final[Mapping[str, Callable[[str], str]]] = MappingProxyType(
    {
        "text": _text,
        "path": _path,
        "time": _time,
        "memory": _memory,
        "count": _count,
        "number": _number,
        "signed": _signed,
        "priority": _priority,
        "nodes": _nodes,
        "range": _range,
        "geometry": _geometry,
        "array": _array,
        "nodelist": _nodelist,
        "gpus": _gpus,
        "gres": _gres,
        "signal": _signal,
        "dependency": _dependency,
        "begin": _begin,
        "switches": _switches,
    }
)
"""Kind -> its check; for `flag`, `choice` and `choices` see `options`, they need the option."""
