"""The common part of the programs of Ray and Dask (launch_ray.py, launch_dask.py), which start the
engine on one node, and on the first one also the user's code.

Runs on the cluster, in the image, Python 3.6 and later, standard library only. The first node
writes to `engine.N.json` where the engine is; the other nodes and the code (runner_engine.py) read
it there. Failures are lines of `launch.N.jsonl`: of the first node by this program, of the others
by launch.py.
"""

import abc
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
    from types import FrameType  # noqa: F401 - in comments
    from typing import Any, Dict, List, Optional  # noqa: F401 - in comments

MISSING = 65
"""EX_DATAERR of sysexits.h: this Python does not have the engine."""
FAILED = 70
"""EX_SOFTWARE of sysexits.h."""
START_S = 120.0
"""Timeout for the engine's start on the first node. A busy file system makes it take a minute."""
AFTER_ENGINE_S = 10.0
"""Time for the code to go on after the engine has ended on the first node."""
KILL_AFTER_S = 30.0
"""Time between SIGTERM and SIGKILL for the code; Slurm waits as long (slurm.conf(5), KillWait)."""
GRACE_S = 2.0
"""Time between SIGTERM and SIGKILL for the engine's programs, whose work is over."""
LEAVE_S = 20.0
"""Time for which the engine stays on the other nodes once Slurm has told the job to end: the code
may need it to save something. Slurm kills the rest after 30 s, or as its KillWait says."""
LOOK_S = 0.05
OVER_S = 1.0
"""Time until the word that the job is over, once the engine has ended here."""
LAST_WORDS_S = 0.3
TAIL_LINES = 3
PREFIX = "jse-"


class EngineError(Exception):
    """The engine cannot be started on this node; says why."""


class Program(object):
    """A program of the engine. Its lines and its end are news."""

    def __init__(self, news, words, env):
        # type: (queue.Queue[Any], List[str], Dict[str, str]) -> None
        self.tail = []  # type: List[str]
        # Slurm asks all processes of a step to end, and the code may want to use the engine then.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, runner.FORWARDED)
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
        )
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        reader = threading.Thread(target=self._read, args=(news,), daemon=True)
        reader.start()
        threading.Thread(target=self._wait, args=(news, reader), daemon=True).start()

    def end(self):
        # type: () -> None
        """Kill the program, and all below it."""
        if self.process.poll() is None:
            pid = self.process.pid
            launch_processes.kill([pid] + launch_processes.below(pid))

    def _read(self, news):
        # type: (queue.Queue[Any]) -> None
        assert self.process.stdout is not None
        for data in self.process.stdout:
            line = data.decode("utf-8", "replace").rstrip()
            if line:
                self.tail = (self.tail + [line])[-TAIL_LINES:]
                news.put(("said", self, line))

    def _wait(self, news, reader):
        # type: (queue.Queue[Any], threading.Thread) -> None
        code = self.process.wait()
        reader.join(LAST_WORDS_S)  # its children may hold the pipe, too
        news.put(("ended", self, code))


