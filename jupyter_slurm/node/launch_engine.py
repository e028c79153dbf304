"""The common part of launch_ray.py and launch_dask.py. They start the engine on one node and, on
the first node, also the user's code.

Runs on the cluster, in the image, Python 3.6 and later, standard library only. The first node
writes the engine's address to `engine.N.json`, for the other nodes and the code (runner_engine.py).
Failures are lines of `launch.N.jsonl`. This program reports failures of the first node, and
launch.py reports failures of the other nodes.
"""

import contextlib
import fcntl
import hashlib
import hmac
import importlib.util
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # `python -P` leaves it out

import launch_processes
import private_folder
import runner

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from types import FrameType
    from typing import Any, Dict, List, Optional

MISSING = 65
"""Exit code if this Python does not have the engine (EX_DATAERR of sysexits.h)."""
FAILED = 70
"""Exit code EX_SOFTWARE of sysexits.h."""
START_S = 120.0
"""Timeout for the engine's start on the first node. It takes a minute on a busy file system."""
AFTER_ENGINE_S = 10.0
"""Time for the code to continue after the engine has ended on the first node."""
KILL_AFTER_S = 30.0
"""Time between SIGTERM and SIGKILL for the code, like Slurm's KillWait (slurm.conf(5))."""
GRACE_S = 2.0
"""Time between SIGTERM and SIGKILL for the engine's programs."""
LEAVE_S = 20.0
"""Time for which the engine keeps running on the other nodes after Slurm's SIGTERM, because the
code may need it to save data. Slurm sends SIGKILL after KillWait (30 s)."""
LOOK_S = 0.05
OVER_S = 1.0
"""Time to wait for a report of the job's end, after the engine has ended on this node."""
LAST_WORDS_S = 0.3
TAIL_LINES = 3
PREFIX = "jse-"


class EngineError(Exception):
    """The engine cannot start on this node. The message gives the reason."""


class Program:
    """A program of the engine. The class puts the program's lines and end into `events`."""

    def __init__(
        self, events: "queue.Queue[Any]", words: "List[str]", env: "Dict[str, str]"
    ) -> None:
        self.tail: "List[str]" = []
        # Block Slurm's SIGTERM, which all processes get: the code may still need the engine.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, runner.FORWARDED)
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
        )
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        reader = threading.Thread(target=self._read, args=(events,), daemon=True)
        reader.start()
        threading.Thread(target=self._wait, args=(events, reader), daemon=True).start()

    def end(self) -> None:
        """Kill the program and its descendants."""
        if self.process.poll() is None:
            pid = self.process.pid
            launch_processes.kill([pid] + launch_processes.below(pid))

    def _read(self, events: "queue.Queue[Any]") -> None:
        assert self.process.stdout is not None
        for data in self.process.stdout:
            line = data.decode("utf-8", "replace").rstrip()
            if line:
                self.tail = (self.tail + [line])[-TAIL_LINES:]
                events.put(("said", self, line))

    def _wait(self, events: "queue.Queue[Any]", reader: threading.Thread) -> None:
        code = self.process.wait()
        reader.join(LAST_WORDS_S)  # its children may keep the pipe open
        events.put(("ended", self, code))


