"""Slurm's job states and flags: long and short names, and terminal states. `JobState.word` has the
words for users. `reasons` explains why a job waits, and `diagnosis` explains why it failed. Source:
job_state_string() and job_state_string_compact() in src/common/slurm_protocol_defs.c, the same from
19.05 to 26.05 except for EXPEDITING, added in 25.11. Flags come first, in the order in which Slurm
prints them: a text tool shows the first flag that is set, or the base state.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

STATES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "COMPLETING": "CG",
        "STAGE_OUT": "SO",
        "CONFIGURING": "CF",
        "EXPEDITING": "",
        "RESIZING": "RS",
        "REQUEUED": "RQ",
        "REQUEUE_FED": "RF",
        "REQUEUE_HOLD": "RH",
        "SPECIAL_EXIT": "SE",
        "STOPPED": "ST",
        "REVOKED": "RV",
        "RESV_DEL_HOLD": "RD",
        "SIGNALING": "SI",
        "PENDING": "PD",
        "RUNNING": "R",
        "SUSPENDED": "S",
        "COMPLETED": "CD",
        "CANCELLED": "CA",
        "FAILED": "F",
        "TIMEOUT": "TO",
        "NODE_FAIL": "NF",
        "PREEMPTED": "PR",
        "BOOT_FAIL": "BF",
        "DEADLINE": "DL",
        "OUT_OF_MEMORY": "OOM",
    }
)
"""Short names by long name. The flags come first, in the order of precedence."""

_ENDS: Final = frozenset(list(STATES)[list(STATES).index("COMPLETED") :])
_COMPACT: Final = MappingProxyType({short: name for name, short in STATES.items() if short})
_CANCELLED_BY = re.compile(r"CANCELLED by ([0-9]{1,10})(?![0-9])")


def is_terminal(name: str) -> bool:
    """Return whether the state is a known final state. A COMPLETING job has not ended, because its
    files may still change."""
    return name in _ENDS


def parse_state(text: str) -> str:
    """Return the long name of a state in the output of any Slurm tool.

    Accept long and short names, `CANCELLED by 1000` and `CANCELLED+` (cut off by sacct). Return an
    unknown word in capitals, and UNKNOWN for an empty text.

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
    """Return the uid in sacct's `CANCELLED by UID`, or None.

    >>> cancelled_by("CANCELLED by 1000"), cancelled_by("CANCELLED")
    (1000, None)
    """
    match = _CANCELLED_BY.match(text.strip())
    return int(match[1]) if match else None
