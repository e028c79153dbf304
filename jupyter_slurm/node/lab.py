"""A lab: JupyterLab of the image's Python as a job, on a Unix socket, and the door to it.

    python3 -uB lab.py JOBDIR ATTEMPT

Runs on the cluster, Python 3.6 and later, standard library only. The server has no port, so nobody
has to choose one and nobody else can take it. It has a token that is derived from the job's key:
whoever has the key can derive it too. The token lies in a file of the user's own, in no command
line and no environment. The door (lab_door.py) lets in nobody but this user: the relay of the job
(relay.py). The last line of `lab.N.jsonl` says how far the lab is.
Exit code: 0 it was idle for too long or was shut down from inside, 65 there is no JupyterLab, 70 it
ended as it started, 128 + n signal n ended it.
"""

import contextlib
import errno
import functools
import hashlib
import hmac
import json
import os
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # `python -P` leaves it out
import lab_door
import lab_page
import private_folder

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Iterator, List, Optional  # noqa: F401 - in comments

    import lab_activity

MISSING_EXIT = 65
"""EX_DATAERR of sysexits.h, and the next two EX_UNAVAILABLE and EX_SOFTWARE: outcome/verdict.py."""
FAILED_EXIT = 70
NO_ROOM_EXIT = 74
PATIENCE_S = 4.0
"""How long to wait for the server to end its kernels. Slurm kills what is left KillWait after its
SIGTERM, which this assumes is five seconds at least (slurmd/req.c)."""
LOOK_S = 0.1
SOON_S = 0.01
LOOK_SHARE = 0.02
"""The share of the server's start-up time so far by which a look may be late."""
PRIVATE = "jslurm-lab-"
LONGEST_PARENT = 35
"""The path of a socket has 107 bytes at most (unix(7)); the longest is that of a kernel, which
jupyter_client calls PARENT/jslurm-lab-XXXXXXXX/r/kernel-UUID-ipc-N."""
ANY_PARENT = 4096
"""PATH_MAX (limits.h)."""

CONFIG = """\
# Written by jupyter-slurm for one job.
import os
import jupyterlab
# Of its own: the notebooks of another JupyterLab's are not opened here with second kernels.
c.LabApp.workspaces_dir = {workspaces!r}
if int(jupyterlab.__version__.split(".")[0]) < 3:
    server = c.NotebookApp
    server.notebook_dir = os.getcwd()
    identity = server
else:
    c.LabApp.extra_labextensions_path.append({extensions!r})
    import jupyter_server
    server = c.ServerApp
    server.root_dir = os.getcwd()
    is_old = int(jupyter_server.__version__.split(".")[0]) < 2
    identity = server if is_old else c.IdentityProvider
identity.token = {token!r}
if identity is server:
    server.password = ""
else:
    c.PasswordIdentityProvider.hashed_password = ""
# At a kernel's port everybody on the node could read what it publishes: only orders are signed.
c.KernelManager.transport = "ipc"
server.sock = {sock!r}
server.sock_mode = "0600"
server.base_url = {base_url!r}
server.open_browser = False
server.allow_root = True
# Whoever is sent here by another name (DNS rebinding) is refused: here, and before, where the
# lab's port is. That gives it a new name whenever it is opened, of which only the beginning is
# known when this is written.
class Names(list):
    def __contains__(self, name):
        of_lab = name.startswith({host!r}) and name.endswith(".localhost")
        return of_lab or name == "localhost"
server.allow_remote_access = False
shown = {{"appName": {title!r}}}
server.tornado_settings = {{
    "local_hostnames": Names(),
    "page_config_hook": lambda handler, page_config: dict(page_config, **shown),
}}
"""
BELOW_ANOTHER = """\
# The Jupyter below whose address it is shown puts the token in; the page would send it there.
shown["token"] = ""
"""


