"""The ipykernel process of a kernel's job, and the sockets of its channels.

Runs on the cluster, Python 3.6 and later, standard library and zmq only. The channels are Unix
sockets in a private folder, so messages are not signed.
"""

import collections
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid

import kernel_frames as frames
import private_folder

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is not imported on the node
    from typing import Any, Dict, List, Optional

DELIMITER = b"<IDS|MSG>"
NOT_THERE_EXIT = 65
"""Exit code if the image's Python lacks ipykernel (EX_DATAERR of sysexits.h)."""
NOT_THERE = "jupyter-slurm: this Python has no ipykernel"
KILL_S = 3.0
OUTPUT_S = 1.0
ASK_S = 1.0
"""Seconds between repeated requests to a starting kernel. They are repeated because ZMQ loses
messages that are published before the subscription."""
PORTS = {frames.SHELL: 1, frames.IOPUB: 2, frames.STDIN: 3, frames.CONTROL: 4}
HEARTBEAT = 5
PRIVATE = "jslurm-kernel-"
LONGEST_PARENT = 78
"""Maximum length of the parent folder, since the path of a socket has at most 107 bytes (unix(7)).
"""


def missing() -> "List[str]":
    """Return the modules that a kernel needs and this Python lacks."""
    return [name for name in ("ipykernel", "zmq") if importlib.util.find_spec(name) is None]


def parent_id(parts: "List[bytes]") -> str:
    """Return the ID of the request to which a message belongs, or ""."""
    parent = json.loads(parts[parts.index(DELIMITER) + 3].decode("utf-8", "replace"))
    return str(parent.get("msg_id", ""))


def refused(reply: "List[bytes]") -> "List[bytes]":
    """Return a small error in place of a reply that is too large, because the client waits for a
    reply."""
    error: "Any" = {"status": "error", "ename": "TooLargeError", "execution_count": 0}
    error.update(evalue="The reply was too large to be sent.", traceback=[])
    return reply[: reply.index(DELIMITER) + 5] + [json.dumps(error).encode("ascii")]


class Replies:
    """Replies that are held back until their output has been sent: after a reply, clients wait only
    a few seconds for output. Output ends with the state `idle`, or when none has arrived for
    `OUTPUT_S`."""

    def __init__(self) -> None:
        self.held: "Any" = collections.OrderedDict()
        """The held replies, by request ID."""
        self.output_s = 0.0
        """The time of the last output."""
        self.ended: "Any" = collections.deque(maxlen=16)
        """Requests whose output ended before the reply arrived."""

    def add(self, parts: "List[bytes]") -> bool:
        """Hold the reply. Return False if its output has already ended."""
        request = parent_id(parts)
        if request in self.ended:
            self.ended.remove(request)
            return False
        self.held[request] = parts
        self.output_s = time.monotonic()
        return True

    def of(self, status: "List[bytes]") -> "List[List[bytes]]":
        """Return the reply to the request whose output ends with `status`; [] if it has not
        arrived."""
        request = parent_id(status)
        reply = self.held.pop(request, None)
        if reply is None:
            self.ended.append(request)
            return []
        return [reply]

    def overdue(self) -> "List[List[bytes]]":
        if not self.held or time.monotonic() - self.output_s < OUTPUT_S:
            return []
        found = list(self.held.values())
        self.held.clear()
        return found


