"""The kernel's server on the node. It runs the image's ipykernel and forwards its messages.

    python3 -u kernel.py JOBDIR ATTEMPT

Runs on the cluster, Python 3.6 and later. `task.json` contains `socket`, the name of the abstract
socket to which this user's clients connect, and `idle_s`. A new client replaces the previous
client. The kernel ends when it is idle and the last client disconnected `idle_s` ago. Exit code: 0
(the idle time is over), 65 (ipykernel is missing), 128 + n (signal n ended the kernel).
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

FLUSH_S = 2.0
MOST_DEATHS = 5
"""Number of consecutive crashes without a finished cell after which the server gives up."""
ENDING_S = 0.5
ACKNOWLEDGE_S = 1.0
BATCH = 64
"""Number of messages to forward from one channel before the next channel's turn."""
IDLE = "jupyter-slurm: no client was connected to the kernel for {:.0f} s"
GAVE_UP = "jupyter-slurm: the kernel dies as soon as it has started"


class KernelServer:
    """The kernel and its connection to the client."""

    def __init__(self, name: str, idle_s: float) -> None:
        self.idle_s = idle_s
        self.process = kernel_process.KernelProcess()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind("\0" + name)
        self.listener.listen(8)
        self.line: "Optional[frames.KernelLine]" = None
        self.pending: "List[frames.KernelLine]" = []
        self.client = ""
        self.boot = uuid.uuid4().hex
        self.got = 0
        """The number of the last message from the client."""
        self.told_got = 0
        self.kept = frames.Kept()
        self.dropped = [0, 0]
        """Number of dropped messages, and their size in bytes."""
        self.busy = False
        self.unused_since_s = time.monotonic()
        self.ended_by = 0
        self.deaths = 0
        self.queued: "List[Any]" = []
        """Messages for a kernel that does not listen yet."""
        self.replies = kernel_process.Replies()
        self.gather_s = 0.0
        """Arrival time of the first message that waits outside the outbox; 0 if none waits."""
        self.has_output = self.is_complete = False
        """`has_output` is true if the waiting messages have visible output, `is_complete` if no
        more will follow."""
        self.wake_in, self.wake_out = os.pipe()
        for descriptor in (self.wake_in, self.wake_out):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(self.wake_out)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.end)
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, self.report_signal)

    def end(self, number: int, *_: "Any") -> None:
        self.ended_by = self.ended_by or number

    def report_signal(self, number: int, *_: "Any") -> None:
        """Report to the client which signal Slurm sent (`--signal`)."""
        self.tell({"event": "signal", "signal": signal.Signals(number).name})

    def run(self) -> int:
        self.process.start()
        while not self.ended_by:
            self.wait()
            self.check_kernel()
            if self.check_timeouts():
                break
        if self.ended_by:
            self.tell({"event": "ending", "signal": signal.Signals(self.ended_by).name})
        self.flush_last()
        self.process.close()
        return 128 + self.ended_by if self.ended_by else 0

    # --- waiting ---

    def wait(self) -> None:
        """Wait for messages or a timeout, then forward the messages."""
        self.sleep()
        self.accept()
        for line in list(self.pending):
            self.receive_frames(line)
        if self.line is not None:
            self.receive_frames(self.line)
        for channel in list(self.process.sockets):
            self.forward_messages(channel)
        for reply in self.replies.overdue():
            self.keep(frames.SHELL, reply)
        if self.line is not None:
            self.fill(self.line)
            if not self.line.flush():
                self.disconnect()

    def fill(self, line: frames.KernelLine) -> None:
        """Send messages that arrive together as one piece. If more follow, ask the client for an
        answer (framing.py)."""
        now_s = time.monotonic()
        waits = line.sent + 1 < self.kept.next
        self.gather_s = (self.gather_s or now_s) if waits else 0.0
        self.is_complete = self.is_complete and waits
        due = self.is_complete or now_s - self.gather_s > frames.gather_s(self.has_output)
        if waits and (due or line.outbox):
            line.fill(self.kept)
            if not self.is_complete:
                line.say(frames.ASK)
            self.is_complete, self.has_output, self.gather_s = False, False, 0.0
        if self.got > self.told_got and (line.outbox or now_s - line.said_s > ACKNOWLEDGE_S):
            self.told_got = self.got
            line.say(frames.GOT, frames.NUMBER.pack(self.got))

    def sleep(self) -> None:
        poller = select.poll()
        poller.register(self.wake_in, select.POLLIN)
        poller.register(self.listener.fileno(), select.POLLIN)
        for line in self.pending:
            poller.register(line.source, select.POLLIN)
        if self.line is not None:
            events = select.POLLIN | (select.POLLOUT if self.line.outbox else 0)
            poller.register(self.line.source, events)
        for sock in self.process.sockets.values():
            poller.register(sock.fd, select.POLLIN)
        # ZMQ's descriptors report each change only once, so first check for messages that have
        # already arrived.
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
        return min(5.0, max(0.01, self.unused_since_s + self.idle_s - time.monotonic()))

    def check_timeouts(self) -> bool:
        """Disconnect a silent client. Return whether the idle time is over."""
        now_s = time.monotonic()
        line = self.line
        if line is not None:
            if now_s - line.heard_s > frames.SILENCE_S:
                self.disconnect()
            elif now_s - line.said_s > frames.ALIVE_S:
                line.say(framing.ALIVE)
        if self.line is not None or self.busy:
            self.unused_since_s = now_s
        if now_s - self.unused_since_s < self.idle_s:
            return False
        print(IDLE.format(self.idle_s))
        return True

    # --- the kernel ---

    def forward_messages(self, channel: bytes) -> None:
        for _ in range(BATCH):
            if not self.process.waiting(channel):
                return
            was_ready = self.process.ready
            parts = self.process.receive(channel)
            if self.process.ready and not was_ready:
                self.on_ready()
            if parts is None:
                continue
            if channel == frames.SHELL:
                if self.replies.add(parts):
                    continue
                self.is_complete = True
            elif channel == frames.IOPUB:
                self.replies.output_s = time.monotonic()
                self.has_output = self.has_output or not parts[0].endswith(frames.QUIET)
                if parts[0].endswith(b"status"):
                    self.note_status(parts)
            elif channel == frames.STDIN:
                self.is_complete = True
            self.keep(channel, parts)

    def note_status(self, parts: "List[bytes]") -> None:
        content = parts[parts.index(kernel_process.DELIMITER) + 5]
        self.busy = b'"busy"' in content
        if not self.busy:
            self.deaths = 0
            for reply in self.replies.of(parts):
                self.is_complete = True
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
            self.dropped = [self.dropped[0] + 1, self.dropped[1] + len(body)]
            return
        if self.dropped[0] and channel != frames.OURS:
            count, size = self.dropped
            self.dropped = [0, 0]
            self.tell({"event": "left out", "messages": count, "bytes": size})
        try:
            self.kept.add(body)
        except OSError:
            self.dropped = [self.dropped[0] + 1, self.dropped[1] + len(body)]

    def tell(self, event: "Dict[str, Any]") -> None:
        self.is_complete = True
        self.keep(frames.OURS, [json.dumps(event).encode("ascii")])

    def on_ready(self) -> None:
        self.busy = False
        self.tell({"event": "ready", "count": self.process.count, "info": self.process.info})
        queued, self.queued = self.queued, []
        for channel, parts in queued:
            self.process.send(channel, parts)

    def check_kernel(self) -> None:
        status = self.process.ended()
        if status is None:
            self.process.ask()
            return
        for channel in list(self.process.sockets):  # the kernel's last messages
            self.forward_messages(channel)
        if status < 0 and self.is_ending():
            return
        self.busy = False
        self.deaths += 1
        again = self.deaths < MOST_DEATHS
        self.tell({"event": "died", "status": status, "again": again})
        self.process.stop()
        self.queued = []
        self.replies.held.clear()
        if again:
            self.process.start()
        else:
            print(GAVE_UP)
            self.ended_by = signal.SIGABRT

    def is_ending(self) -> bool:
        """Return whether Slurm is ending this process, and not only the kernel. Slurm signals a
        job's processes one by one."""
        give_up_s = time.monotonic() + ENDING_S
        while not self.ended_by and time.monotonic() < give_up_s:
            time.sleep(0.02)
        return bool(self.ended_by)

    # --- the client ---

    def accept(self) -> None:
        while select.select([self.listener], [], [], 0)[0]:
            sock = framing.accepted(self.listener)
            if sock is None:
                return  # the next round accepts the others
            self.pending.append(frames.KernelLine(sock))

    def receive_frames(self, line: frames.KernelLine) -> None:
        found = line.receive()
        if found is None:
            if line is self.line:
                self.disconnect()
            else:
                self.pending.remove(line)
                line.close()
            return
        for kind, body in found:
            if kind == frames.BEGIN:
                self.attach(line, json.loads(body.decode("utf-8")))
            elif line is not self.line:
                continue
            elif kind == frames.GOT:
                self.kept.forget(frames.NUMBER.unpack(body)[0])
            elif kind == frames.MESSAGE:
                self.handle_message(body)

    def attach(self, line: frames.KernelLine, told: "Dict[str, Any]") -> None:
        if line in self.pending:
            self.pending.remove(line)
        if self.line is not None and self.line is not line:
            self.line.say(frames.TAKEN)
            self.disconnect()
        if told["client"] != self.client:
            self.client, self.got = told["client"], told["from"] - 1
            line.sent = self.kept.first - 1
        elif told["boot"] == self.boot:
            self.kept.forget(told["got"])
            line.sent = max(told["got"], self.kept.first - 1)
        self.line = line
        self.is_complete = True
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

    def handle_message(self, body: bytes) -> None:
        (number,) = frames.NUMBER.unpack_from(body)
        if number != self.got + 1:
            return  # sent twice
        self.got = number
        channel, parts = frames.unpack_parts(body[frames.NUMBER.size :])
        if channel == frames.OURS:
            self.run_command(json.loads(parts[0].decode("utf-8"))["command"])
        elif channel == frames.CONTROL or self.process.ready:
            self.process.send(channel, parts)
        else:
            self.queued.append((channel, parts))

    def run_command(self, command: str) -> None:
        if command == "interrupt":
            self.process.interrupt()
        elif command == "restart":
            self.process.stop()
            self.busy, self.deaths, self.queued = False, 0, []
            self.replies.held.clear()
            self.tell({"event": "restarting"})
            self.process.start()

    def disconnect(self) -> None:
        if self.line is not None:
            self.line.close()
            self.line = None
            self.unused_since_s, self.gather_s = time.monotonic(), 0.0

    def flush_last(self) -> None:
        """Give the last messages time to reach the client."""
        give_up_s = time.monotonic() + FLUSH_S
        while self.line is not None and time.monotonic() < give_up_s:
            self.line.fill(self.kept)
            if not self.line.flush() or not self.line.outbox:
                self.disconnect()
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
    server = KernelServer(task["socket"], float(task["idle_s"]))
    if not os.path.exists(os.path.join(argv[1], "dashboards.json")):
        return server.run()
    import runner_dashboards  # few jobs have any

    end_dashboards = runner_dashboards.start(os.path.abspath(argv[1]), argv[2], [], print)
    exit_code = server.run()
    end_dashboards()
    return exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv))
