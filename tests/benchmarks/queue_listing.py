"""A wrapper of `squeue` that counts the calls, and generated listings. If a listing exists, the
wrapper prints it and does not run the real squeue."""

from __future__ import annotations

import re
import shlex
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from jupyter_slurm.slurm import squeue
from jupyter_slurm.slurm.fields import RECORD_END

_STATES = ("RUNNING", *["PENDING"] * 4)
_REASONS = ("Priority", "Resources", "QOSMaxGRESPerUser", "Dependency")
_NAMES = ("train", "eval", "prepare data", "sweep", "simulate")


@dataclass(frozen=True)
class CountedSqueue:
    calls: Path
    listing: Path

    @property
    def count(self) -> int:
        return len(self.calls.read_text().splitlines())

    def list(self, jobs: int, changed: int = 0) -> None:
        """Set the number of listed jobs. The first `changed` of them get another state."""
        whole, mine = self.listing, self.listing.with_suffix(".mine")
        records = [record(at, changed=at < changed) for at in range(jobs)]
        for path, texts in ((mine, records[::50]), (whole, records)):
            new = path.with_suffix(".new")
            new.write_text("".join(texts))
            new.replace(path)


def counted_squeue(folder: Path, first: Path) -> CountedSqueue:
    """Install the counting squeue. `first` is the first folder on the search path."""
    folder.mkdir()
    made = CountedSqueue(folder / "calls", folder / "listing")
    made.calls.touch()
    program = first / "squeue"
    real = shutil.which("squeue")
    if program.exists():
        real = str(program.rename(folder / "squeue"))
    assert real is not None
    calls, listing, mine, slurms = (
        shlex.quote(str(path))
        for path in (made.calls, made.listing, made.listing.with_suffix(".mine"), real)
    )
    program.write_text(
        "#!/bin/sh\n"
        f"echo called >>{calls}\n"
        f'[ -e {listing} ] || exec {slurms} "$@"\n'
        # The last word is the format. Its end differs between calls.
        "for form; do :; done\n"
        'end=$(printf %s "${form##*%k}")\n'
        f'case " $* " in *" -u "*) listing={mine};; *) listing={listing};; esac\n'
        f'exec sed "s/{RECORD_END}\\$/$end/" "$listing"\n'
    )
    program.chmod(0o755)
    return made


def record(at: int, *, changed: bool) -> str:
    """Return a line of squeue in our format for one job. Every 50th job is this user's."""
    state = _STATES[at % len(_STATES)]
    waits = state == "PENDING"
    now = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(1_790_000_000 + at))
    values = {
        "i": str(at + 1000),
        "A": str(at + 1000),
        "F": str(at + 1000),
        "K": "N/A",
        "T": "SUSPENDED" if changed else state,
        "r": _REASONS[at % 4] if waits else "None",
        "P": f"part{at % 7}",
        "q": "normal",
        "a": f"project{at % 40}",
        "u": "root" if at % 50 == 0 else f"user{at % 300}",
        "D": str(1 + at % 4),
        "N": "" if waits else f"n{at % 900}",
        "B": "" if waits else f"n{at % 900}",
        "S": "N/A" if waits else now,
        "e": "N/A",
        "V": now,
        "L": "1:00:00",
        "l": "2:00:00",
        "Q": str(4_000_000_000 - at * 13 % 1_000_000),
        "E": "(null)",
        "b": f"gres/gpu:{at % 5}" if at % 5 else "N/A",
        "j": f"{_NAMES[at % 5]} {at}",
        "k": "(null)",
    }
    form = squeue.all_argv()[-1]
    return re.sub("%(.)", lambda match: values[match[1]], form) + "\n"
