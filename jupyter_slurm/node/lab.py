"""A lab: the image's JupyterLab on a Unix socket, with a proxy that forwards to it.

    python3 -uB lab.py JOBDIR ATTEMPT

Runs on the cluster, Python 3.6 and later, standard library only. The server does not listen on a
port, which another program could take first. Its token is derived from the job's key, and is passed
in a private file, not in argv or the environment. Only this user's programs can connect to the
proxy (socket_proxy.py). The last line of `lab.N.jsonl` gives the lab's state. Exit code: 0 (it was
idle, or the user shut it down in the page), 65 (JupyterLab is missing), 70 (it failed at the
start), 128 + n (signal n ended it).
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
import private_folder
import socket_proxy

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict, Iterator, List, Optional

    import lab_activity

MISSING_EXIT = 65
"""Exit code EX_DATAERR of sysexits.h. The next two are EX_SOFTWARE and EX_IOERR."""
FAILED_EXIT = 70
NO_ROOM_EXIT = 74
PATIENCE_S = 4.0
"""Seconds for the server to end its kernels. Slurm sends SIGKILL after KillWait, which is at least
five seconds (slurmd/req.c)."""
LOOK_S = 0.1
SOON_S = 0.01
LOOK_SHARE = 0.02
"""Time between checks of a starting server, as a fraction of the time since its start."""
PRIVATE = "jslurm-lab-"
LONGEST_PARENT = 35
"""Maximum length of the parent folder, since the path of a socket has at most 107 bytes (unix(7)).
The longest path is that of a kernel: PARENT/jslurm-lab-RANDOM/r/kernel-UUID-ipc-N (jupyter_client).
"""
ANY_PARENT = 4096
"""Maximum length of the parent of a folder without sockets: PATH_MAX (limits.h)."""
EXTENSION = "jupyter-slurm-lab"
SCRIPT = "lab_page.js"
TEXTS = "lab_page.json"
"""The translations of SCRIPT's texts."""
PACKAGE = {
    "name": EXTENSION,
    "version": "1.0.0",
    "description": "Shows which job this JupyterLab runs in",
    "jupyterlab": {
        "extension": True,
        "_build": {"load": "static/" + SCRIPT, "extension": "./extension"},
    },
}

CONFIG = """\
# Written by jupyter-slurm for one job.
import os
import jupyterlab
# Use a separate workspace, so that the notebooks of another JupyterLab do not open here with second
# kernels.
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
# Avoid ports: any user of the node could read a kernel's output, because only requests are signed.
c.KernelManager.transport = "ipc"
server.sock = {sock!r}
server.sock_mode = "0600"
server.base_url = {base_url!r}
server.open_browser = False
server.allow_root = True
# Refuse requests with an unknown Host header (DNS rebinding), as the lab's port does. Each page has
# its own host name; this file contains only the common beginning of these names.
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
# The Jupyter server that forwards requests adds the token. Hide it from the page, which would send
# it to that server.
shown["token"] = ""
"""


class ProgressFile:
    """The file with the lab's states, as lines of JSON. The last one counts."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, step: str, **more: "Any") -> None:
        line = dict(more, step=step, time_s=round(time.time(), 3))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path, flags, 0o600)
        except OSError as error:  # the disk is full for a while
            complain("cannot write %s: %s" % (self.path, error))
            return
        with contextlib.suppress(OSError), os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps(line).encode("ascii") + b"\n")


class Ended(Exception):
    """The lab has ended. The arguments are the exit code and the last state."""

    def __init__(self, exit_code: int, step: str) -> None:
        super().__init__(step)
        self.exit_code = exit_code
        self.step = step


class Lab:
    """The JupyterLab server, from its start to its end."""

    def __init__(self, folder: str, attempt: str) -> None:
        with open(os.path.join(folder, "task.json"), encoding="utf-8") as file:
            self.task = json.load(file)
        with open(os.path.join(folder, "key"), "rb") as file:
            key = file.read().strip()
        self.token = token_of(key)
        self.folder = folder
        self.attempt = attempt
        self.tell = ProgressFile(os.path.join(folder, "lab.%s.jsonl" % attempt))
        self.server: "Optional[subprocess.Popen[bytes]]" = None
        self.signals, self.waker = os.pipe()
        for descriptor in (self.signals, self.waker):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(self.waker)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, lambda _number, _frame: None)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)

    def run(self, private: str, temporary: str) -> "Ended":
        """Run the server until it ends, and return the reason for the end. `private` is a folder
        for sockets with a short path, `temporary` a folder in TMPDIR."""
        try:
            self.start(private, temporary)
            self.wait_until_ready()
            self.serve()
        except Ended as ended:
            return ended
        finally:
            self.stop(private, temporary)
        raise AssertionError  # `serve` always raises

    # --- the server ---

    def start(self, private: str, temporary: str) -> None:
        command = own_command()
        if command is None:
            complain("%s has no JupyterLab" % sys.executable)
            raise Ended(MISSING_EXIT, "missing")
        self.sock = os.path.join(private, "server")
        self.page = Page(private, self.folder, self.attempt, self.task)
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
        # This process removes the server's temporary files, even after a kill.
        env["TMPDIR"] = temporary
        for name in ("JUPYTER_TOKEN", "JUPYTER_TOKEN_FILE", "JUPYTER_PORT", "JUPYTER_PORT_RETRIES"):
            env.pop(name, None)
        # Start the server in its own session, because a signal to the job's group is for this
        # process.
        self.server = subprocess.Popen(
            command + ["--config=" + config],
            env=env,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        # Import lab_activity while the server starts, because the import is slow.
        self.activity = self.make_activity()
        connect = functools.partial(socket_proxy.connect_path, self.sock)
        name = self.task["door"]
        self.proxy = socket_proxy.SocketProxy(name, connect, self.activity.mark_used)
        self.tell("starting")

    def wait_until_ready(self) -> None:
        began_s = time.monotonic()
        while not self.activity.server.answers():
            self.check_signals()
            if self.exit_code() is not None:
                complain("JupyterLab failed at the start (exit code %s)" % self.exit_code())
                raise Ended(FAILED_EXIT, "failed")
            waited_s = time.monotonic() - began_s
            self.proxy.step(self.signals, min(LOOK_S, max(SOON_S, LOOK_SHARE * waited_s)))

    def exit_code(self) -> "Optional[int]":
        """Return the server's exit code; None while it runs."""
        assert self.server is not None
        return self.server.poll()

    def check_signals(self) -> None:
        """Raise Ended after a signal that ends the lab."""
        try:
            numbers = set(os.read(self.signals, 4096))
        except BlockingIOError:
            return
        for number in sorted(numbers - {signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2}):
            raise Ended(128 + number, "ended by signal %d" % number)

    def make_activity(self) -> "lab_activity.Activity":
        import lab_activity  # slow, while JupyterLab starts

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
        """Serve until the lab ends, then raise Ended."""
        self.page.renew()
        self.tell_ready(None)
        self.activity.mark_used()
        self.activity.start()
        while True:
            self.proxy.step(self.signals, self.activity.pause_s)
            self.check_signals()
            exit_code = self.exit_code()
            if exit_code is not None:
                complain("JupyterLab ended with exit code %d" % exit_code)
                raise Ended(FAILED_EXIT if exit_code else 0, "died" if exit_code else "shut down")
            if self.activity.is_over():
                raise Ended(0, "idle")

    def stop(self, *folders: str) -> None:
        if self.server is None:
            return
        deadline_s = time.monotonic() + PATIENCE_S
        self.send(signal.SIGTERM)
        # Remove the folders before waiting, because Slurm may kill this process during the wait.
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        while self.exit_code() is None and time.monotonic() < deadline_s:
            time.sleep(LOOK_S)
        self.send(signal.SIGKILL)
        self.server.wait()

    def send(self, number: int) -> None:
        """Send a signal to the server's process group."""
        assert self.server is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.server.pid, number)


