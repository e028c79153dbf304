"""The kernel that clients see, available at once in any state of its job.

Its single loop handles messages from clients, events of the job and messages from the remote
kernel. Requests wait until a remote kernel runs (`waiting`). Later, the loop forwards messages
unchanged in both directions. When the job has ended, the proxy stays and shows the reason. If it
exited, Jupyter would restart it and so submit a job that the user did not request.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from jupyter_slurm.errors import JupyterSlurmError, LoginNeededError
from jupyter_slurm.kernel import frames, kernel_job, stream, texts
from jupyter_slurm.kernel.answers import Answers, own_info, quick
from jupyter_slurm.kernel.channels import Channels
from jupyter_slurm.kernel.frames import MESSAGE_MOST, TooLargeError
from jupyter_slurm.kernel.kernel_job import KernelJob
from jupyter_slurm.kernel.messages import UNSIGNED, Message
from jupyter_slurm.kernel.registry import KernelRecord
from jupyter_slurm.kernel.stream import KernelStream
from jupyter_slurm.kernel.waiting import ConnectionNotice, Waiting
from jupyter_slurm.wire import Job, JobState

_TICK_S = 2.0
_HEIR_S = 10.0
"""Seconds to wait for a client to start the next process after it has ended this process. On a busy
machine, the start takes several seconds. If the wait is too short, the user loses the job, perhaps
after hours in the queue."""
_LAST_WORDS_S = 5.0
"""Seconds to wait for the job's last output once its end is known."""
JOB_ENDED = "JobEnded"
_QUEUED = frozenset(
    (
        JobState.PENDING,
        JobState.REQUEUED,
        JobState.REQUEUE_FED,
        JobState.REQUEUE_HOLD,
        JobState.SPECIAL_EXIT,
    )
)
"""States of a waiting job. A job that has run and is in one of these states was requeued."""


class Wakeup:
    """A descriptor that wakes a loop from another thread."""

    def __init__(self) -> None:
        self._reads, self._writes = socket.socketpair()
        self._reads.setblocking(False)
        self._writes.setblocking(False)

    def fileno(self) -> int:
        return self._reads.fileno()

    def __call__(self) -> None:
        with suppress(BlockingIOError):
            self._writes.send(b"x")

    def clear(self) -> None:
        with suppress(BlockingIOError):
            while self._reads.recv(4096):
                pass


