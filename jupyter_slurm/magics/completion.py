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

from jupyter_slurm.commands.completing import choices, in_cell, in_line
from jupyter_slurm.jobs.kinds import jobs_of
from jupyter_slurm.magics.state import MagicsState
from jupyter_slurm.wire import Cluster, ClusterInfo, Job, JobKind

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

_PATIENCE_S = 0.25
_KEPT_S = 30.0


class Completions:
    """The matcher for IPython's completer, with the latest answers it got."""

    def __init__(self, state: MagicsState) -> None:
        self._session = state
        self._clusters: _Recent[list[Cluster]] = _Recent(lambda: list(state.agent.clusters()))
        self._jobs: _Recent[list[Job]] = _Recent(lambda: list(state.agent.jobs()))
        self._infos: dict[str | None, _Recent[ClusterInfo]] = {}

    def matcher(self, context: CompletionContext) -> SimpleMatcherResult:
        """Return the completions as IPython's matcher API (v2) wants them; [] if the cursor is not
        in a line of ours."""
        line = context.text_until_cursor
        words = _ours(line, first_line=context.cursor_line == 0)
        if words is None:
            return {"completions": []}
        last = "" if line[-1:].isspace() else words.pop()
        magic, *before = words or ("",)
        if not magic:
            return {"completions": []}
        if magic == "%slurm":
            wanted = in_line(before, last, "notebook")
        else:
            wanted = in_cell(before, last, script=magic == "%%sbatch")
        found = [*wanted.words, *self._values(wanted.value, last)]
        # IPython cuts a word at `=` and `,`: do not put in again what is left of the cut.
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

    def _values(self, of: str, last: str) -> Iterable[tuple[str, str]]:
        if of in ("push", "path"):
            return _paths(last.removeprefix("--push="), folders_only=of == "push")
        return ((text, "value") for text in self._names(of))

    def _names(self, of: str) -> Iterable[str]:
        """Return the values of an option, or all jobs, …; () if the values cannot be listed."""
        match of:
            case "job":
                return tuple(job.id for job in self._jobs.get() or ())
            case "lab":
                labs = jobs_of(JobKind.LAB, self._jobs.get() or ())
                return tuple(job.name for job in labs if not job.state.final)
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
                return self._of_cluster(of)
            case _:
                return choices(of)

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
    """An answer at most half a minute old; while asking takes long, an older one or None."""

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
    """Yield paths of this machine; leave out names with blanks, which would need quotes."""
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
    """Return the words of a line of ours, the magic first; None: the line is not ours."""
    words = line.split()
    if not words or (line[:1].isspace() and words[0].startswith("%%")):
        return None
    cell = first_line and words[0] in ("%%slurm", "%%sbatch")
    return words if cell or words[0] == "%slurm" else None
