"""`delay.py` as a process that tests control."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.ssh.kept import Keeper

PROGRAM = Path(__file__).with_name("delay.py")


@dataclass(frozen=True)
class SlowLine:
    """A line through `port` of 127.0.0.1 to another port of 127.0.0.1."""

    port: int
    pid: int

    def freeze(self) -> None:
        """Silently hold all data, as with an unplugged cable."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Deliver all held data."""
        os.kill(self.pid, signal.SIGCONT)

    def cut(self) -> None:
        """Reset every connection. New connections are accepted."""
        os.kill(self.pid, signal.SIGUSR1)

    def end(self) -> None:
        """Break all connections and refuse new connections, permanently."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def lay(
    keeper: Keeper,
    folder: Path,
    port: int,
    one_way_s: float,
    bytes_per_s: float | None = None,
    host: str = "127.0.0.1",
) -> SlowLine:
    log = folder / f"line-{time.monotonic_ns()}.log"
    argv = [sys.executable, str(PROGRAM), "0", host, str(port), str(one_way_s)]
    pid = keeper.start(argv + ([] if bytes_per_s is None else [str(bytes_per_s)]), log)
    deadline_s = time.monotonic() + 60
    while not (said := log.read_text() if log.exists() else "").endswith("\n"):
        assert time.monotonic() < deadline_s, "the line does not listen"
        time.sleep(0.01)
    assert said.strip().isdigit(), said
    return SlowLine(int(said), pid)
