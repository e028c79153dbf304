"""The supervisor of a cell. It runs the cell in a separate process and records the output and the
result.

    python3 -u runner.py JOBDIR ATTEMPT [torchrun|mpi|task I]

Runs on the cluster, Python 3.6 and later, standard library only. This process does not run the
user's code, so it survives whatever the cell does. It reads the cell's stdout, stderr and events
(from `runner_cell.py`), appends them as lines of JSON to `output.N.jsonl`, and signs
`result.N.json` when the cell's process has ended. Exit code: 0 (the cell succeeded), 1 (it failed),
74 (the disk is full), 128 + n (signal n ended it), or the argument of sys.exit.

With `torchrun` or `mpi`, the cell is one rank of many (launch.py). Rank R > 0 writes
`output.N.R.jsonl`, and each rank writes `result.N.R.json`. With `task I`, the cell is one task of a
sweep, and its files are in `tasks/I`.
"""

import codecs
import contextlib
import fcntl
import json
import os
import select
import signal
import sys
import time

if sys.version_info < (3, 6):  # an older Python can parse this file
    sys.exit(
        "jupyter-slurm: this is Python %d.%d, and a cell needs 3.6 or later" % sys.version_info[:2]
    )

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds of every job
    from typing import Any, Callable, Dict, List, Optional

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
READ_BYTES = 65536 - 8
EVENT_READ_BYTES = 1 << 20
QUIET_MS = 5
"""Milliseconds to wait for the rest of a line."""
DRAIN_S = 0.5
"""Seconds to keep reading after the cell's end, if a process that the cell started is still
writing."""
PIPE_BYTES = 1 << 20
F_SETPIPE_SZ = 1031
SPARE_BYTES = 16384
"""Number of bytes to keep free on a full disk, for the result."""
NO_ROOM_EXIT = 74
"""Exit code EX_IOERR of sysexits.h."""
BLOCK_BYTES = 64
"""The block size of SHA-256, to which the key of an HMAC is padded."""
END = b'{"type": "end"'
PENDING = b'{"type": "pending"'
"""The beginning of a record with the cell's outcome in case the process ends before its `end`
record (`runner_ranks.py`)."""
RANK_OF = {"torchrun": "RANK", "mpi": "SLURM_PROCID"}
"""The environment variable with the rank of a process."""
OUR_FOLDER = os.path.dirname(os.path.abspath(__file__))
OUR_FRAME = '  File "%s/' % OUR_FOLDER.encode("ascii", "backslashreplace").decode()
"""The beginning of one of our stack frames, as faulthandler writes it."""
OUR_FRAMES = tuple(OUR_FRAME + name for name in ("runner", "session"))


class Output:
    """The file of records. `open` or the first record creates it. On a full disk it loses records
    and reports the loss; it keeps the beginning of the first text that does not fit."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.descriptor = -1
        self.size_bytes = 0
        self.lost_bytes = 0
        """Number of bytes lost since the last record."""
        self.lost_why = ""
        self.all_lost_bytes = 0

    def open(self) -> None:
        """Create or open the file. Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self.descriptor = os.open(self.path, flags | os.O_CLOEXEC, 0o600)
        self.size_bytes = os.fstat(self.descriptor).st_size

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def write(self, line: bytes, spare_bytes: int = 0) -> None:
        """Append a line if `spare_bytes` remain free on the disk."""
        if self.lost_bytes:
            text = "[%d bytes of output were lost: %s]\n" % (self.lost_bytes, self.lost_why)
            line = text_line("stderr", text, time.time()) + line
        error = self._append(line, spare_bytes)
        if error is None:
            self.lost_bytes = 0
        else:
            self._lose(len(line), error)

    def write_text(self, name: str, text: str, at_s: "Optional[float]" = None) -> None:
        """Append text of stdout or stderr. `at_s` is the time at which it was written; None for
        now."""
        at_s = time.time() if at_s is None else at_s
        line = text_line(name, text, at_s)
        if self.lost_bytes:
            self.write(line, SPARE_BYTES)
            return
        error = self._append(line)
        if error is None:
            return
        kept = len(text) // 2
        while kept and self._append(text_line(name, text[:kept], at_s), SPARE_BYTES) is not None:
            kept //= 2
        self._lose(len(text_line(name, text[kept:], at_s)), error)

    def _append(self, line: bytes, spare_bytes: int = 0) -> "Optional[OSError]":
        """Append a line. Return the error if that failed; the file is then unchanged."""
        data = line + b" " * spare_bytes
        failed = None
        try:
            if self.descriptor < 0:
                self.open()
            done = 0
            while done < len(data):
                done += os.write(self.descriptor, data[done:] if done else data)
        except OSError as error:
            failed = error
        else:
            self.size_bytes += len(line)
        if (failed or spare_bytes) and self.descriptor >= 0:
            try:
                os.ftruncate(self.descriptor, self.size_bytes)
            except OSError:
                self.size_bytes = os.fstat(self.descriptor).st_size
        return failed

    def _lose(self, lost_bytes: int, error: OSError) -> None:
        if not self.lost_bytes:
            complain("cannot write output, which is lost: %s" % error)
            self.lost_why = error.strerror or str(error)
        self.lost_bytes += lost_bytes
        self.all_lost_bytes += lost_bytes


