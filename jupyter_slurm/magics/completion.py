"""Tab behind `%%slurm`, `%%sbatch` and `%slurm`: options and their values, words, jobs, names.

Nothing here may be slow: what the agent or the cluster has to be asked for is asked in a thread,
waited for a moment, and kept for the next Tab.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
)

from jupyter_slurm.commands.scanner import OURS
from jupyter_slurm.jobs.kinds import jobs_of
from jupyter_slurm.magics.commands import COMMANDS
from jupyter_slurm.magics.session import Session
from jupyter_slurm.slurm.options import OPTIONS
from jupyter_slurm.wire import Cluster, ClusterInfo, Job, JobKind

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

_PATIENCE_S = 0.25
_KEPT_S = 30.0
_TAKES_JOBS = frozenset({"attach", "cancel", "hold", "release", "requeue", "why", "logs", "forget"})
_TAKES_CLUSTER = frozenset({"use", "login", "logout", "doctor", "info"})
_TAKES_WORDS = {
    "session": ("start", "stop", "list", "use"),
    "lab": ("start", "open", "extend", "stop", "list"),
}
_FIXED = {"on-interrupt": ("detach", "cancel"), "out-format": ("auto", "data")}
_OF_SCRIPTS = ("cluster", "name", "push", "push-exclude", "fetch", "dry-run")
"""Options of ours that a batch script can have."""
_SBATCH = tuple(OPTIONS[name] for name in sorted(OPTIONS) if OPTIONS[name].reserved is None)
_CELL_OPTIONS = (
    *((f"--{name}", "option") for name in OURS),
    *((f"--{one.name}", "option of sbatch") for one in _SBATCH if one.not_in_cell is None),
)
_SCRIPT_OPTIONS = (
    *((f"--{name}", "option") for name in _OF_SCRIPTS),
    *((f"--{one.name}", "option of sbatch") for one in _SBATCH),
)


class Completions:
    """The matcher for IPython's completer, and what was asked lately."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._clusters: _Recent[list[Cluster]] = _Recent(lambda: list(session.agent.clusters()))
        self._jobs: _Recent[list[Job]] = _Recent(lambda: list(session.agent.jobs()))
        self._infos: dict[str | None, _Recent[ClusterInfo]] = {}

    def matcher(self, context: CompletionContext) -> SimpleMatcherResult:
        """As IPython's matcher API (v2) wants it; [] where the cursor is not in a line of ours."""
        line = context.text_until_cursor
        words = _ours(line, first_line=context.cursor_line == 0)
        if words is None:
            return {"completions": []}
        last = "" if line[-1:].isspace() else words.pop()
        magic, *before = words or ("",)
        if not magic:
            return {"completions": []}
        if magic == "%slurm":
            found = self._line(before, last)
        else:
            found = self._cell(before, last, script=magic == "%%sbatch")
        # A word is cut at `=` and `,` by IPython: what is left of the cut is not put in again.
        cut = max(last.rfind("="), last.rfind(",")) + 1
        fragment = last[cut:]
        completions = [
            SimpleCompletion(text, type=kind) for text, kind in found if text.startswith(fragment)
        ]
        return {
            "completions": completions,
            "matched_fragment": fragment,
            "suppress": bool(completions),
        }

    def _cell(
        self, before: Sequence[str], last: str, *, script: bool = False
    ) -> Iterable[tuple[str, str]]:
        option = _option_of_value(before, last)
        if option == "push":
            return _paths(last.removeprefix("--push="), folders_only=True)
        if option is not None:
            return ((text, "value") for text in self._values(option))
        return _SCRIPT_OPTIONS if script else _CELL_OPTIONS

    def _line(self, before: Sequence[str], last: str) -> Iterable[tuple[str, str]]:
        if not before:
            return ((word, "command") for word in COMMANDS)
        match before[0]:
            case word if word in _TAKES_CLUSTER and len(before) == 1:
                return ((name, "cluster") for name in self._values("cluster"))
            case word if word in _TAKES_WORDS and len(before) == 1:
                return ((one, "command") for one in _TAKES_WORDS[word])
            case word if word in _TAKES_WORDS and before[1] == "start":
                return self._cell(before[2:], last)
            case "session":
                return ((name, "session") for name in self._values("session"))
            case "push" if len(before) == 1:
                return _paths(last, folders_only=False)
            case "use":
                return self._cell(before[2:], last)
            case word if word in _TAKES_JOBS:
                return ((job.id, "job") for job in self._jobs.get() or ())
            case _:
                return ()

    def _values(self, option: str) -> Iterable[str]:
        """What may stand behind `option`; () where that is anybody's guess."""
        match option:
            case "cluster":
                return tuple(cluster.name for cluster in self._clusters.get() or ())
            case "image":
                used = self._session.cluster
                clusters = self._clusters.get() or ()
                here = [one for one in clusters if one.name == used or not used]
                return tuple(dict.fromkeys(image for one in here for image in one.images))
            case "in" | "out":
                return tuple(name for name in self._session.namespace if not name.startswith("_"))
            case "session":
                owner = self._session.owner
                return tuple(
                    job.name if owner.has(job) else job.id
                    for job in jobs_of(JobKind.SESSION, self._jobs.get() or ())
                    if not job.state.final
                )
            case "partition" | "account" | "qos":
                return self._of_cluster(option)
            case _ if option in _FIXED:
                return _FIXED[option]
            case _:
                known = OPTIONS.get(option)
                return tuple(known.choices or ()) if known else ()

    def _of_cluster(self, option: str) -> Sequence[str]:
        cluster = self._session.cluster
        info = self._infos.setdefault(
            cluster, _Recent(lambda: self._session.agent.cluster_info(cluster))
        ).get()
        if info is None:
            return ()
        match option:
            case "partition":
                return tuple(partition.name for partition in info.partitions)
            case "account":
                return info.accounts
            case _:
                return info.qos


