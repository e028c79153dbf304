"""The kernel as its clients see it: there at once, whatever becomes of the job that it runs in.

One loop, woken by clients, by the job's news and by the far kernel's messages. While there is no
far kernel, requests wait (`waiting`); then messages are handed on, both ways, as they are. When the
job has ended this stays, and says why: a kernel that ended would be started again by Jupyter, and a
job be submitted that nobody has asked for.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from jupyter_slurm.errors import JupyterSlurmError, LoginNeededError
from jupyter_slurm.kernel import far as far_end
from jupyter_slurm.kernel import life as job_life
from jupyter_slurm.kernel import node_messages, words
from jupyter_slurm.kernel.answers import Answers, own_info, quick
from jupyter_slurm.kernel.channels import Channels
from jupyter_slurm.kernel.cut import CutNotice
from jupyter_slurm.kernel.far import Far
from jupyter_slurm.kernel.frames import MESSAGE_MOST, TooLargeError
from jupyter_slurm.kernel.known import KernelRecord
from jupyter_slurm.kernel.life import Life
from jupyter_slurm.kernel.messages import UNSIGNED, Message
from jupyter_slurm.kernel.waiting import Waiting
from jupyter_slurm.wire import Job, JobState

_TICK_S = 2.0
_HEIR_S = 10.0
"""How long a client may take to start the next kernel, after it has ended this one's process: some
seconds on a busy machine, and then the job, perhaps after hours in the queue, would be lost."""
_LAST_WORDS_S = 5.0
"""How long what a job said last may take to come, once it is known that it has ended."""
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
"""A job that has run and is so again was put back."""


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
    """The kernel that clients see, which passes on to the one in the job. `open_line` leads to the
    kernel of a job that runs; `cluster` is the name of its cluster, if known before there is a
    job."""

    def __init__(
        self,
        channels: Channels,
        life: Life,
        record: KernelRecord,
        open_line: Callable[[Job], socket.socket],
        wakeup: Wakeup,
        session: str,
        cluster: str | None,
    ) -> None:
        self._cluster = cluster
        self._channels = channels
        self._life = life
        self._record = record
        self._open_line = open_line
        self._wakeup = wakeup
        self._answers = Answers(channels.send, session)
        self._waiting = Waiting(self._answers)
        self._outstanding: dict[str, tuple[str, Message]] = {}
        """What the far kernel has not answered yet, by id."""
        self._far: Far | None = None
        self._job: Job | None = None
        self._up = False
        self._over: tuple[str, str] | None = None
        """Why there will be no kernel any more, and what to do."""
        self._ended_s: float | None = None
        """When the job's end was heard of, as long as its last words may come."""
        self._line_open = False
        self._restarting = False
        """A new ipykernel was asked for, and the old one may still be heard of."""
        self._cut = CutNotice(self._answers)
        self._done = False
        self._terminated = False
        self._parent = os.getppid()
        channels.register(wakeup.fileno())

    def run(self) -> None:
        """Run until a client ends the kernel, or the process that started it has gone."""
        self._answers.state("starting")
        self._waiting.tell(words.begun())
        self._life.start()
        while not (self._done or self._terminated) and os.getppid() == self._parent:
            heard = self._channels.wait(_TICK_S)
            self._wakeup.clear()
            for channel, message in heard:
                self._take(channel, message)
            for event in self._life.events():
                self._went(event)
            if self._far is not None:
                for news in self._far.news():
                    self._news(self._far, news)
            self._look_at_the_clock()
        self.close()
        if self._terminated and not self._done:
            self._end_job_unless_inherited()

    def terminate(self) -> None:
        """End the kernel, from a signal's handler: a client that sends no `shutdown_request` has
        ended it."""
        self._terminated = True
        self._wakeup()

    def close(self) -> None:
        """Close the lines and channels, and leave the job running."""
        self._life.close()
        if self._far is not None:
            self._far.close()
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
                self._hand_on(channel, message)
            case _:
                self._waiting.take(channel, message, self._info())

    def _info(self) -> dict[str, Any]:
        kernel = self._record.kernel
        own = None if kernel is None else kernel.info
        return own or self._record.expected or own_info()

    def _hand_on(self, channel: str, message: Message) -> None:
        assert self._far is not None
        try:
            self._far.send(channel, UNSIGNED.parts(message))
        except TooLargeError:
            self._refuse_large(channel, message)
            return
        if channel != "stdin":
            self._outstanding[message.id] = (channel, message)

    def _refuse_large(self, channel: str, message: Message) -> None:
        why = words.too_large(message.kind, MESSAGE_MOST)
        if message.kind.endswith("_request"):
            self._answers.state("busy", message)
            self._answers.failed(channel, message, "TooLargeError", why)
        else:  # nobody waits for an answer, as to a widget's message
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
        if self._up and self._far is not None:
            self._far.command(command="interrupt")
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
            with suppress(JupyterSlurmError):  # it ends by itself, when nobody comes for it
                self._life.cancel()
                self._record.forget()
        content = {"status": "ok", "restart": restart}
        self._answers.reply(channel, message, content)
        self._answers.publish("shutdown_reply", content, message)
        self._answers.state("idle", message)
        self._done = True

    def _end_job_unless_inherited(self) -> None:
        """End the job unless another process inherits it: a restart by such a client is another
        process, which goes on in the same job."""
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
            with suppress(JupyterSlurmError):  # it ends by itself, when nobody comes for it
                self._life.cancel()
                self._record.forget()

    # --- from the job ---

    def _went(self, event: job_life.Event) -> None:
        match event:
            case job_life.Went(job):
                self._job, self._cluster = job, job.cluster
                self._look_at(job)
            case job_life.Hindered(error):
                if not self._up:
                    self._waiting.tell(words.hindrance(error, self._cluster))
            case job_life.Reachability(error):
                self._cut.way(error, time.monotonic())
            case job_life.NoJob(why, advice):
                self._end(why, advice)

    def _look_at(self, job: Job) -> None:
        if job.state.final:
            if self._line_open:
                self._ended_s = time.monotonic()
            else:
                self._end(*words.over(job))
            return
        if job.state in _QUEUED and self._far is not None:
            self._leave_far()
            self._lost_kernel(words.queued_again())
        if not self._up:
            self._waiting.tell(words.waiting(job, time.time()))
        if self._far is None and job.state is JobState.RUNNING and job.nodes:
            self._far = Far(lambda: self._open_line(job), self._wakeup)
            self._far.start()

    def _end(self, why: str, advice: str) -> None:
        """End for good: answer with the reason all that waits, and all that the far kernel has not
        answered."""
        if self._over is not None:
            return
        self._over, self._up, self._ended_s = (why, advice), False, None
        self._leave_far()
        self._give_up(JOB_ENDED, why, advice)
        self._waiting.fail(JOB_ENDED, why, advice)

    def _leave_far(self) -> None:
        if self._far is not None:
            self._far.close()
            self._far = None
        self._line_open = self._restarting = False

    def _give_up(self, ename: str, evalue: str, advice: str | None = None) -> None:
        """Answer what the far kernel will not answer: the first cell says why."""
        lost, self._outstanding = self._outstanding, {}
        said = False
        for channel, message in lost.values():
            if said:
                self._answers.aborted(channel, message)
                continue
            self._answers.failed(channel, message, ename, evalue, advice)
            said = message.kind == "execute_request"
        self._cut.forget()

    # --- from the far kernel ---

    def _news(self, far: Far, news: far_end.News) -> None:
        match news:
            case far_end.Arrived(channel, parts):
                self._arrived(channel, parts)
                far.passed_on(news)
            case far_end.Happened(event):
                self._happened(event)
                far.passed_on(news)
            case far_end.Opened():
                self._opened(far, news)
            case far_end.Cut(error):
                self._line_open = False
                self._cut.line_cut(error, time.monotonic())
                if not self._up and self._job is not None and isinstance(error, LoginNeededError):
                    first = words.hindrance(error, self._cluster)
                    self._waiting.tell(words.waiting(self._job, time.time(), first))
            case far_end.Taken():
                self._end(words.TAKEN, words.AGAIN)
            case far_end.Said(text):
                if not self._up and self._job is not None:
                    self._waiting.tell(words.waiting(self._job, time.time(), words.noted(text)))

    def _opened(self, far: Far, opened: far_end.Opened) -> None:
        self._line_open = True
        self._cut.line_open(time.monotonic())
        if opened.is_another:
            self._lost_kernel(words.another())
        kernel = self._record.kernel
        if kernel is not None and kernel.restart and not self._restarting:
            self._restarting = True
            far.command(command="restart")
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
                self._hand_on(channel, message)

    def _arrived(self, channel: str, parts: list[bytes]) -> None:
        message = UNSIGNED.message(parts)
        if message is None:
            return
        if channel in ("shell", "control"):
            self._outstanding.pop(str(message.parent.get("msg_id")), None)
        self._channels.send(channel, message)

    def _happened(self, event: node_messages.Event) -> None:
        match event:
            case node_messages.Ready(info) if not self._restarting:
                self._ready(info)
            case node_messages.Restarting():
                self._restarting = False
            case node_messages.Died(status, again):
                self._lost_kernel(words.died(status, again=again))
            case node_messages.LeftOut(messages, size_bytes):
                self._say(words.left_out(messages, size_bytes))
            case node_messages.Ending(name):
                self._say(words.ending(name))
            case node_messages.Warned(name):
                self._say(words.warned(name))

    def _lost_kernel(self, why: str) -> None:
        """Tell clients that the kernel has died; another is started in the job."""
        self._up = False
        self._give_up("KernelDied", why)
        self._answers.state("restarting")
        self._answers.state("idle")

    def _say(self, text: str) -> None:
        """Write the text to the cell that runs, if one does."""
        running = self._running()
        if running is not None:
            self._answers.publish("stream", {"name": "stderr", "text": text}, running)

    def _running(self) -> Message | None:
        for _, message in self._outstanding.values():
            if message.kind == "execute_request":
                return message
        return None

    # --- time ---

    def _look_at_the_clock(self) -> None:
        now_s = time.monotonic()
        if self._ended_s is not None and self._job is not None:
            if not self._line_open or now_s - self._ended_s > _LAST_WORDS_S:
                self._end(*words.over(self._job))
            return
        if self._up:
            self._cut.look(self._running(), self._cluster, now_s)