class Page:
    """The title and the bar of the lab's page. A JupyterLab extension shows the bar. `folder` is
    the job's folder. The extension's files are in `private`; the user's own JupyterLab does not
    change. The bar needs JupyterLab 3 or later, and reads `facts.json`."""

    def __init__(self, private: str, folder: str, attempt: str, task: "Dict[str, Any]") -> None:
        self.folder = folder
        self.started = os.path.join(folder, "started.%s.json" % attempt)
        self.extensions = os.path.join(private, "extensions")
        self.workspaces = os.path.join(private, "workspaces")
        self.static = os.path.join(self.extensions, EXTENSION, "static")
        self.job = {
            "id": task["id"],
            "name": task["name"],
            "node": os.environ.get("SLURMD_NODENAME") or os.uname().nodename,
            "gpus": task["gpus"],
        }
        self.written: "Optional[Dict[str, Any]]" = None

    @property
    def title(self) -> str:
        return " · ".join([self.job["name"], self.job["node"], "JupyterLab"])

    def write(self) -> None:
        """Write the extension. Raises OSError."""
        os.makedirs(self.static, mode=0o700)
        here = os.path.dirname(os.path.abspath(__file__))
        for name in (SCRIPT, TEXTS):
            shutil.copyfile(os.path.join(here, name), os.path.join(self.static, name))
        put_json(os.path.join(self.extensions, EXTENSION, "package.json"), PACKAGE)
        self.renew()

    def renew(self) -> None:
        """Write the facts if they have changed. The agent updates `limit` in the job's folder."""
        facts = dict(self.job, end_s=self.end_s())
        if facts != self.written:
            with contextlib.suppress(OSError):  # the disk is full for a while, or the lab has ended
                put_json(os.path.join(self.static, "facts.json"), facts)
                self.written = facts

    def end_s(self) -> "Optional[float]":
        """Return the time at which the time limit ends the job; None if the limit is still
        unknown."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            with open(self.started, encoding="utf-8") as file:
                started_s = json.load(file)["time_s"]
            with open(os.path.join(self.folder, "limit"), encoding="utf-8") as file:
                return float(started_s + int(file.read()))
        return None


def token_of(key: bytes) -> str:
    """Derive the server's token. The agent derives the same token from the same key."""
    return hmac.new(key, b"lab", hashlib.sha256).hexdigest()


def own_command() -> "Optional[List[str]]":
    """Return the command that starts the image's JupyterLab; None if the image has none."""
    import importlib.util  # slow

    if importlib.util.find_spec("jupyterlab") is not None:
        return [sys.executable, "-m", "jupyterlab"]
    found = shutil.which("jupyter-lab")  # for another Python
    return None if found is None else [found]


def put(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def put_json(path: str, value: "Any") -> None:
    """Write a file atomically. Raises OSError."""
    descriptor = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(value, file)
    os.replace(path + ".new", path)


def complain(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write("jupyter-slurm: %s\n" % text)


@contextlib.contextmanager
def used_folder(longest_parent: int) -> "Iterator[str]":
    """Make a private folder, and remove it at the end of the block."""
    path, lock = private_folder.make(PRIVATE, longest_parent)
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
            complain("cannot set up the lab: %s" % error)
            return NO_ROOM_EXIT
        try:
            ended = lab.run(private, temporary)
        except OSError as error:
            complain("the lab failed: %s" % error)
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            ended = Ended(NO_ROOM_EXIT if is_full else FAILED_EXIT, "failed")
    lab.tell(ended.step)
    return ended.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv))