class Node(object):
    """This node of the job, as all of the engine's programs on it need it."""

    def __init__(self, job_dir, attempt, index):
        # type: (str, str, int) -> None
        self.job_dir = job_dir
        self.attempt = attempt
        self.index = index
        with open(os.path.join(job_dir, "world.%s.json" % attempt), encoding="utf-8") as file:
            world = json.load(file)
        os.environ.update(world["environment"])
        self.runner = str(world["runner"])
        """The program that runs the user's code."""
        self.head, self.port = str(world["nodes"][0]["address"]), int(world["port"])
        """The first node's address, and the port for the engine there."""
        own = world["nodes"][index]
        self.name, self.address = str(own["name"]), str(own["address"])
        self.cpus, self.gpus = int(own["cpus"]), int(own["gpus"])
        mib = own["memory_mib"]
        self.memory_bytes = None if mib is None else int(mib) << 20
        """None: the job has no limit on this node."""
        self.news = queue.Queue()  # type: queue.Queue[Any]
        self.code = None  # type: Optional[subprocess.Popen[bytes]]
        self.folder = ""
        self.lock = -1
        self.until_s = None  # type: Optional[float]
        """Until when the engine stays without the code's end; None: nothing has told it to end."""

    def secret(self, purpose):
        # type: (str) -> str
        """Return a secret of this attempt that all its nodes can derive, for one purpose."""
        with open(os.path.join(self.job_dir, "key"), "rb") as file:
            key = file.read().strip()
        text = "%s %s" % (purpose, self.attempt)
        return hmac.new(key, text.encode("ascii"), hashlib.sha256).hexdigest()

    def make_folder(self):
        # type: () -> None
        """Make the engine's folder on this node, /tmp/jse-…: short, since the path of a socket has
        107 bytes at most, and of the same name on all nodes, as Ray needs it. Raise EngineError
        where it is another user's, or OSError."""
        for name in os.listdir("/tmp"):  # what an earlier job left that was killed outright
            if name.startswith(PREFIX):
                with contextlib.suppress(OSError):
                    private_folder.remove_unless_used(os.path.join("/tmp", name))
        self.folder = os.path.join("/tmp", PREFIX + self.secret("folder")[:12])
        while True:
            # Where several nodes are one machine they share it, and the last one removes it.
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.folder, 0o700)
            with contextlib.suppress(FileNotFoundError):  # another job takes it for left behind
                flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY
                self.lock = os.open(self.folder, flags)
                if os.fstat(self.lock).st_uid != os.getuid():
                    raise EngineError("%s on %s is another user's" % (self.folder, self.name))
                fcntl.flock(self.lock, fcntl.LOCK_SH)
                if os.path.isdir(self.folder):
                    return
                os.close(self.lock)

    def remove_folder(self):
        # type: () -> None
        if self.lock < 0:
            return
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self.lock)

    def start_code(self, env):
        # type: (Dict[str, str]) -> None
        """Start the user's code at once: it imports the engine while that starts."""
        program = os.path.join(self.job_dir, self.runner)
        words = [sys.executable, "-uB", program, self.job_dir, self.attempt]
        env = dict(os.environ, JSLURM_ENGINE=self._state(), **env)
        code = self.code = subprocess.Popen(words, stdin=subprocess.DEVNULL, env=env)
        news = self.news
        wait = lambda: news.put(("ended", code, code.wait()))  # noqa: E731
        threading.Thread(target=wait, daemon=True).start()

    def hand_on(self, number, _frame):
        # type: (int, Optional[FrameType]) -> None
        """Hand a signal on to the code, and end with that; on the other nodes end with the code."""
        if self.index == 0:
            if not self.signal_code(number) and number in (signal.SIGTERM, signal.SIGINT):
                raise SystemExit(128 + number)
        elif number == signal.SIGTERM and self.until_s is None:
            self.until_s = time.monotonic() + LEAVE_S
            if self.is_over():
                raise SystemExit(0)

    def signal_code(self, number):
        # type: (int) -> bool
        """Send the code a signal; return False when it does not run."""
        if self.code is None or self.code.poll() is not None:
            return False
        self.code.send_signal(number)
        return True

    # --- to the other nodes and to the code ---

    def tell(self, told):
        # type: (Dict[str, Any]) -> None
        """Tell the other nodes and the code where the engine is."""
        runner.put(self._state(), json.dumps(told).encode("ascii"))

    def told(self):
        # type: () -> Dict[str, Any]
        """Return what the first node tells of the engine; empty: nothing yet."""
        try:
            os.listdir(self.job_dir)  # makes NFS ask
            with open(self._state(), encoding="utf-8") as file:
                return dict(json.load(file))
        except (OSError, ValueError):
            return {}

    def is_over(self):
        # type: () -> bool
        """Return whether the code has ended, or the engine has waited for that long enough."""
        is_late = self.until_s is not None and time.monotonic() > self.until_s
        return is_late or "over" in self.told()

    def _state(self):
        # type: () -> str
        return os.path.join(self.job_dir, "engine.%s.json" % self.attempt)

    def say(self, sentence):
        # type: (str) -> None
        """Tell the code and the job's log what has gone wrong on the first node."""
        runner.complain(sentence)
        path = os.path.join(self.job_dir, "launch.%s.jsonl" % self.attempt)
        with contextlib.suppress(OSError), open(path, "ab", 0) as file:
            file.write(runner.to_line({"said": sentence}))
            lost = {"node": self.name, "was_lost": False, "time_s": time.time()}
            file.write(runner.to_line(lost))


