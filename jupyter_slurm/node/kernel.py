"""A kernel on the node: runs the image's ipykernel, and carries its messages to the client.

    python3 -u kernel.py JOBDIR ATTEMPT

Runs on the cluster, Python 3.6 and later. Its settings are in `task.json`: `socket`, the name of
the abstract socket to which clients connect (only this user's programs may), and `idle_s`. The
client that came last has the kernel. With no client for `idle_s`, and nothing to compute, it ends.
kernel_frames.py has the form of the messages, kernel_process.py the ipykernel.
Exit code: 0 no client came for too long, 65 there is no ipykernel, 128 + n signal n ended it.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
import uuid

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # `python -P` leaves it out
import framing
import kernel_frames as frames
import kernel_process

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is not imported on the node
    from typing import Any, Dict, List, Optional

FAREWELL_S = 2.0
MOST_DEATHS = 5
"""How many deaths in a row, without a successful cell between them, before the kernel is not
started again."""
ENDED_TOO_S = 0.5
ACKNOWLEDGE_S = 1.0
BATCH = 64
"""How many messages of one channel are taken in a row."""
IDLE = "jupyter-slurm: nobody has been connected to the kernel for {:.0f} s"
GAVE_UP = "jupyter-slurm: the kernel dies as soon as it has begun"


class Holder:
    """The holder of the kernel: it serves the client that uses it."""

    def __init__(self, name: str, idle_s: float) -> None:
        self.idle_s = idle_s
        self.process = kernel_process.KernelProcess()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind("\0" + name)
        self.listener.listen(8)
        self.line: "Optional[frames.KernelLine]" = None
        self.coming: "List[frames.KernelLine]" = []
        self.client = ""
        self.boot = uuid.uuid4().hex
        self.got = 0
        """The number of the last message that the client has sent."""
        self.told_got = 0
        self.kept = frames.Kept()
        self.left_out = [0, 0]  # messages and bytes
        self.busy = False
        self.alone_s = time.monotonic()
        self.ended_by = 0
        self.deaths = 0
        self.early: "List[Any]" = []
        """Messages for the kernel that wait until it listens."""
        self.replies = kernel_process.Replies()
        self.gather_s = 0.0
        """When the first message that is not yet in the line began to wait; 0: none waits."""
        self.is_seen = self.is_whole = False
        """Whether the waiting messages show something, and whether they are complete, so that no
        more is waited for."""
        self.wake_in, self.wake_out = os.pipe()
        for descriptor in (self.wake_in, self.wake_out):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(self.wake_out)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.end)
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, self.warn)

    def end(self, number: int, *_: "Any") -> None:
        self.ended_by = self.ended_by or number

    def warn(self, number: int, *_: "Any") -> None:
        """Tell the client which signal Slurm sent: this is what sbatch's `--signal` is for."""
        self.tell({"event": "signal", "signal": signal.Signals(number).name})

    def run(self) -> int:
        self.process.start()
        while not self.ended_by:
            self.wait()
            self.look_at_the_kernel()
            if self.look_at_the_clock():
                break
        if self.ended_by:
            self.tell({"event": "ending", "signal": signal.Signals(self.ended_by).name})
        self.take_leave()
        self.process.close()
        return 128 + self.ended_by if self.ended_by else 0

    # --- waiting ---

    def wait(self) -> None:
        """Wait until a message comes or something is due, then take the messages and hand them
        on."""
        self.sleep()
        self.welcome()
        for line in list(self.coming):
            self.hear(line)
        if self.line is not None:
            self.hear(self.line)
        for channel in list(self.process.sockets):
            self.take_messages(channel)
        for reply in self.replies.overdue():
            self.keep(frames.SHELL, reply)
        if self.line is not None:
            self.fill(self.line)
            if not self.line.flush():
                self.part()

    def fill(self, line: frames.KernelLine) -> None:
        """Fill the line with messages that come together in one go. Where they are not complete,
        ask the client for an answer (`receive`)."""
        now_s = time.monotonic()
        waits = line.sent + 1 < self.kept.next
        self.gather_s = (self.gather_s or now_s) if waits else 0.0
        self.is_whole = self.is_whole and waits
        due = self.is_whole or now_s - self.gather_s > frames.gather_s(self.is_seen)
        if waits and (due or line.outbox):
            line.fill(self.kept)
            if not self.is_whole:
                line.say(frames.ASK)
            self.is_whole, self.is_seen, self.gather_s = False, False, 0.0
        if self.got > self.told_got and (line.outbox or now_s - line.said_s > ACKNOWLEDGE_S):
            self.told_got = self.got
            line.say(frames.GOT, frames.NUMBER.pack(self.got))

    def sleep(self) -> None:
        poller = select.poll()
        poller.register(self.wake_in, select.POLLIN)
        poller.register(self.listener.fileno(), select.POLLIN)
        for line in self.coming:
            poller.register(line.source, select.POLLIN)
        if self.line is not None:
            events = select.POLLIN | (select.POLLOUT if self.line.outbox else 0)
            poller.register(self.line.source, events)
        for sock in self.process.sockets.values():
            poller.register(sock.fd, select.POLLIN)
        # ZMQ's descriptors report a change once: ask for the messages that are there already.
        there = any(self.process.waiting(channel) for channel in self.process.sockets)
        poller.poll(0 if there else int(self.pause_s() * 1000))
        with contextlib.suppress(BlockingIOError):
            os.read(self.wake_in, 4096)

    def pause_s(self) -> float:
        if self.gather_s:
            return frames.GATHER_S
        if self.replies.held or not self.process.ready:
            return 0.25
        if self.got > self.told_got:
            return ACKNOWLEDGE_S
        if self.line is not None:
            return min(frames.ALIVE_S / 4, 5.0)
        return min(5.0, max(0.01, self.alone_s + self.idle_s - time.monotonic()))

    def look_at_the_clock(self) -> bool:
        """Tell whether no client has come for too long. Close the line when the client is
        silent."""
        now_s = time.monotonic()
        line = self.line
        if line is not None:
            if now_s - line.heard_s > frames.SILENCE_S:
                self.part()
            elif now_s - line.said_s > frames.ALIVE_S:
                line.say(framing.ALIVE)
        if self.line is not None or self.busy:
            self.alone_s = now_s
        if now_s - self.alone_s < self.idle_s:
            return False
        print(IDLE.format(self.idle_s))
        return True

    # --- the kernel ---

    def take_messages(self, channel: bytes) -> None:
        for _ in range(BATCH):
            if not self.process.waiting(channel):
                return
            was_ready = self.process.ready
            parts = self.process.receive(channel)
            if self.process.ready and not was_ready:
                self.begin_work()
            if parts is None:
                continue
            if channel == frames.SHELL:
                if self.replies.add(parts):
                    continue
                self.is_whole = True
            elif channel == frames.IOPUB:
                self.replies.output_s = time.monotonic()
                self.is_seen = self.is_seen or not parts[0].endswith(frames.QUIET)
                if parts[0].endswith(b"status"):
                    self.note_status(parts)
            elif channel == frames.STDIN:
                self.is_whole = True
            self.keep(channel, parts)

    def note_status(self, parts: "List[bytes]") -> None:
        content = parts[parts.index(kernel_process.DELIMITER) + 5]
        self.busy = b'"busy"' in content
        if not self.busy:
            self.deaths = 0
            for reply in self.replies.of(parts):
                self.is_whole = True
                self.keep(frames.SHELL, reply)

    def keep(self, channel: bytes, parts: "List[bytes]") -> None:
        body = frames.pack_parts(channel, parts)
        is_output = channel == frames.IOPUB and not parts[0].endswith(b"status")
        if frames.is_too_large(body):
            self.tell({"event": "left out", "messages": 1, "bytes": len(body)})
            if channel not in (frames.SHELL, frames.CONTROL):
                return
            body = frames.pack_parts(channel, kernel_process.refused(parts))
        if is_output and self.kept.full(len(body)):
            self.left_out = [self.left_out[0] + 1, self.left_out[1] + len(body)]
            return
        if self.left_out[0] and channel != frames.OURS:
            count, size = self.left_out
            self.left_out = [0, 0]
            self.tell({"event": "left out", "messages": count, "bytes": size})
        try:
            self.kept.add(body)
        except OSError:
            self.left_out = [self.left_out[0] + 1, self.left_out[1] + len(body)]

    def tell(self, event: "Dict[str, Any]") -> None:
        self.is_whole = True
        self.keep(frames.OURS, [json.dumps(event).encode("ascii")])

    def begin_work(self) -> None:
        self.busy = False
        self.tell({"event": "ready", "count": self.process.count, "info": self.process.info})
        early, self.early = self.early, []
        for channel, parts in early:
            self.process.send(channel, parts)

    def look_at_the_kernel(self) -> None:
        status = self.process.ended()
        if status is None:
            self.process.ask()
            return
        for channel in list(self.process.sockets):  # its last words
            self.take_messages(channel)
        if status < 0 and self.is_ended_too():
            return
        self.busy = False
        self.deaths += 1
        again = self.deaths < MOST_DEATHS
        self.tell({"event": "died", "status": status, "again": again})
        self.process.stop()
        self.early = []
        self.replies.held.clear()
        if again:
            self.process.start()
        else:
            print(GAVE_UP)
            self.ended_by = signal.SIGABRT

    def is_ended_too(self) -> bool:
        """Tell whether Slurm is ending this process too: it signals the processes of a job one
        after the other."""
        give_up_s = time.monotonic() + ENDED_TOO_S
        while not self.ended_by and time.monotonic() < give_up_s:
            time.sleep(0.02)
        return bool(self.ended_by)

    # --- who uses it ---

    def welcome(self) -> None:
        while select.select([self.listener], [], [], 0)[0]:
            sock = framing.accepted(self.listener)
            if sock is None:
                return  # the others get their turn in the next round
            self.coming.append(frames.KernelLine(sock))

    def hear(self, line: frames.KernelLine) -> None:
        found = line.receive()
        if found is None:
            if line is self.line:
                self.part()
            else:
                self.coming.remove(line)
                line.close()
            return
        for kind, body in found:
            if kind == frames.BEGIN:
                self.begin(line, json.loads(body.decode("utf-8")))
            elif line is not self.line:
                continue
            elif kind == frames.GOT:
                self.kept.forget(frames.NUMBER.unpack(body)[0])
            elif kind == frames.MESSAGE:
                self.take(body)

    def begin(self, line: frames.KernelLine, told: "Dict[str, Any]") -> None:
        if line in self.coming:
            self.coming.remove(line)
        if self.line is not None and self.line is not line:
            self.line.say(frames.TAKEN)
            self.part()
        if told["client"] != self.client:
            self.client, self.got = told["client"], told["from"] - 1
            line.sent = self.kept.first - 1
        elif told["boot"] == self.boot:
            self.kept.forget(told["got"])
            line.sent = max(told["got"], self.kept.first - 1)
        self.line = line
        self.is_whole = True
        self.told_got = self.got
        info = self.process.info if self.process.ready else None
        welcome = {
            "boot": self.boot,
            "packs": line.pack(told.get("packs")),
            "got": self.got,
            "next": line.sent + 1,
            "info": info,
            "busy": self.busy,
            "count": self.process.count,
        }
        line.say(frames.WELCOME, json.dumps(welcome).encode("ascii"))

    def take(self, body: bytes) -> None:
        (number,) = frames.NUMBER.unpack_from(body)
        if number != self.got + 1:
            return  # it has come before
        self.got = number
        channel, parts = frames.unpack_parts(body[frames.NUMBER.size :])
        if channel == frames.OURS:
            self.obey(json.loads(parts[0].decode("utf-8"))["command"])
        elif channel == frames.CONTROL or self.process.ready:
            self.process.send(channel, parts)
        else:
            self.early.append((channel, parts))

    def obey(self, command: str) -> None:
        if command == "interrupt":
            self.process.interrupt()
        elif command == "restart":
            self.process.stop()
            self.busy, self.deaths, self.early = False, 0, []
            self.replies.held.clear()
            self.tell({"event": "restarting"})
            self.process.start()

    def part(self) -> None:
        if self.line is not None:
            self.line.close()
            self.line = None
            self.alone_s, self.gather_s = time.monotonic(), 0.0

    def take_leave(self) -> None:
        """Give the last messages some time to reach the client."""
        give_up_s = time.monotonic() + FAREWELL_S
        while self.line is not None and time.monotonic() < give_up_s:
            self.line.fill(self.kept)
            if not self.line.flush() or not self.line.outbox:
                self.part()
            else:
                select.select([], [self.line.sink], [], 0.2)


def main(argv: "List[str]") -> int:
    with open(os.path.join(argv[1], "task.json"), encoding="utf-8") as file:
        task = json.load(file)
    lacking = kernel_process.missing()
    if lacking:
        where = "{} ({})".format(sys.executable, sys.version.split()[0])
        print("{}: {} lacks {}".format(kernel_process.NOT_THERE, where, ", ".join(lacking)))
        return kernel_process.NOT_THERE_EXIT
    holder = Holder(task["socket"], float(task["idle_s"]))
    if not os.path.exists(os.path.join(argv[1], "dashboards.json")):
        return holder.run()
    import runner_dashboards  # noqa: PLC0415 - few jobs have any

    end_dashboards = runner_dashboards.start(os.path.abspath(argv[1]), argv[2], [], print)
    exit_code = holder.run()
    end_dashboards()
    return exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv))