class ProgressFile(object):
    """The file that reports how far the lab is: lines of JSON, of which the last counts."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, step: str, **more: "Any") -> None:
        line = dict(more, step=step, time_s=round(time.time(), 3))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path, flags, 0o600)
        except OSError as error:  # the disk may be full for a while; it is reported in the end
            complain("%s cannot be written: %s" % (self.path, error))
            return
        with contextlib.suppress(OSError), os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps(line).encode("ascii") + b"\n")


class Ended(Exception):
    """The end of the lab: the exit code, and what the last line is to say."""

    def __init__(self, exit_code: int, step: str) -> None:
        super(Ended, self).__init__(step)
        self.exit_code = exit_code
        self.step = step


class Lab(object):
    """One server, from the search for it to its end."""

    def __init__(self, folder: str, attempt: str) -> None:
        with open(os.path.join(folder, "task.json"), encoding="utf-8") as file:
            self.task = json.load(file)
        with open(os.path.join(folder, "key"), "rb") as file:
            key = file.read().strip()
        self.token = token_of(key)
        self.folder = folder
        self.attempt = attempt
        self.tell = ProgressFile(os.path.join(folder, "lab.%s.jsonl" % attempt))
        self.server = None  # type: Optional[subprocess.Popen[bytes]]
        self.signals, self.waker = os.pipe()
        for descriptor in (self.signals, self.waker):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(self.waker)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, lambda _number, _frame: None)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)

    def run(self, private: str, temporary: str) -> "Ended":
        """Run the server until it ends, and return how. `private` holds sockets, so its path is
        short; `temporary` lies where TMPDIR says."""
        try:
            self.start(private, temporary)
            self.wait_until_it_answers()
            self.serve()
        except Ended as ended:
            return ended
        finally:
            self.stop(private, temporary)
        raise AssertionError  # both only raise

    # --- the server ---

    def start(self, private: str, temporary: str) -> None:
        command = own_command()
        if command is None:
            complain("there is no JupyterLab for %s" % sys.executable)
            raise Ended(MISSING_EXIT, "missing")
        self.sock = os.path.join(private, "server")
        self.page = lab_page.Page(private, self.folder, self.attempt, self.task)
        self.page.write()
        config = os.path.join(private, "jupyter_lab_config.py")
        host = "lab-%s-" % self.task["id"]
        base_url = self.task["base_url"]
        text = CONFIG if base_url == "/" else CONFIG + BELOW_ANOTHER
        text = text.format(
            sock=self.sock,
            token=self.token,
            host=host,
            base_url=base_url,
            title=self.page.title,
            workspaces=self.page.workspaces,
            extensions=self.page.extensions,
        )
        put(config, text)
        env = dict(os.environ, JUPYTER_RUNTIME_DIR=os.path.join(private, "r"))
        # What it or one of its extensions leaves there goes with it, also when it is killed.
        env["TMPDIR"] = temporary
        for name in ("JUPYTER_TOKEN", "JUPYTER_TOKEN_FILE", "JUPYTER_PORT", "JUPYTER_PORT_RETRIES"):
            env.pop(name, None)
        # In a session of its own: a Ctrl-C or a signal to the job's group is for this process.
        self.server = subprocess.Popen(
            command + ["--config=" + config],
            env=env,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        # The rest is done while it starts.
        self.activity = self.made_activity()
        reach = functools.partial(lab_door.at_path, self.sock)
        self.door = lab_door.Door(self.task["door"], reach, self.activity.stir)
        self.tell("starting")

    def wait_until_it_answers(self) -> None:
        began_s = time.monotonic()
        while not self.activity.server.answers():
            self.was_told_to_end()
            if self.exit_code() is not None:
                complain("JupyterLab ended as it started (%s)" % self.exit_code())
                raise Ended(FAILED_EXIT, "failed")
            waited_s = time.monotonic() - began_s
            self.door.step(self.signals, min(LOOK_S, max(SOON_S, LOOK_SHARE * waited_s)))

    def exit_code(self) -> "Optional[int]":
        """Return the server's exit code, or None while it runs."""
        assert self.server is not None
        return self.server.poll()

    def was_told_to_end(self) -> None:
        """Raise Ended when a signal has told the lab to end."""
        try:
            numbers = set(os.read(self.signals, 4096))
        except BlockingIOError:
            return
        for number in sorted(numbers - {signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2}):
            raise Ended(128 + number, "told to end")

    def made_activity(self) -> "lab_activity.Activity":
        import lab_activity  # noqa: PLC0415 - takes its time, while JupyterLab starts

        server = lab_activity.Server(self.sock, self.token, self.task["base_url"])
        return lab_activity.Activity(
            server,
            float(self.task["idle_s"]),
            self.tell_ready,
            self.page.renew,
        )

    def tell_ready(self, idle_since_s: "Optional[float]") -> None:
        python = list(sys.version_info[:3])
        self.tell("ready", python=python, idle_since_s=idle_since_s)

    def serve(self) -> None:
        """Serve until the lab is over; raise Ended then."""
        self.page.renew()  # before a browser loads it
        self.tell_ready(None)
        self.activity.stir()  # it begins now
        self.activity.start()
        while True:
            self.door.step(self.signals, self.activity.pause_s)
            self.was_told_to_end()
            exit_code = self.exit_code()
            if exit_code is not None:
                complain("JupyterLab has ended (%d)" % exit_code)
                raise Ended(FAILED_EXIT if exit_code else 0, "died" if exit_code else "shut down")
            if self.activity.is_over():
                raise Ended(0, "idle")

    def stop(self, *folders: str) -> None:
        if self.server is None:
            return
        deadline_s = time.monotonic() + PATIENCE_S
        self.send(signal.SIGTERM)
        # Before anything else: if this process is killed meanwhile, it removes nothing any more.
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        while self.exit_code() is None and time.monotonic() < deadline_s:
            time.sleep(LOOK_S)
        self.send(signal.SIGKILL)
        self.server.wait()

    def send(self, number: int) -> None:
        """Send a signal to the server and to what it has started in its own session."""
        assert self.server is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.server.pid, number)


def token_of(key: bytes) -> str:
    """Return the server's token. Whoever starts the lab has the key too, so the token need not
    travel."""
    return hmac.new(key, b"lab", hashlib.sha256).hexdigest()


def own_command() -> "Optional[List[str]]":
    """Return the command that starts the image's JupyterLab, or None when it has none."""
    import importlib.util  # noqa: PLC0415 - takes its time

    if importlib.util.find_spec("jupyterlab") is not None:
        return [sys.executable, "-m", "jupyterlab"]
    found = shutil.which("jupyter-lab")  # another Python's
    return None if found is None else [found]


def put(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def complain(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write("jupyter-slurm: %s\n" % text)


@contextlib.contextmanager
def used_folder(longest_parent: int) -> "Iterator[str]":
    """Make a folder for this lab alone, and remove it at the end."""
    path, lock = private_folder.made(PRIVATE, longest_parent)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def main(argv: "List[str]") -> int:
    with contextlib.ExitStack() as folders:
        try:
            lab = Lab(os.path.abspath(argv[1]), argv[2])
            private = folders.enter_context(used_folder(LONGEST_PARENT))
            temporary = folders.enter_context(used_folder(ANY_PARENT))
        except OSError as error:
            complain("the lab cannot be set up: %s" % error)
            return NO_ROOM_EXIT
        try:
            ended = lab.run(private, temporary)
        except OSError as error:
            complain("the lab cannot go on: %s" % error)
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            ended = Ended(NO_ROOM_EXIT if is_full else FAILED_EXIT, "failed")
    lab.tell(ended.step)
    return ended.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv))