class Engine(abc.ABC):
    """One engine on one node. `programs`: those without which it does not work there."""

    name = ""
    module = ""
    """The Python module that has to be there."""
    needs = ""

    def __init__(self, node):
        # type: (Node) -> None
        self.node = node
        self.programs = []  # type: List[Program]

    @classmethod
    @abc.abstractmethod
    def flaw(cls):
        # type: () -> Optional[str]
        """Return what is wrong with the engine that is there, or None. Imports nothing."""

    def environment(self):
        # type: () -> Dict[str, str]
        """Return the variables by which the code finds the engine."""
        return {}

    def environment_of_programs(self):
        # type: () -> Dict[str, str]
        """Return all variables of the engine's own programs: what they leave in TMPDIR is removed
        with their folder."""
        return dict(os.environ, TMPDIR=self.node.folder, **self.environment())

    @abc.abstractmethod
    def lead(self):
        # type: () -> None
        """Start on the first node."""

    def hear(self, line):  # noqa: B027 - a hook; most engines ignore the lines
        # type: (str) -> None
        """Take notice of a line that one of the programs has written."""

    @abc.abstractmethod
    def place(self):
        # type: () -> Optional[Dict[str, Any]]
        """Return what is told of the engine on the first node once it runs there; None before."""

    @abc.abstractmethod
    def join(self, told):
        # type: (Dict[str, Any]) -> None
        """Start on another node, with what the first one tells."""

    def starts_again(self):
        # type: () -> bool
        """Start a second time after a program has ended, if that may help. Return False if not."""
        return False

    def ended(self, program, code):
        # type: (Program, int) -> str
        """Return a sentence about a program that has ended by itself."""
        how = "signal %d" % -code if code < 0 else "exit code %d" % code
        text = "%s has ended on %s (%s)" % (self.name, self.node.name, how)
        return ": ".join([text] + ([" ".join(program.tail)] if program.tail else [])) + "."


def first(node, engine):
    # type: (Node, Engine) -> int
    """Run the engine on the first node, and the code with it; return the code's exit code."""
    node.start_code(engine.environment())
    engine.lead()
    told = None  # type: Optional[Dict[str, Any]]
    until_s = time.monotonic() + START_S
    is_lost, order = False, signal.SIGTERM
    while True:
        what, who, more = next_news(node, LOOK_S if told is None else 1.0)
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


def other(node, engine):
    # type: (Node, Engine) -> int
    """Work for the first node until this program is told to end; return its exit code."""
    while node.until_s is None or not node.is_over():
        is_quiet = bool(engine.programs) and node.until_s is None
        what, who, more = next_news(node, 1.0 if is_quiet else LOOK_S)
        if what == "said":
            engine.hear(more)
        elif what == "ended" and who in engine.programs and not engine.starts_again():
            # The first node's end reaches the engine here too, by a way of its own.
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


def next_news(node, timeout_s):
    # type: (Node, float) -> Any
    """Return what happens next, or ("", None, None) when nothing does."""
    try:
        return node.news.get(timeout=timeout_s)
    except queue.Empty:
        return "", None, None


def complaint(kind):
    # type: (type[Engine]) -> Optional[str]
    """Return why this Python cannot run the engine, or None. Imports nothing, which is quick."""
    python = "Python %d.%d.%d" % sys.version_info[:3]
    flaw = kind.flaw()
    if importlib.util.find_spec(kind.module) is None:
        flaw = "no module %r" % kind.module
    if flaw is None:
        return None
    told = (kind.name.lower(), kind.needs, python, flaw)
    return "--launch %s needs %s, and %s has %s." % told


def main(argv, kind):
    # type: (List[str], type[Engine]) -> int
    sentence = complaint(kind)
    if sentence is not None:
        runner.complain(sentence)
        return MISSING
    launch_processes.adopt_orphans()
    node = Node(os.path.abspath(argv[1]), argv[2], int(argv[3]))
    engine = None  # type: Optional[Engine]

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


def run(argv, kind):
    # type: (List[str], type[Engine]) -> None
    """Run the program, and end without waiting for its threads, which may still read."""
    code = main(argv, kind)
    sys.stderr.flush()
    os._exit(code)
