"""Mixed load over one SSH connection for a long time, with new keys every few MB.

    scripts/bench soak [SECONDS]

Commands, tunnels both ways, many short tunnels, uploads, downloads and pings at once, to a real
sshd on this machine. Prints every minute what the process holds, and fails when the connection
dies, a byte is wrong, something hangs, or threads, channels, descriptors or memory leak.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
import psutil

from jupyter_slurm.transport.ssh_transport import SharedTransport
from tests.benchmarks.table import show
from tests.ssh.accounts import make_account, make_folder, oneself
from tests.ssh.kept import keeping
from tests.ssh.sshd import Sshd
from tests.transport.far import PATIENCE_S, carried, connected, echo, echo_through, run, serving

_OUR_KEYS_BYTES = 5 << 20
_THEIR_KEYS = "RekeyLimit 7M"
_LEAK_MIB = 48.0
"""What the allocator may keep beyond what it held after the first report."""
_FILE_BYTES = 6 << 20
_STUCK_S = 120.0


@dataclass
class Load:
    transport: SharedTransport
    port: int
    folder: Path
    stop: threading.Event = field(default_factory=threading.Event)
    done: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    progress_s: dict[str, float] = field(default_factory=dict)

    def workers(self) -> dict[str, Callable[[], None]]:
        return {
            "command": self.command,
            "another command": self.command,
            "pipe": self.pipe,
            "tunnel": lambda: echo_through(self.transport, self.port, 3),
            "long tunnel": lambda: echo_through(self.transport, self.port, 40),
            "short tunnels": self.short_tunnels,
            "upload": self.upload,
            "download": self.download,
            "ping": self.ping,
        }

    def repeat(self, name: str, work: Callable[[], None]) -> None:
        while not self.stop.is_set():
            self.progress_s[name] = time.monotonic()
            try:
                work()
            except Exception as exc:
                self.problems.append(f"{name}: {type(exc).__name__}: {exc}")
                self.stop.set()
                return
            self.done[name] += 1

    def command(self) -> None:
        assert run(self.transport, "echo $((6 * 7)); exit 3") == (3, b"42\n")

    def pipe(self) -> None:
        data = os.urandom(1 << 20)
        status, out = run(self.transport, "sha256sum", data)
        assert (status, out[:64].decode()) == (0, hashlib.sha256(data).hexdigest())

    def short_tunnels(self) -> None:
        ends = [carried(self.transport, self.port) for _ in range(30)]
        for near in ends:
            near.sendall(b"x")
        for near in ends:
            assert near.recv(1) == b"x"
            near.close()

    def upload(self) -> None:
        path = self.folder / "upload"
        if not path.exists():
            path.write_bytes(os.urandom(_FILE_BYTES))
        channel = self.transport.open_stream(timeout_s=PATIENCE_S)
        try:
            channel.exec_command("wc -c")
            with path.open("rb") as source:
                assert self.transport.send_all(channel, source) == _FILE_BYTES
            channel.shutdown_write()
            assert int(channel.recv(100)) == _FILE_BYTES
        finally:
            channel.close()

    def download(self) -> None:
        channel = self.transport.open_stream(timeout_s=PATIENCE_S)
        try:
            channel.exec_command(f"head -c {_FILE_BYTES} /dev/zero; exit 7")
            with (self.folder / "download").open("wb") as sink:
                assert self.transport.receive_into(channel, sink) == _FILE_BYTES
            assert channel.recv_exit_status() == 7
        finally:
            channel.close()

    def ping(self) -> None:
        assert self.transport.ping(PATIENCE_S) is not None
        self.stop.wait(0.2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=3600.0)
    seconds: float = parser.parse_args().seconds
    with ground() as sshd, tempfile.TemporaryDirectory(prefix="soak") as folder:
        keys_changed: list[float] = []
        with connected(sshd, rekey_bytes=_OUR_KEYS_BYTES) as transport, serving(echo) as port:
            count_key_changes(transport, keys_changed)
            load = Load(transport, port, Path(folder))
            problems = soak(load, seconds, keys_changed)
    show("Done", [(name, f"{n:,}") for name, n in sorted(load.done.items())])
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


@contextmanager
def ground() -> Iterator[Sshd]:
    with keeping() as keeper:
        folder = make_folder(keeper, "soak-")
        account = make_account(keeper, folder) if os.geteuid() == 0 else oneself()
        (folder / "sshd").mkdir(mode=0o711)
        sshd = Sshd(keeper, folder / "sshd", account, ("MaxSessions 100", _THEIR_KEYS))
        sshd.start()
        try:
            yield sshd
        finally:
            sshd.stop()


def count_key_changes(transport: SharedTransport, changes: list[float]) -> None:
    change = transport._handler_table[paramiko.common.MSG_NEWKEYS]

    def count(message: paramiko.Message) -> None:
        changes.append(time.monotonic())
        change(message)

    transport._handler_table[paramiko.common.MSG_NEWKEYS] = count


def soak(load: Load, seconds: float, keys_changed: list[float]) -> list[str]:
    """What went wrong, in sentences."""
    threads_before, descriptors_before = threading.active_count(), descriptors()
    threads = [
        threading.Thread(target=load.repeat, args=(name, work), daemon=True)
        for name, work in load.workers().items()
    ]
    for thread in threads:
        thread.start()
    memory = watch(load, seconds, keys_changed)
    load.stop.set()
    for thread in threads:
        thread.join(_STUCK_S)
    problems = list(load.problems)
    problems += [f"A worker hangs: {one.name}." for one in threads if one.is_alive()]
    if not load.transport.is_active():
        problems.append(f"The connection died: {load.transport.saved_exception!r}.")
    problems += leaks(load.transport, threads_before, descriptors_before)
    if memory[-1] - memory[0] > _LEAK_MIB:
        problems.append(f"Memory grew from {memory[0]:.0f} to {memory[-1]:.0f} MiB.")
    return problems


def watch(load: Load, seconds: float, keys_changed: list[float]) -> list[float]:
    """Reports every minute; the memory that was held at each, in MiB."""
    began_s = time.monotonic()
    memory: list[float] = []
    while True:
        left_s = began_s + seconds - time.monotonic()
        load.stop.wait(max(0.0, min(60.0, seconds / 4, left_s)))
        now_s = time.monotonic()
        memory.append(psutil.Process().memory_info().rss / (1 << 20))
        line = {
            "s": f"{now_s - began_s:.0f}",
            "threads": threading.active_count(),
            "channels": len(load.transport._channels),
            "descriptors": descriptors(),
            "MiB": f"{memory[-1]:.0f}",
            "new keys": len(keys_changed),
            "done": sum(load.done.values()),
        }
        print("  ".join(f"{name} {what}" for name, what in line.items()), flush=True)
        stuck = [name for name, at_s in load.progress_s.items() if now_s - at_s > _STUCK_S]
        load.problems += [f"No progress for {_STUCK_S:.0f} s: {name}." for name in stuck]
        if load.problems or now_s - began_s >= seconds:
            return memory


def leaks(transport: SharedTransport, threads: int, descriptors_before: int) -> list[str]:
    """What is still held although nobody uses the connection any more."""
    deadline_s = time.monotonic() + 20
    while True:
        gc.collect()
        held = {
            "channels": len(transport._channels),
            "carried sockets": len(transport._pump.carried),
            "threads": threading.active_count() - threads,
            "descriptors": descriptors() - descriptors_before,
        }
        found = [f"{n} {what} too many at the end." for what, n in held.items() if n > 0]
        if not found or time.monotonic() > deadline_s:
            return found
        time.sleep(0.1)


def descriptors() -> int:
    return psutil.Process().num_fds()


if __name__ == "__main__":
    if "MALLOC_ARENA_MAX" not in os.environ:
        # Else glibc keeps memory for each of this program's many threads, which hides a leak.
        os.environ["MALLOC_ARENA_MAX"] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "tests.benchmarks.soak", *sys.argv[1:]])
    sys.exit(main())