class Node:
    """This node of the job, and the user's code on it."""

    def __init__(self, job_dir: str, attempt: str, index: int) -> None:
        self.job_dir = job_dir
        self.attempt = attempt
        self.index = index
        with open(os.path.join(job_dir, "world.%s.json" % attempt), encoding="utf-8") as file:
            world = json.load(file)
        os.environ.update(world["environment"])
        self.runner = str(world["runner"])
        """The program that runs the user's code."""
        self.head, self.port = str(world["nodes"][0]["address"]), int(world["port"])
        """The first node's address, and the engine's port on that node."""
        own = world["nodes"][index]
        self.name, self.address = str(own["name"]), str(own["address"])
        self.cpus, self.gpus = int(own["cpus"]), int(own["gpus"])
        mib = own["memory_mib"]
        self.memory_bytes = None if mib is None else int(mib) << 20
        """The job's memory on this node; None without a limit."""
        self.events: "queue.Queue[Any]" = queue.Queue()
        self.code: "Optional[subprocess.Popen[bytes]]" = None
        self.folder = ""
        self.lock = -1
        self.until_s: "Optional[float]" = None
        """Time at which the engine ends even if the code runs; None until Slurm sends SIGTERM."""

    def secret(self, purpose: str) -> str:
        """Derive this attempt's secret for one purpose. It is the same on all nodes."""
        with open(os.path.join(self.job_dir, "key"), "rb") as file:
            key = file.read().strip()
        text = "%s %s" % (purpose, self.attempt)
        return hmac.new(key, text.encode("ascii"), hashlib.sha256).hexdigest()

    def make_folder(self) -> None:
        """Make the engine's folder, /tmp/jse-…. The path is short, because the path of a socket has
        at most 107 bytes. It is the same on all nodes, as Ray requires. Raises OSError, or
        EngineError if another user owns the folder."""
        for name in os.listdir("/tmp"):  # folders of killed jobs
            if name.startswith(PREFIX):
                with contextlib.suppress(OSError):
                    private_folder.remove_unless_used(os.path.join("/tmp", name))
        self.folder = os.path.join("/tmp", PREFIX + self.secret("folder")[:12])
        while True:
            # Nodes on one machine share the folder, and the last one removes it.
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.folder, 0o700)
            with contextlib.suppress(FileNotFoundError):  # another job has just removed it
                flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY
                self.lock = os.open(self.folder, flags)
                if os.fstat(self.lock).st_uid != os.getuid():
                    raise EngineError("%s on %s belongs to another user" % (self.folder, self.name))
                fcntl.flock(self.lock, fcntl.LOCK_SH)
                if os.path.isdir(self.folder):
                    return
                os.close(self.lock)

    def remove_folder(self) -> None:
        if self.lock < 0:
            return
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self.lock)

    def start_code(self, env: "Dict[str, str]") -> None:
        """Start the user's code, which imports the engine's module while the engine starts."""
        program = os.path.join(self.job_dir, self.runner)
        words = [sys.executable, "-uB", program, self.job_dir, self.attempt]
        env = dict(os.environ, JSLURM_ENGINE=self._state(), **env)
        code = self.code = subprocess.Popen(words, stdin=subprocess.DEVNULL, env=env)
        events = self.events
        wait = lambda: events.put(("ended", code, code.wait()))  # noqa: E731
        threading.Thread(target=wait, daemon=True).start()

    def hand_on(self, number: int, _frame: "Optional[FrameType]") -> None:
        """On the first node, forward a signal to the code. On the other nodes, end after SIGTERM,
        once the code has ended or `LEAVE_S` has passed."""
        if self.index == 0:
            if not self.signal_code(number) and number in (signal.SIGTERM, signal.SIGINT):
                raise SystemExit(128 + number)
        elif number == signal.SIGTERM and self.until_s is None:
            self.until_s = time.monotonic() + LEAVE_S
            if self.is_over():
                raise SystemExit(0)

    def signal_code(self, number: int) -> bool:
        """Send the code a signal. Return False if the code is not running."""
        if self.code is None or self.code.poll() is not None:
            return False
        self.code.send_signal(number)
        return True

    # --- messages to the other nodes and the code ---

    def tell(self, told: "Dict[str, Any]") -> None:
        """Write a description, such as the engine's address, for the other nodes and the code."""
        runner.put(self._state(), json.dumps(told).encode("ascii"))

    def told(self) -> "Dict[str, Any]":
        """Return the first node's description of the engine; {} if it is not written yet."""
        try:
            os.listdir(self.job_dir)  # refreshes the NFS cache
            with open(self._state(), encoding="utf-8") as file:
                return dict(json.load(file))
        except (OSError, ValueError):
            return {}

    def is_over(self) -> bool:
        """Return whether the code has ended or `until_s` has passed."""
        is_late = self.until_s is not None and time.monotonic() > self.until_s
        return is_late or "over" in self.told()

    def _state(self) -> str:
        return os.path.join(self.job_dir, "engine.%s.json" % self.attempt)

    def say(self, sentence: str) -> None:
        """Report a failure on the first node to the code and the job's log."""
        runner.complain(sentence)
        path = os.path.join(self.job_dir, "launch.%s.jsonl" % self.attempt)
        with contextlib.suppress(OSError), open(path, "ab", 0) as file:
            file.write(runner.to_line({"said": sentence}))
            lost = {"node": self.name, "was_lost": False, "time_s": time.time()}
            file.write(runner.to_line(lost))