class KernelProcess:
    """The ipykernel process. Each start has its own sockets."""

    def __init__(self) -> None:
        import zmq  # `missing` reports its absence first

        self.zmq = zmq
        self.context = zmq.Context()
        self.folder, self.lock = private_folder.make(PRIVATE, LONGEST_PARENT)
        self.sockets: "Dict[bytes, Any]" = {}
        self.count = 0
        self.child: "Optional[subprocess.Popen[bytes]]" = None
        self.info: "Optional[Dict[str, Any]]" = None
        """The kernel's `kernel_info_reply`; None if it does not listen yet."""
        self.heard = False
        """True if a message has arrived on iopub, which connects later than shell."""
        self.asked_s = 0.0
        self.session = uuid.uuid4().hex
        # Hide JSLURM_ENGINE from the kernel's child processes, which may be other jobs.
        self.engine = os.environ.pop("JSLURM_ENGINE", None)

    def start(self) -> None:
        self.count += 1
        self.info, self.heard, self.asked_s = None, False, 0.0
        path = os.path.join(self.folder, "k{}".format(self.count))
        told = {"transport": "ipc", "ip": path, "key": "", "signature_scheme": "hmac-sha256"}
        ports = {"shell": frames.SHELL, "iopub": frames.IOPUB, "stdin": frames.STDIN}
        ports["control"] = frames.CONTROL
        known: "Dict[str, Any]" = dict(told, hb_port=HEARTBEAT)
        for name, channel in ports.items():
            known[name + "_port"] = PORTS[channel]
        with open(path + ".json", "w") as file:
            json.dump(known, file)
        self._connect(path)
        self.child = subprocess.Popen(
            [sys.executable, "-m", "ipykernel_launcher", "-f", path + ".json"]
            + self._engine_option(),
            stdin=subprocess.DEVNULL,
            env=dict(
                os.environ, JPY_PARENT_PID=str(os.getpid())
            ),  # the kernel ends with this process
            start_new_session=True,
        )

    def _engine_option(self) -> "List[str]":
        """Return the option that puts the job's engine into the kernel's namespace."""
        if self.engine is None:
            return []
        lines = (
            "import sys as _sys",
            "_sys.path.insert(0, %r)" % os.path.dirname(self.engine),
            "import runner_engine as _engine",
            "del _sys.path[0], _sys",
            "_engine.enter(%r, globals())" % self.engine,
            "del _engine",
        )
        return ["--IPKernelApp.code_to_run=" + "; ".join(lines)]

    def _connect(self, path: str) -> None:
        for channel, port in PORTS.items():
            kind = self.zmq.SUB if channel == frames.IOPUB else self.zmq.DEALER
            sock = self.context.socket(kind)
            sock.linger = 0
            sock.sndhwm = sock.rcvhwm = 0  # `kernel_frames.Kept` has the limit
            sock.setsockopt(self.zmq.RECONNECT_IVL, 20)
            if channel == frames.IOPUB:
                sock.setsockopt(self.zmq.SUBSCRIBE, b"")
            else:
                # Use the same identity on all channels: on stdin, the kernel prompts the client
                # that sent the shell request.
                sock.setsockopt(self.zmq.IDENTITY, self.session.encode("ascii"))
            sock.connect("ipc://{}-{}".format(path, port))
            self.sockets[channel] = sock

    @property
    def ready(self) -> bool:
        return self.info is not None and self.heard

    def ask(self) -> None:
        """Send `kernel_info_request` until the kernel has answered and iopub works."""
        now_s = time.monotonic()
        if not self.ready and now_s - self.asked_s >= ASK_S and self.child is not None:
            self.asked_s = now_s
            header = {
                "msg_id": uuid.uuid4().hex,
                "session": self.session,
                "username": "",
                "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "msg_type": "kernel_info_request",
                "version": "5.3",
            }
            body = [json.dumps(header).encode("ascii"), b"{}", b"{}", b"{}"]
            self.sockets[frames.SHELL].send_multipart([DELIMITER, b""] + body)

    def send(self, channel: bytes, parts: "List[bytes]") -> None:
        self.sockets[channel].send_multipart(parts)

    def receive(self, channel: bytes) -> "Optional[List[bytes]]":
        """Return the channel's next message for the client. Return None if the channel is empty or
        this class handled the message."""
        try:
            parts: "List[bytes]" = self.sockets[channel].recv_multipart(self.zmq.NOBLOCK)
        except self.zmq.Again:
            return None
        if self.ready and channel != frames.SHELL:
            return parts
        at = parts.index(DELIMITER)
        parent = json.loads(parts[at + 3].decode("utf-8", "replace"))
        if parent.get("session") != self.session:
            return parts if parent or channel != frames.IOPUB else None
        if channel == frames.IOPUB:
            self.heard = True
        elif self.info is None:
            self.info = json.loads(parts[at + 5].decode("utf-8", "replace"))
        return None

    def waiting(self, channel: bytes) -> bool:
        return bool(self.sockets[channel].getsockopt(self.zmq.EVENTS) & self.zmq.POLLIN)

    def interrupt(self) -> None:
        self.signal(signal.SIGINT)

    def signal(self, number: int) -> None:
        """Send a signal to the kernel's process group."""
        if self.child is not None:
            with contextlib.suppress(OSError):  # the group has ended
                os.killpg(self.child.pid, number)

    def ended(self) -> "Optional[int]":
        """Return the kernel's return code; None while it runs."""
        return None if self.child is None else self.child.poll()

    def stop(self) -> None:
        """Stop the kernel's process group, and close the channels."""
        if self.child is None:
            return
        self.signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.wait(KILL_S)
        self.signal(signal.SIGKILL)
        self.child.wait()
        self.child = None
        for sock in self.sockets.values():
            sock.close()
        self.sockets.clear()

    def close(self) -> None:
        self.stop()
        self.context.term()
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self.lock)