class Stream:
    """A converter of stdout or stderr, from bytes to records. `\\r` and invalid UTF-8 are kept."""

    def __init__(self, name: str, output: Output) -> None:
        self.name = name
        self.output = output
        self.decoder = codecs.getincrementaldecoder("utf-8")("surrogatepass_or_replace")
        self.tail = b""
        self.held = ""
        self.held_since_s = 0.0
        self.frame = ""
        """The beginning of a line that may be one of our frames."""

    def feed(self, data: bytes) -> None:
        """Handle bytes. Write whole lines at once, and hold part of a line until its rest
        arrives."""
        data = self.tail + data
        self.tail = b""
        if data[-2:-1] == b"\xed":  # half a surrogate, which the decoder would replace
            data, self.tail = data[:-2], data[-2:]
        text = self.decoder.decode(data)
        if len(self.held) + len(text) > READ_BYTES:
            self.flush()
        if not self.held:
            self.held_since_s = time.time()
        self.held += text
        if text.endswith("\n"):
            self.flush()

    def flush(self) -> None:
        """Write the held text, except the beginning of one of our frames."""
        text, self.held, self.frame = self.frame + self.held, "", ""
        if self.name == "stderr":
            begun = text[text.rfind("\n") + 1 :]
            if begun and (OUR_FRAME.startswith(begun) or begun.startswith(OUR_FRAME)):
                text, self.frame = text[: -len(begun)], begun
            text = without_our_frames(text)
        if text:
            self.output.write_text(self.name, text, self.held_since_s)

    def close(self) -> None:
        self.held += self.decoder.decode(self.tail, True)
        self.tail = b""
        self.flush()
        if self.frame:
            self.output.write_text(self.name, without_our_frames(self.frame))


def without_our_frames(text: str) -> str:
    """Remove our own frames from a traceback of faulthandler."""
    if OUR_FRAME not in text:
        return text
    return "".join(line for line in text.splitlines(True) if not line.startswith(OUR_FRAMES))


