"""Growing remote files: one shell watches all files on a cluster and reports only changes.

One `wc -c` checks all files. It opens them and so bypasses the attribute cache of NFS. Paths that
are not regular files are skipped: a pipe would block, and a device never ends. A subshell waits
between the checks, with intervals that grow while the files do not change. At the same time the
shell reads its input: a line with another list, or EOF, ends the subshell. Checks run only while a
caller waits.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import PurePosixPath

from jupyter_slurm.errors import ConnectionLostError, TransportError
from jupyter_slurm.transport import limits
from jupyter_slurm.transport.shell.quoting import quote, raw
from jupyter_slurm.transport.shell.remote_shell import FloodError, RemoteShell, ShellGoneError

_LOOKS_PER_QUIET_TIME = 10
"""Ratio of the time since the last change to the time between checks. So a change is noticed after
at most 10 % of the time since the previous change, plus half a round trip."""
_SHORTEST_TICK_S, _LONGEST_TICK_S = 0.02, 0.5
"""Limits of the interval between checks. Each check costs the login node two forks, about 2 ms of
CPU time."""
_GAP_S = 0.02
"""The minimum time between two checks, for files that are written all the time."""
_ALONE_SHORTEST_S, _ALONE_LONGEST_S = 0.05, 2.0
"""Limits of the interval between checks by the helpers, which other calls also need."""
_WAKE_PER_QUIET_TIME, _SHORTEST_WAKE_S, _LONGEST_WAKE_S = 100, 0.001, 0.05
"""The ratio and the limits of the interval between checks of `wake`. Checking `wake` at intervals
avoids another thread.
"""

_SIZE = re.compile(rb" *([0-9]{1,18}) (.+)")

_SETTING = b"""
_q() { if [ "$_w" ]; then kill "$_w"; wait "$_w"; _w=; fi; }
_z() {
  _look
  if [ "$_a" != "$_o" ]; then _o=$_a; printf '%%s' "$_k$_i+$_n$_a$_k$_i."; fi
  kill -0 $$ || exit
  sleep "$_s"
}
_t() {
  _o=
  for _s in $_ticks; do _z; done
  _j=0
  while [ $_j -lt "$1" ]; do _z; _j=$((_j + 1)); done
}
_w=
_ticks='%b'
sleep 0.001 || _ticks=1
"""
"""Shell functions that check files. `_look`, sent with each list of files, sets `_a` to their
sizes. `_t N` checks at the intervals in `$_ticks`, and then N times at the last interval."""


def _ticks() -> Iterator[float]:
    quiet_s = 0.0
    while (tick_s := quiet_s / _LOOKS_PER_QUIET_TIME) < _LONGEST_TICK_S:
        tick_s = max(tick_s, _SHORTEST_TICK_S)
        yield tick_s
        quiet_s += tick_s
    yield _LONGEST_TICK_S


_TICKS = tuple(_ticks())


class Follow:
    """The files that any number of threads watch. The first thread that waits uses the shell; the
    others use helpers."""

    def __init__(
        self,
        open_shell: Callable[[], RemoteShell | None],
        allowed: Callable[[], bool],
        look: Callable[[bytes], bytes],
    ) -> None:
        """Prepare to watch files. `open_shell` returns None if the host does not allow another
        session. `allowed` returns whether the shell may keep its session. `look` runs a script that
        ends with `_m 0`, in one round trip, and returns its output."""
        self._open_shell = open_shell
        self._allowed = allowed
        self._look = look
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        """The lock for `_shell` and `_closed`."""
        self._closed = False
        self._shell: RemoteShell | None = None
        self._list: _List | None = None
        self._number = 0
        self._began_s = 0.0

    def grown(
        self, sizes: Mapping[PurePosixPath, int], *, wait_s: float, wake: threading.Event
    ) -> dict[PurePosixPath, int]:
        """Watch as `Transport.grown` does. Raises ConnectionLostError, or TransportError if it
        cannot open a shell."""
        deadline_s = time.monotonic() + wait_s
        if not self._turn.acquire(blocking=False):
            return self._alone(sizes, deadline_s, wake)
        try:
            for _ in range(2):
                shell = self._opened()
                if shell is None:
                    return self._alone(sizes, deadline_s, wake)
                try:
                    return self._together(shell, sizes, deadline_s, wake)
                except ShellGoneError:
                    shell.close()
                except FloodError as exc:
                    shell.close()
                    raise limits.too_much_output("wc", exc.stream, exc.most_bytes) from exc
            raise ConnectionLostError("The connection dropped while watching files.")
        finally:
            self._turn.release()

    def close(self) -> None:
        """End the waiting calls and refuse new ones."""
        with self._lock:
            self._closed = True
        self._let_go()

    def _let_go(self) -> None:
        with self._lock:
            shell, self._shell = self._shell, None
        if shell is not None:
            shell.close()

    def _opened(self) -> RemoteShell | None:
        shell = self._shell
        if shell is not None and shell.alive:
            return shell
        self._let_go()
        self._check_open()
        shell = self._open_shell()
        with self._lock:
            self._shell, self._list = shell, None
            closed = self._closed
        if closed:
            self._let_go()
            self._check_open()
        return shell

    def _check_open(self) -> None:
        if self._closed:
            raise TransportError("The connection to the cluster was closed.")

    def _together(
        self,
        shell: RemoteShell,
        sizes: Mapping[PurePosixPath, int],
        deadline_s: float,
        wake: threading.Event,
    ) -> dict[PurePosixPath, int]:
        began_s = time.monotonic()
        gap_s = min(self._began_s + _GAP_S, deadline_s) - began_s
        if gap_s > 0 and wake.wait(gap_s):
            return {}
        self._began_s = began_s
        known = self._begin(shell, sizes, deadline_s - began_s)
        try:
            while True:
                quiet_s = time.monotonic() - began_s
                tick_s = min(max(quiet_s / _WAKE_PER_QUIET_TIME, _SHORTEST_WAKE_S), _LONGEST_WAKE_S)
                said = shell.heard(shell.mark(self._number) + b".", tick_s)
                if said is not None:
                    _, _, said = said.rpartition(shell.mark(self._number) + b"+")
                    if found := known.longer(said, sizes):
                        return found
                elif wake.is_set() or time.monotonic() >= deadline_s:
                    return {}
                elif not self._allowed():
                    break
        finally:
            with suppress(ShellGoneError):
                shell.send(b"_q\n")
        self._let_go()
        return self._alone(sizes, deadline_s, wake)

    def _begin(
        self, shell: RemoteShell, sizes: Mapping[PurePosixPath, int], wait_s: float
    ) -> _List:
        line = b""
        known = self._list
        if known is None:
            setting = _SETTING % b" ".join(b"%.3f" % tick_s for tick_s in _TICKS)
            line += b"eval " + quote(setting) + b"\n"
        if known is None or known.paths != set(sizes):
            self._number += 1
            self._list = known = _List(sizes)
            line += b"_q; _i=%d; _look() { _a=$(%b); }\n" % (self._number, known.look)
        more = max(0, round((wait_s - sum(_TICKS)) / _LONGEST_TICK_S))
        shell.send(line + b"_q; _t %d </dev/null & _w=$!\n" % more)
        return known

    def _alone(
        self, sizes: Mapping[PurePosixPath, int], deadline_s: float, wake: threading.Event
    ) -> dict[PurePosixPath, int]:
        began_s = time.monotonic()
        known = _List(sizes)
        while True:
            found = known.longer(self._look(b"( %b ); _m 0" % known.look), sizes)
            now_s = time.monotonic()
            if found or now_s >= deadline_s:
                return found
            tick_s = max((now_s - began_s) / _LOOKS_PER_QUIET_TIME, _ALONE_SHORTEST_S)
            if wake.wait(min(tick_s, _ALONE_LONGEST_S, deadline_s - now_s)):
                return {}


class _List:
    """A list of files, the command that checks their sizes, and the parser of its output."""

    def __init__(self, paths: Iterable[PurePosixPath]) -> None:
        self.paths = set(paths)
        folder = os.path.commonpath([path.parent for path in self.paths])
        self._names: dict[bytes, PurePosixPath] = {}
        odd: list[bytes] = []
        for path in self.paths:
            name = b"./" + raw(path.relative_to(folder))
            if b"\n" in name:  # GNU's wc would quote it
                plain = b"/%d" % len(odd)
                odd.append(
                    b'[ -f %b ] && echo "$(wc -c <%b) %b"' % (quote(name), quote(name), plain)
                )
                name = plain
            self._names[name] = path
        names = b" ".join(quote(name) for name in self._names if name[:1] != b"/")
        # `exec` saves a fork in many shells.
        files = b'for _f in %b; do [ -e "$_f" ] && [ ! -f "$_f" ] || set -- "$@" "$_f"; done'
        steps = [*odd, b"set --", files % names, b'exec wc -c "$@" </dev/null']
        if not names:
            steps = odd
        self.look = b"cd %b && { %b; }" % (quote(folder), b"; ".join(steps))

    def longer(self, said: bytes, sizes: Mapping[PurePosixPath, int]) -> dict[PurePosixPath, int]:
        found = {}
        for line in said.splitlines():
            match = _SIZE.fullmatch(line)
            path = self._names.get(match[2]) if match else None
            if match and path is not None and int(match[1]) > sizes[path]:
                found[path] = int(match[1])
        return found