class _Recent(Generic[_T]):
    """An answer not older than half a minute; where asking takes long, an older one or none."""

    def __init__(self, ask: Callable[[], _T]) -> None:
        self._ask = ask
        self._answer: _T | None = None
        self._answered_s = float("-inf")
        self._asking: threading.Event | None = None
        self._lock = threading.Lock()

    def get(self) -> _T | None:
        if time.monotonic() - self._answered_s > _KEPT_S:
            with self._lock:
                if self._asking is None:
                    self._asking = threading.Event()
                    threading.Thread(
                        target=self._work,
                        args=(self._asking,),
                        name="slurm Tab",
                        daemon=True,
                    ).start()
                asking = self._asking
            asking.wait(_PATIENCE_S)
        return self._answer

    def _work(self, done: threading.Event) -> None:
        try:
            self._answer, self._answered_s = self._ask(), time.monotonic()
        except Exception as exc:  # noqa: BLE001 - a Tab has no place for a message
            _log.debug("nothing to complete with: %s", exc)
        finally:
            with self._lock:
                self._asking = None
            done.set()


def _paths(start: str, *, folders_only: bool) -> Iterable[tuple[str, str]]:
    """Of this machine; names with blanks in them would need quotes and are left out."""
    parent, slash, name = start.rpartition("/")
    try:
        found = sorted(Path(parent + slash or ".").expanduser().iterdir())
    except (OSError, RuntimeError):  # RuntimeError: a `~user` that is nobody
        return
    for path in found:
        text = f"{parent}{slash}{path.name}"
        if path.name.split() != [path.name] or path.name.startswith(".") > name.startswith("."):
            continue
        if path.is_dir():
            yield f"{text}/", "folder"
        elif not folders_only:
            yield text, "file"


def _ours(line: str, *, first_line: bool) -> list[str] | None:
    """The words of a line of ours, the magic first; None: it is not one."""
    words = line.split()
    if not words or (line[:1].isspace() and words[0].startswith("%%")):
        return None
    cell = first_line and words[0] in ("%%slurm", "%%sbatch")
    return words if cell or words[0] == "%slurm" else None


def _option_of_value(before: Sequence[str], last: str) -> str | None:
    """The long name of the option whose value stands at the cursor."""
    if last.startswith("--") and "=" in last:
        return last[2:].partition("=")[0]
    if last.startswith("-") or not before or not before[-1].startswith("-"):
        return None
    word = before[-1]
    if word.startswith("--"):
        name = word[2:]
        if name in OURS:
            return name if OURS[name].metavar else None
    else:
        name = next((one for one, option in OPTIONS.items() if f"-{option.short}" == word), "")
    known = OPTIONS.get(name)
    return name if known is not None and known.kind != "flag" else None