class Supervisor:
    """A reader of the output of the cell's process. It also forwards signals to that process."""

    def __init__(self, child: int, pipes: "List[int]", wakeup: int, output: Output) -> None:
        self.child = child
        self.output = output
        self.others = {wakeup: self._signals}  # type: Dict[int, Callable[[bytes], None]]
        stdout, stderr, self.events = pipes
        self.streams = {stdout: Stream("stdout", output), stderr: Stream("stderr", output)}
        self.line = bytearray()
        self.end = None  # type: Optional[Dict[str, Any]]
        self.pending = {}  # type: Dict[str, Any]
        self.status = 0
        self.usage = None  # type: Any
        self.poll = select.poll()
        for descriptor in pipes + [wakeup]:
            os.set_blocking(descriptor, False)
            self.poll.register(descriptor, select.POLLIN)

    def run(self) -> None:
        """Record output until the cell's process has ended."""
        while self.usage is None:
            held = any(stream.held for stream in self.streams.values())
            if not self._step(QUIET_MS if held else None):
                self._flush()
        deadline_s = time.monotonic() + DRAIN_S
        while self._step(0) and time.monotonic() < deadline_s:
            pass
        for stream in self.streams.values():
            stream.close()
        if self.line:
            complain("the cell's last record is incomplete")

    def result(self) -> "Dict[str, Any]":
        """Return the result of a cell that has ended. If the process was killed, an outcome that it
        had announced takes precedence."""
        result = outcome(self.end, self.status)
        if result["status"] == "killed":
            self.pending.pop("type", None)
            result.update(self.pending)
        return result

    def _step(self, timeout_ms: "Optional[int]") -> bool:
        """Read once from each pipe. Return False if all were empty."""
        active = False
        for descriptor, _ in self.poll.poll(timeout_ms):
            if descriptor in self.others:
                self.others[descriptor](os.read(descriptor, 512))
                active = True
                continue
            data = self._read(descriptor)
            if not data:
                continue
            active = True
            if descriptor == self.events:
                self._events(data)
            else:
                self._flush(besides=descriptor)
                self.streams[descriptor].feed(data)
        return active

    def _read(self, descriptor: int) -> bytes:
        """Return bytes from the pipe; b"" if the pipe is empty."""
        try:
            size_bytes = EVENT_READ_BYTES if descriptor == self.events else READ_BYTES
            data = os.read(descriptor, size_bytes)
        except BlockingIOError:
            return b""
        if not data:
            self.poll.unregister(descriptor)
        return data

    def _flush(self, besides: int = -1) -> None:
        for descriptor, stream in self.streams.items():
            if descriptor != besides:
                stream.flush()

    def _events(self, data: bytes) -> None:
        self.line += data
        if b"\n" not in data:
            return
        whole, _, rest = bytes(self.line).rpartition(b"\n")
        self.line = bytearray(rest)
        self._flush()
        for line in whole.split(b"\n"):
            if line.startswith(END):
                self.end = json.loads(line.decode("ascii"))
            elif line.startswith(PENDING):
                self.pending = json.loads(line.decode("ascii"))
            else:
                self.output.write(line + b"\n")

    def _signals(self, numbers: bytes) -> None:
        for number in sorted(set(numbers)):
            if number == signal.SIGCHLD:
                pid, status, usage = os.wait4(self.child, os.WNOHANG)
                if pid:
                    self.status, self.usage = status, usage
            elif self.usage is None:
                os.kill(self.child, number)


def to_line(record: "Dict[str, Any]") -> bytes:
    return json.dumps(record).encode("ascii") + b"\n"


def text_line(name: str, text: str, at_s: float) -> bytes:
    return to_line({"type": "stream", "name": name, "text": text, "time_s": int(at_s)})


def complain(sentence: str) -> None:
    """Write a message to the job's log."""
    with contextlib.suppress(OSError):
        os.write(2, ("jupyter-slurm: %s\n" % sentence).encode("utf-8", "replace"))


def outcome(end: "Optional[Dict[str, Any]]", status: int) -> "Dict[str, Any]":
    """Return the result of a cell from its own record or, without a record, from the process's
    status."""
    if end is not None:
        del end["type"]
        end["signal"] = None
        caught = end["interrupted_by"]
        end["exit_code"] = 0 if end["status"] == "ok" else end.get("exit_code", 1)
        if end["status"] == "interrupted":
            end["exit_code"] = 128 + getattr(signal, caught)
        return end
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    if number is None:
        code = os.WEXITSTATUS(status)
        name = "ProcessEnded"
        text = "the cell's process exited with code %d before the cell ended (os._exit?)" % code
    else:
        code = 128 + number
        name = signal.Signals(number).name if number in set(signal.Signals) else str(number)
        text = "signal %d (%s) ended the cell's process" % (number, name)
        if number == signal.SIGKILL:
            text += ": usually there was not enough memory (--mem)"
    return {
        "status": "killed",
        "ename": name,
        "evalue": text,
        "traceback": [],
        "interrupted_by": None,
        "exit_code": code or 1,
        "signal": number,
        "variables": None,
        "python": list(sys.version_info[:3]),
    }


