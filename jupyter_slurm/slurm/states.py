"""Every job state and flag of Slurm: its long and short name, whether it is an end, its meaning.

`reasons` explains why a job waits; `diagnosis` why it failed.
Source: job_state_string() and job_state_string_compact() in src/common/slurm_protocol_defs.c; the
same from 19.05 to 26.05, with EXPEDITING since 25.11. The flags come first, in the order in which
Slurm prints them: a text tool shows the first flag that is set, and else the base state.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class StateInfo:
    """A state; `meaning` is a clause that follows "the job". The word for it is `JobState.word`."""

    name: str
    compact: str
    terminal: bool
    meaning: str
    known: bool = True


def _live(name: str, compact: str, meaning: str) -> StateInfo:
    return StateInfo(name, compact, False, meaning)


def _end(name: str, compact: str, meaning: str) -> StateInfo:
    return StateInfo(name, compact, True, meaning)


_TABLE: Final = (
    _live("COMPLETING", "CG", "has ended, but its processes or the epilog still run"),
    _live("STAGE_OUT", "SO", "is copying its results out of the burst buffer"),
    _live("CONFIGURING", "CF", "has its nodes, and they are booting or being set up"),
    _live("EXPEDITING", "", "was requeued and is to start again ahead of the others"),
    _live("RESIZING", "RS", "is changing its size"),
    _live("REQUEUED", "RQ", "was put back into the queue and starts from scratch"),
    _live("REQUEUE_FED", "RF", "was put back into the queue of the federation"),
    _live("REQUEUE_HOLD", "RH", "was put back into the queue and is held until released"),
    _live("SPECIAL_EXIT", "SE", "ended with an exit code for which Slurm holds jobs"),
    _live("STOPPED", "ST", "was stopped by a signal and keeps its nodes"),
    _live("REVOKED", "RV", "was started by another cluster of the federation"),
    _live("RESV_DEL_HOLD", "RD", "is held because its reservation was deleted"),
    _live("SIGNALING", "SI", "is being sent a signal"),
    _live("PENDING", "PD", "waits in the queue"),
    _live("RUNNING", "R", "is running"),
    _live("SUSPENDED", "S", "is suspended; its processes are kept"),
    _end("COMPLETED", "CD", "ended with exit code 0"),
    _end("CANCELLED", "CA", "was cancelled by its owner or an administrator"),
    _end("FAILED", "F", "ended with an exit code other than 0, or by a signal"),
    _end("TIMEOUT", "TO", "ran into its time limit"),
    _end("NODE_FAIL", "NF", "ended because one of its nodes failed"),
    _end("PREEMPTED", "PR", "had to make room for a job that goes before it"),
    _end("BOOT_FAIL", "BF", "could not start because its node did not boot"),
    _end("DEADLINE", "DL", "could no longer end before its --deadline"),
    _end("OUT_OF_MEMORY", "OOM", "used more memory than it had asked for"),
)

STATES: Final[Mapping[str, StateInfo]] = MappingProxyType({info.name: info for info in _TABLE})
"""Long name -> what it is; the flags first, in the order of precedence."""

_COMPACT: Final = MappingProxyType({info.compact: info.name for info in _TABLE if info.compact})
_CANCELLED_BY = re.compile(r"CANCELLED by ([0-9]{1,10})(?![0-9])")


def state_info(name: str) -> StateInfo:
    """Return the data of a state. An unknown one is not an end, so that watching goes on."""
    info = STATES.get(name)
    if info is not None:
        return info
    return StateInfo(name, "", False, f"is in a state unknown here ({name})", False)


def is_terminal(name: str) -> bool:
    """Return True only for a known end. A job still COMPLETING has not ended: files may change."""
    return state_info(name).terminal


def parse_state(text: str) -> str:
    """Return the long name for a state in the output of any of Slurm's tools.

    This accepts long and compact names, `CANCELLED by 1000` and `CANCELLED+` (sacct, cut off). It
    returns a word that no release has as it is, in capitals.

    >>> parse_state("CANCELLED by 1000"), parse_state("OOM")
    ('CANCELLED', 'OUT_OF_MEMORY')
    """
    words = text.split()
    if not words:
        return "UNKNOWN"
    word = words[0].upper()
    if word in STATES:
        return word
    if word in _COMPACT:
        return _COMPACT[word]
    if word.endswith("+") and len(word) > 1:
        matches = [name for name in STATES if name.startswith(word[:-1])]
        return matches[0] if len(matches) == 1 else word
    return word


def cancelled_by(text: str) -> int | None:
    """Return the uid in sacct's `CANCELLED by UID`; None if it names nobody.

    >>> cancelled_by("CANCELLED by 1000"), cancelled_by("CANCELLED")
    (1000, None)
    """
    match = _CANCELLED_BY.match(text.strip())
    return int(match[1]) if match else None