class Engine:
    """One engine on one node. It needs all of its `programs`."""

    name = ""
    module = ""
    """The Python module that the engine needs."""
    needs = ""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.programs: "List[Program]" = []

    @classmethod
    def flaw(cls) -> "Optional[str]":
        """Return the reason why the installed engine is unusable, or None. Do not import the
        engine."""
        raise NotImplementedError

    def environment(self) -> "Dict[str, str]":
        """Return the environment variables with which the code finds the engine."""
        return {}

    def environment_of_programs(self) -> "Dict[str, str]":
        """Return the environment of the engine's programs. Their TMPDIR is removed with the
        folder."""
        return dict(os.environ, TMPDIR=self.node.folder, **self.environment())

    def lead(self) -> None:
        """Start the engine on the first node."""

    def hear(self, line: str) -> None:
        """Handle a line of one of the programs."""

    def place(self) -> "Optional[Dict[str, Any]]":
        """Return the engine's description; None until it runs on the first node."""
        raise NotImplementedError

    def join(self, told: "Dict[str, Any]") -> None:
        """Start the engine on another node, with the first node's description."""
        raise NotImplementedError

    def starts_again(self) -> bool:
        """Start the engine again after a program has ended, if that may help. Otherwise return
        False."""
        return False

    def ended(self, program: Program, code: int) -> str:
        """Return a message about a program that has ended."""
        how = "signal %d" % -code if code < 0 else "exit code %d" % code
        text = "%s ended on %s (%s)" % (self.name, self.node.name, how)
        return ": ".join([text] + ([" ".join(program.tail)] if program.tail else [])) + "."


def first(node: Node, engine: Engine) -> int:
    """Run the engine and the code on the first node. Return the code's exit code."""
    node.start_code(engine.environment())
    engine.lead()
    told: "Optional[Dict[str, Any]]" = None
    until_s = time.monotonic() + START_S
    is_lost, order = False, signal.SIGTERM
    while True:
        what, who, more = next_event(node, LOOK_S if told is None else 1.0)
        if what == "ended" and who is node.code:
            node.tell({"over": True})
            return int(more) if more >= 0 else 128 - int(more)
        if what == "said":
            engine.hear(more)
        elif what == "ended" and who in engine.programs and not (is_lost or engine.starts_again()):
            is_lost, until_s = True, time.monotonic() + AFTER_ENGINE_S
            node.say(engine.ended(who, more))
        if told is None and not is_lost:
            told = engine.place()
            if told is not None:
                node.tell(told)
        if (told is None or is_lost) and time.monotonic() > until_s:
            if not is_lost:
                late = (engine.name, node.name, START_S)
                node.say("%s did not start on %s within %d s." % late)
            node.signal_code(order)
            is_lost, order = True, signal.SIGKILL
            until_s = time.monotonic() + KILL_AFTER_S


def other(node: Node, engine: Engine) -> int:
    """Run the engine on another node until a signal. Return the exit code."""
    while node.until_s is None or not node.is_over():
        is_quiet = bool(engine.programs) and node.until_s is None
        what, who, more = next_event(node, 1.0 if is_quiet else LOOK_S)
        if what == "said":
            engine.hear(more)
        elif what == "ended" and who in engine.programs and not engine.starts_again():
            # The engine may have ended because the job is over.
            until_s = time.monotonic() + OVER_S
            while time.monotonic() < until_s:
                if node.is_over():
                    return 0
                time.sleep(LOOK_S)
            raise EngineError(engine.ended(who, more))
        if not engine.programs:
            told = node.told()
            if "address" in told:
                engine.join(told)
    return 0


def next_event(node: Node, timeout_s: float) -> "Any":
    """Return the next event, or ("", None, None)."""
    try:
        return node.events.get(timeout=timeout_s)
    except queue.Empty:
        return "", None, None


def complaint(kind: "type[Engine]") -> "Optional[str]":
    """Return the reason why this Python cannot run the engine, or None. Do not import the engine,
    because that is slow."""
    python = "Python %d.%d.%d" % sys.version_info[:3]
    flaw = kind.flaw()
    if importlib.util.find_spec(kind.module) is None:
        flaw = "no module %r" % kind.module
    if flaw is None:
        return None
    told = (kind.name.lower(), kind.needs, python, flaw)
    return "--launch %s needs %s, and %s has %s." % told


def main(argv: "List[str]", kind: "type[Engine]") -> int:
    sentence = complaint(kind)
    if sentence is not None:
        runner.complain(sentence)
        return MISSING
    launch_processes.adopt_orphans()
    node = Node(os.path.abspath(argv[1]), argv[2], int(argv[3]))
    engine: "Optional[Engine]" = None

    for number in runner.FORWARDED:
        signal.signal(number, node.hand_on)
    try:
        node.make_folder()
        engine = kind(node)
        return other(node, engine) if node.index else first(node, engine)
    except (EngineError, OSError) as error:
        runner.complain(str(error))
        return FAILED
    except SystemExit as ended:
        return int(ended.code or 0)
    finally:
        for number in runner.FORWARDED:
            signal.signal(number, signal.SIG_IGN)
        for program in engine.programs if engine is not None else []:
            program.end()
        launch_processes.end_below(GRACE_S)
        node.remove_folder()


def run(argv: "List[str]", kind: "type[Engine]") -> None:
    """Run the program. Exit without waiting for its threads."""
    code = main(argv, kind)
    sys.stderr.flush()
    os._exit(code)