class Signer:
    """A signer with the key of a job or of a session's cell."""

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.sha256 = find_sha256()

    def of_cell(self, cell_id: str) -> "Signer":
        """Return the signer of a session's cell. Its key is derived from the session's key."""
        return Signer(self.sign(cell_id.encode("ascii")).encode("ascii"))

    def write(self, path: str, result: "Dict[str, Any]") -> None:
        """Write the signed result: a line with the signature, then JSON."""
        body = to_line(result)
        put(path, self.sign(body).encode("ascii") + b"\n" + body)

    def sign(self, body: bytes) -> str:
        """Return the HMAC-SHA256 (RFC 2104) of `body`, in hexadecimal."""
        key = self.key if len(self.key) <= BLOCK_BYTES else self.sha256(self.key).digest()
        key = key.ljust(BLOCK_BYTES, b"\0")
        inner = self.sha256(bytes(byte ^ 0x36 for byte in key) + body).digest()
        return str(self.sha256(bytes(byte ^ 0x5C for byte in key) + inner).hexdigest())


def job_signer(job_dir: str) -> Signer:
    """Return a signer with the job's key. Raises OSError."""
    with open(os.path.join(job_dir, "key"), "rb") as file:
        return Signer(file.read().strip())


def find_sha256() -> "Any":
    """Return Python's own SHA-256, because `hashlib` and `hmac` load OpenSSL, which takes 5 ms."""
    for module in ("_sha2", "_sha256"):  # since Python 3.12; in earlier releases
        with contextlib.suppress(ImportError, AttributeError):
            return __import__(module).sha256
    import hashlib  # this Python was built without these modules

    return hashlib.sha256


def put(path: str, data: bytes) -> None:
    """Write a file atomically. Raises OSError."""
    descriptor = os.open(path + ".partial", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    os.replace(path + ".partial", path)


def hear_signals() -> int:
    """Return a pipe with the numbers of signals that arrive from now on."""
    wakeup, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    for number in FORWARDED + (signal.SIGCHLD,):
        signal.signal(number, lambda _number, _frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED + (signal.SIGCHLD,))
    return wakeup


def supervise(
    job_dir: str,
    attempt: str,
    child: "List[int]",
    output: Output,
    rank: "Optional[int]" = None,
    own_dir: str = "",
) -> int:
    """Supervise the cell's process, and return the job's exit code. `child` contains the process ID
    and the pipes; `own_dir` is a task's folder."""
    started_s = time.time()
    wakeup = hear_signals()
    signer = job_signer(job_dir)
    supervisor = Supervisor(child[0], child[1:], wakeup, output)
    supervisor.run()
    result = supervisor.result()
    if result["status"] == "killed":
        error = {"type": "error", "ename": result["ename"], "evalue": result["evalue"]}
        result["traceback"] = ["%(ename)s: %(evalue)s" % error]
        if rank != 0:  # launch.py writes the first failure there
            output.write(to_line(dict(error, traceback=result["traceback"])))
    usage = supervisor.usage
    result.update(
        started_s=started_s,
        ended_s=time.time(),
        peak_rss_mib=round(usage.ru_maxrss / 1024.0, 1),
        cpu_s=round(usage.ru_utime + usage.ru_stime, 3),
        lost_output_bytes=output.all_lost_bytes,
    )
    if "JSLURM_ENGINE" in os.environ:
        add_peak(result, job_dir, attempt)
    try:
        name = "result.%s.json" % of_rank(attempt, rank)
        signer.write(os.path.join(own_dir or job_dir, name), result)
    except OSError as error:
        complain("cannot write the result: %s" % error)
        return NO_ROOM_EXIT
    return int(result["exit_code"])


def add_peak(result: "Dict[str, Any]", job_dir: str, attempt: str) -> None:
    """Raise the result's peak memory to the maximum that usage.py has measured on one node, because
    engines and other ranks are not children of this process."""
    import glob  # few jobs need it

    for path in glob.glob(os.path.join(glob.escape(job_dir), "usage.%s.*jsonl" % attempt)):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            for line in file:
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    used_mib = float(json.loads(line.decode("utf-8"))["memory_mib"])
                    result["peak_rss_mib"] = max(result["peak_rss_mib"], used_mib)


def of_rank(attempt: str, rank: "Optional[int]") -> str:
    """Return the middle of a file name: the attempt and, if there are ranks, the rank."""
    return attempt if rank is None else "%s.%d" % (attempt, rank)


def register_errors() -> None:
    """Register the error handler with which a `Stream` decodes."""
    codecs.register_error("surrogatepass_or_replace", _surrogatepass_or_replace)


def _surrogatepass_or_replace(error: UnicodeError) -> "Any":
    try:
        return codecs.lookup_error("surrogatepass")(error)
    except UnicodeDecodeError as same:
        return "\ufffd", same.end


def start(live: "Callable[[List[int]], int]") -> "List[int]":
    """Fork a process that calls `live` with the writing ends of stdout, stderr and events, and
    exits with its result. Return the process ID and the reading ends. Signals are blocked in both
    processes."""
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED + (signal.SIGCHLD,))
    pipes = [os.pipe() for _ in range(3)]
    for _, writing in pipes:
        with contextlib.suppress(OSError):  # the user's limit for pipes is reached
            fcntl.fcntl(writing, F_SETPIPE_SZ, PIPE_BYTES)
    child = os.fork()
    if child:
        for _, writing in pipes:
            os.close(writing)
        return [child] + [reading for reading, _ in pipes]
    for reading, _ in pipes:
        os.close(reading)
    sys.exit(live([writing for _, writing in pipes]))


