"""Completion of `%%slurm`, `%%sbatch` and `%slurm` by argcomplete.

A thread requests names from the agent or cluster. Completion waits for them briefly, and caches
them for the next Tab.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
)

from jupyter_slurm.commands.arguments import (
    Completer,
    cell_parser,
    choices,
    completing_parser,
)
from jupyter_slurm.magics.state import MagicsState
from jupyter_slurm.wire import Cluster, ClusterInfo, Job, JobKind

if TYPE_CHECKING:
    from argcomplete.finders import CompletionFinder

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

_PATIENCE_S = 0.25
_KEPT_S = 30.0


class Completions:
    """The matcher for IPython's completer, with cached answers."""

    def __init__(self, state: MagicsState) -> None:
        self._session = state
        self._clusters: _Recent[list[Cluster]] = _Recent(lambda: list(state.agent.clusters()))
        self._jobs: _Recent[list[Job]] = _Recent(lambda: list(state.agent.jobs()))
        self._finders: dict[str, CompletionFinder] = {}
        self._infos: dict[str | None, _Recent[ClusterInfo]] = {}

    def matcher(self, context: CompletionContext) -> SimpleMatcherResult:
        """Return completions for IPython's matcher API (v2). The result is empty if the cursor is
        not in one of our lines."""
        line = context.text_until_cursor
        words = _ours(line, first_line=context.cursor_line == 0)
        if words is None:
            return {"completions": []}
        last = "" if line[-1:].isspace() else words.pop()
        magic, *before = words or ("",)
        if not magic:
            return {"completions": []}
        # IPython splits words at `=` and `,`, so omit everything up to the last of these
        # characters.
        cut = max(last.rfind("="), last.rfind(",")) + 1
        completions = [
            SimpleCompletion(text[cut:], type="option" if text.startswith("-") else "value")
            for text in self._found(magic, before, last)
        ]
        return {
            "completions": completions,
            "matched_fragment": last[cut:],
            "suppress": bool(completions),
        }

    def _found(self, magic: str, before: Sequence[str], last: str) -> list[str]:
        """Return the completions of the word `last`."""
        option, equals, value = last.partition("=") if last.startswith("--") else ("", "", last)
        typed = " ".join([*before, option, value] if equals else [*before, last])
        finder = self._finders[magic] = self._finders.get(magic) or self._finder(magic)
        found: list[str] = []
        while (text := finder.rl_complete(typed, len(found))) is not None:
            found.append(f"{last}{text[len(typed) :]}")
        return found

    def _finder(self, magic: str) -> CompletionFinder:
        from argcomplete.finders import CompletionFinder  # noqa: PLC0415 - loaded at the first Tab

        if magic == "%slurm":
            parser = completing_parser("notebook", self._completer)
        else:
            parser = cell_parser(self._completer, script=magic == "%%sbatch")
        return CompletionFinder(
            parser, always_complete_options=False, print_suppressed=True, append_space=False
        )

    def _completer(self, of: str) -> Completer:
        def values(prefix: str, **_: object) -> Iterable[str]:
            if of in ("push", "path"):
                return _paths(prefix, folders_only=of == "push")
            head = prefix[: prefix.rfind(",") + 1]
            return [f"{head}{name}" for name in self._names(of)]

        return values

    def _names(self, of: str) -> Iterable[str]:
        """Return the values of an option or argument; () if unknown."""
        match of:
            case "job":
                return tuple(job.id for job in self._jobs.get() or ())
            case "lab":
                return tuple(job.name for job in self._live(JobKind.LAB))
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
                found = self._live(JobKind.SESSION)
                return tuple(job.name if owner.has(job) else job.id for job in found)
            case "partition" | "account" | "qos":
                return self._of_cluster(of)
            case _:
                return choices(of)

    def _live(self, kind: JobKind) -> list[Job]:
        jobs = self._jobs.get() or ()
        return [job for job in jobs if job.kind is kind and not job.state.final]

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
    """An answer that is refreshed after half a minute. During a slow request, it is the previous
    answer or None."""

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
        except Exception as exc:  # noqa: BLE001 - completion cannot show errors
            _log.debug("completion failed: %s", exc)
        finally:
            with self._lock:
                self._asking = None
            done.set()


def _paths(start: str, *, folders_only: bool) -> Iterable[str]:
    """Yield local paths. Omit names with blanks, which would need quotes."""
    parent, slash, name = start.rpartition("/")
    try:
        found = sorted(Path(parent + slash or ".").expanduser().iterdir())
    except (OSError, RuntimeError):  # RuntimeError: an unknown `~user`
        return
    for path in found:
        text = f"{parent}{slash}{path.name}"
        if path.name.split() != [path.name] or path.name.startswith(".") > name.startswith("."):
            continue
        if path.is_dir():
            yield f"{text}/"
        elif not folders_only:
            yield text


def _ours(line: str, *, first_line: bool) -> list[str] | None:
    """Return the words of one of our lines, the magic first; None for other lines."""
    words = line.split()
    if not words or (line[:1].isspace() and words[0].startswith("%%")):
        return None
    cell = first_line and words[0] in ("%%slurm", "%%sbatch")
    return words if cell or words[0] == "%slurm" else None