class Proxy:
    """The kernel that clients see. `open_stream` connects to the kernel of a running job. `cluster`
    is the name of the job's cluster, if it is known before the submission."""

    def __init__(
        self,
        channels: Channels,
        kernel_job: KernelJob,
        record: KernelRecord,
        open_stream: Callable[[Job], socket.socket],
        wakeup: Wakeup,
        session: str,
        cluster: str | None,
    ) -> None:
        self._cluster = cluster
        self._channels = channels
        self._kernel_job = kernel_job
        self._record = record
        self._open_stream = open_stream
        self._wakeup = wakeup
        self._answers = Answers(channels.send, session)
        self._waiting = Waiting(self._answers)
        self._outstanding: dict[str, tuple[str, Message]] = {}
        """Requests that the remote kernel has not answered yet, by ID."""
        self._stream: KernelStream | None = None
        self._job: Job | None = None
        self._up = False
        self._over: tuple[str, str] | None = None
        """The reason and advice once the kernel has ended for good."""
        self._ended_s: float | None = None
        """Time at which the job's end became known, while its last output may still arrive."""
        self._stream_open = False
        self._restarting = False
        """True after a request for a new ipykernel, while messages of the old one may still
        arrive."""
        self._notice = ConnectionNotice(self._answers)
        self._done = False
        self._terminated = False
        self._parent = os.getppid()
        channels.register(wakeup.fileno())

    def run(self) -> None:
        """Run until a client ends the kernel or the parent process exits."""
        self._answers.state("starting")
        self._waiting.tell(texts.begun())
        self._kernel_job.start()
        while not (self._done or self._terminated) and os.getppid() == self._parent:
            heard = self._channels.wait(_TICK_S)
            self._wakeup.clear()
            for channel, message in heard:
                self._take(channel, message)
            for event in self._kernel_job.events():
                self._job_event(event)
            if self._stream is not None:
                for news in self._stream.news():
                    self._news(self._stream, news)
            self._check_time()
        self.close()
        if self._terminated and not self._done:
            self._end_job_unless_inherited()

    def terminate(self) -> None:
        """End the kernel after a signal, for a client that does not send `shutdown_request`."""
        self._terminated = True
        self._wakeup()

    def close(self) -> None:
        """Close the stream and the channels, and leave the job running."""
        self._kernel_job.close()
        if self._stream is not None:
            self._stream.close()
        self._channels.close()

    # --- from clients ---

    def _take(self, channel: str, message: Message) -> None:
        match message.kind:
            case "shutdown_request":
                self._shut_down(channel, message)
            case "interrupt_request":
                self._interrupt(channel, message)
            case _ if self._over is not None:
                self._refuse(channel, message)
            case _ if self._up:
                self._forward(channel, message)
            case _:
                self._waiting.take(channel, message, self._info())

    def _info(self) -> dict[str, Any]:
        kernel = self._record.kernel
        own = None if kernel is None else kernel.info
        return own or self._record.expected or own_info()

    def _forward(self, channel: str, message: Message) -> None:
        assert self._stream is not None
        try:
            self._stream.send(channel, UNSIGNED.parts(message))
        except TooLargeError:
            self._refuse_large(channel, message)
            return
        if channel != "stdin":
            self._outstanding[message.id] = (channel, message)

    def _refuse_large(self, channel: str, message: Message) -> None:
        why = texts.too_large(message.kind, MESSAGE_MOST)
        if message.kind.endswith("_request"):
            self._answers.state("busy", message)
            self._answers.failed(channel, message, "TooLargeError", why)
        else:  # no client waits for a reply, e.g. to a widget's message
            self._say(f"[{why}]\n")

    def _refuse(self, channel: str, message: Message) -> None:
        assert self._over is not None
        content = quick(message, self._info())
        if content is not None:
            self._answers.around(channel, message, content)
        else:
            self._answers.state("busy", message)
            self._answers.failed(channel, message, JOB_ENDED, *self._over)

    def _interrupt(self, channel: str, message: Message) -> None:
        self._answers.state("busy", message)
        if self._up and self._stream is not None:
            self._stream.command(command="interrupt")
        else:
            self._waiting.interrupt()
        self._answers.reply(channel, message, {"status": "ok"})
        self._answers.state("idle", message)

    def _shut_down(self, channel: str, message: Message) -> None:
        restart = bool(message.content.get("restart"))
        self._answers.state("busy", message)
        if restart:
            ended = self._over is not None or self._ended_s is not None
            self._record.change(restart=self._up and not ended, released=True)
        else:
            self._record.change(released=True)
            with suppress(JupyterSlurmError):  # the job's idle limit then ends it
                self._kernel_job.cancel()
                self._record.forget()
        content = {"status": "ok", "restart": restart}
        self._answers.reply(channel, message, content)
        self._answers.publish("shutdown_reply", content, message)
        self._answers.state("idle", message)
        self._done = True

    def _end_job_unless_inherited(self) -> None:
        """Cancel the job unless the next process takes it over. A client that ends kernels with a
        signal restarts a kernel by starting another process. That process continues in the same
        job."""
        if self._record.kernel is None:
            return
        if self._up and self._ended_s is None:
            self._record.change(restart=True)
        self._record.leave()
        give_up_s = time.monotonic() + _HEIR_S
        while (
            self._record.is_left and time.monotonic() < give_up_s and os.getppid() == self._parent
        ):
            time.sleep(0.05)
        if self._record.take_back():
            with suppress(JupyterSlurmError):  # the job's idle limit then ends it
                self._kernel_job.cancel()
                self._record.forget()

    # --- from the job ---

    def _job_event(self, event: kernel_job.Event) -> None:
        match event:
            case kernel_job.JobChanged(job):
                self._job, self._cluster = job, job.cluster
                self._look_at(job)
            case kernel_job.Retrying(error):
                if not self._up:
                    self._waiting.tell(texts.hindrance(error, self._cluster))
            case kernel_job.Reachability(error):
                self._notice.cluster_reachable(error, time.monotonic())
            case kernel_job.Gone(why, advice):
                self._end(why, advice)

    def _look_at(self, job: Job) -> None:
        if job.state.final:
            if self._stream_open:
                self._ended_s = time.monotonic()
            else:
                self._end(*texts.over(job))
            return
        if job.state in _QUEUED and self._stream is not None:
            self._close_stream()
            self._kernel_lost(texts.queued_again())
        if not self._up:
            self._waiting.tell(texts.waiting(job, time.time()))
        if self._stream is None and job.state is JobState.RUNNING and job.nodes:
            self._stream = KernelStream(lambda: self._open_stream(job), self._wakeup)
            self._stream.start()

    def _end(self, why: str, advice: str) -> None:
        """End the kernel for good. Answer all waiting and unanswered requests with the reason."""
        if self._over is not None:
            return
        self._over, self._up, self._ended_s = (why, advice), False, None
        self._close_stream()
        self._give_up(JOB_ENDED, why, advice)
        self._waiting.fail(JOB_ENDED, why, advice)

    def _close_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._stream_open = self._restarting = False

    def _give_up(self, ename: str, evalue: str, advice: str | None = None) -> None:
        """Answer the requests that the remote kernel will not answer. The first cell shows the
        reason."""
        lost, self._outstanding = self._outstanding, {}
        said = False
        for channel, message in lost.values():
            if said:
                self._answers.aborted(channel, message)
                continue
            self._answers.failed(channel, message, ename, evalue, advice)
            said = message.kind == "execute_request"
        self._notice.forget()

    # --- from the remote kernel ---

    def _news(self, stream_: KernelStream, news: stream.News) -> None:
        match news:
            case stream.Arrived(channel, parts):
                self._arrived(channel, parts)
                stream_.acknowledge(news)
            case stream.Happened(event):
                self._happened(event)
                stream_.acknowledge(news)
            case stream.Opened():
                self._opened(stream_, news)
            case stream.Cut(error):
                self._stream_open = False
                self._notice.stream_lost(error, time.monotonic())
                if not self._up and self._job is not None and isinstance(error, LoginNeededError):
                    first = texts.hindrance(error, self._cluster)
                    self._waiting.tell(texts.waiting(self._job, time.time(), first))
            case stream.Taken():
                self._end(texts.TAKEN, texts.REJOIN)
            case stream.Said(text):
                if not self._up and self._job is not None:
                    self._waiting.tell(texts.waiting(self._job, time.time(), texts.noted(text)))

    def _opened(self, stream_: KernelStream, opened: stream.Opened) -> None:
        self._stream_open = True
        self._notice.stream_open(time.monotonic())
        if opened.is_another:
            self._kernel_lost(texts.another())
        kernel = self._record.kernel
        if kernel is not None and kernel.restart and not self._restarting:
            self._restarting = True
            stream_.command(command="restart")
        elif opened.info is not None and not self._restarting:
            self._ready(opened.info)

    def _ready(self, info: dict[str, Any]) -> None:
        kernel = self._record.kernel
        if kernel is not None and kernel.info != info:
            self._record.learn(info)
        if kernel is not None and kernel.restart:
            self._record.change(restart=False)
        if not self._up:
            self._up = True
            for channel, message in self._waiting.let_go():
                self._forward(channel, message)

    def _arrived(self, channel: str, parts: list[bytes]) -> None:
        message = UNSIGNED.message(parts)
        if message is None:
            return
        if channel in ("shell", "control"):
            self._outstanding.pop(str(message.parent.get("msg_id")), None)
        self._channels.send(channel, message)

    def _happened(self, event: frames.Event) -> None:
        match event:
            case frames.Ready(info) if not self._restarting:
                self._ready(info)
            case frames.Restarting():
                self._restarting = False
            case frames.Died(status, again):
                self._kernel_lost(texts.died(status, again=again))
            case frames.LeftOut(messages, size_bytes):
                self._say(texts.left_out(messages, size_bytes))
            case frames.Ending(name):
                self._say(texts.ending(name))
            case frames.Warned(name):
                self._say(texts.warned(name))

    def _kernel_lost(self, why: str) -> None:
        """Report to clients that the kernel died and is restarting in the same job."""
        self._up = False
        self._give_up("KernelDied", why)
        self._answers.state("restarting")
        self._answers.state("idle")

    def _say(self, text: str) -> None:
        """Write the text to the running cell, if any."""
        running = self._running()
        if running is not None:
            self._answers.publish("stream", {"name": "stderr", "text": text}, running)

    def _running(self) -> Message | None:
        for _, message in self._outstanding.values():
            if message.kind == "execute_request":
                return message
        return None

    # --- time ---

    def _check_time(self) -> None:
        now_s = time.monotonic()
        if self._ended_s is not None and self._job is not None:
            if not self._stream_open or now_s - self._ended_s > _LAST_WORDS_S:
                self._end(*texts.over(self._job))
            return
        if self._up:
            self._notice.look(self._running(), self._cluster, now_s)