def live_for_a_cell(
    job_dir: str,
    attempt: str,
    pipes: "List[int]",
    rank: "Optional[int]" = None,
    task: "Optional[str]" = None,
) -> int:
    """Run the cell in the forked process, and return the exit code. `task` is the index of a
    sweep's task."""
    import runner_cell  # only the child needs it

    return runner_cell.run(job_dir, attempt, pipes, rank, task)


def start_dashboards(
    job_dir: str, attempt: str, engine: "List[str]", tell: "Callable[[str], None]"
) -> "Callable[[], None]":
    """Start the job's dashboards, if it has any. Return a function that ends them."""
    if not os.path.exists(os.path.join(job_dir, "dashboards.json")):
        return lambda: None
    import runner_dashboards  # few jobs have any

    return runner_dashboards.start(job_dir, attempt, engine, tell)


def main(argv: "List[str]") -> int:
    job_dir, attempt = os.path.abspath(argv[1]), argv[2]
    task = argv[4] if argv[3:4] == ["task"] else None
    rank = int(os.environ[RANK_OF[argv[3]]]) if len(argv) > 3 and task is None else None
    own_dir = job_dir if task is None else os.path.join(job_dir, "tasks", task)
    register_errors()
    try:
        output = Output(os.path.join(own_dir, "output.%s.jsonl" % of_rank(attempt, rank or None)))
        output.open()
    except OSError as error:
        complain("cannot write output, so the cell did not run: %s" % error)
        return NO_ROOM_EXIT
    tell = lambda line: output.write_text("stderr", line)  # noqa: E731
    end_dashboards = start_dashboards(job_dir, attempt, argv[3:], tell)
    child = start(lambda pipes: live_for_a_cell(job_dir, attempt, pipes, rank, task))
    exit_code = supervise(job_dir, attempt, child, output, rank, own_dir)
    end_dashboards()
    if argv[3:] == ["torchrun"] and exit_code and exit_code - 128 not in FORWARDED:
        import runner_ranks  # few jobs have any

        runner_ranks.end_torchrun()
    return exit_code


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # `python -P` leaves it out
    os._exit(main(sys.argv))  # saves 3 ms of clean-up; no user code ran here
