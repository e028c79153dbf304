"""Proxies to a job's dashboards (Ray, Dask, TensorBoard), for this user alone.

    python3 -uB dashboards.py JOBDIR ATTEMPT PARENT

Runs on the first node, in the image, and ends with PARENT, which runs the user's code. Python 3.6
and later, standard library and TensorBoard only. Each dashboard has a socket proxy, like a lab
(socket_proxy.py). `dashboards.N.json` names the dashboards that work, and explains why others do
not. TensorBoard runs in this program and does not listen on a port: the proxy passes connections to
it. `engine.N.json` gives the port of Ray's dashboard, which requires a token, and the Unix socket
of Dask's dashboard (launch_dask_dashboard.py), since any user of the node could connect to a port.
"""

import contextlib
import ctypes
import functools
import importlib.util
import json
import os
import re
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # `python -P` leaves it out

import runner
import socket_proxy

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Callable, Dict, List, Union

LOOK_S = 0.1
ANSWER_S = 60.0
"""Timeout in seconds for an answer from the dashboard, once the engine runs."""
QUIET_S = 60.0
PR_SET_PDEATHSIG = 1
TITLES = {"ray": "Ray", "dask": "Dask", "tensorboard": "TensorBoard"}
BROUGHT_BY = {"ray": "ray[default]", "dask": "bokeh"}
"""The pip packages that contain an engine's dashboard."""


class NoDashboard(Exception):  # the job continues
    """The dashboard is missing. The message gives the reason and a remedy."""


class StatusFile:
    """The file `dashboards.N.json`. A call sets the state of one dashboard."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.dashboards: "Dict[str, Any]" = {}

    def __call__(self, name: str, **more: "Any") -> None:
        with self.lock:
            self.dashboards[name] = more
            with contextlib.suppress(OSError):  # the runner reports a full disk
                runner.put(self.path, json.dumps(self.dashboards).encode("ascii"))


def serve(name: str, plan: "Dict[str, Any]", folder: str, attempt: str, report: StatusFile) -> None:
    """Wait for one dashboard, and serve its proxy."""
    token = ""
    try:
        if name == "tensorboard":
            connect = tensorboard(plan["logdir"])
        else:
            connect = of_engine(name, os.path.join(folder, "engine.%s.json" % attempt))
            token = token_of_ray() if name == "ray" else ""
        # The agent uses the same name for this socket.
        proxy = socket_proxy.SocketProxy("jslurm-%s-%s" % (plan["id"], name), connect, lambda: None)
    except NoDashboard as why:
        report(name, problem=str(why))
        return
    except OSError as error:
        report(name, problem="Cannot forward %s: %s." % (TITLES[name], error))
        return
    report(name, token=token)
    never, _ = os.pipe()
    while True:
        proxy.step(never, QUIET_S)


# --- the dashboards ---


def of_engine(name: str, path: str) -> "Callable[[], socket.socket]":
    """Wait for the engine's dashboard, and return a function that connects to it. Raises
    NoDashboard."""
    missing = "%s's dashboard is missing. Install %s into the image." % (
        TITLES[name],
        BROUGHT_BY[name],
    )
    if name == "ray" and not all(importlib.util.find_spec(one) for one in needs_of_ray()):
        raise NoDashboard(missing)  # Ray would report it only after it has started
    while not os.path.exists(path):
        time.sleep(LOOK_S)
    with open(path, encoding="utf-8") as file:
        at = json.load(file).get("dashboard")
    if at is None:
        raise NoDashboard(missing)
    reach = functools.partial(connect_to, at)
    deadline_s = time.monotonic() + ANSWER_S
    while True:
        try:
            reach().close()
        except OSError:
            if time.monotonic() > deadline_s:
                raise NoDashboard(missing) from None
            time.sleep(LOOK_S)
        else:
            return reach


def needs_of_ray() -> "List[str]":
    """Return the packages that Ray's dashboard needs, from the list in Ray's optional_deps.py."""
    spec = importlib.util.find_spec("ray")
    for place in (spec and spec.submodule_search_locations) or []:
        with contextlib.suppress(OSError):
            path = os.path.join(place, "dashboard", "optional_deps.py")
            with open(path, encoding="utf-8") as file:
                return re.findall(r"^(?:import|from) (\w+)", file.read(), re.M)
    return []


def connect_to(at: "Union[int, str]") -> socket.socket:
    """Connect to a port of this node or to a Unix socket."""
    if isinstance(at, int):
        return socket.create_connection(("127.0.0.1", at), socket_proxy.CONNECT_S)
    return socket_proxy.connect_path(at)


def token_of_ray() -> str:
    """Return the token of Ray's dashboard from Ray's token file; "" if Ray does not use a token."""
    path = os.environ.get("RAY_AUTH_TOKEN_PATH", "")
    if os.environ.get("RAY_AUTH_MODE") != "token" or not path:
        return ""
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def tensorboard(logdir: str) -> "Callable[[], socket.socket]":
    """Start TensorBoard in this program. Return a function that connects to it. Raises
    NoDashboard."""
    # Hide the GPUs: TensorFlow would allocate all of their memory.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    try:
        from tensorboard import default, program
        from werkzeug import serving

        class Handler(serving.WSGIRequestHandler):  # type: ignore[misc,unused-ignore]
            protocol_version = "HTTP/1.1"  # several requests for each connection

            def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 - werkzeug's name
                pass

        class Server(program.TensorBoardServer):  # type: ignore[misc,unused-ignore]
            """A server for TensorBoard that does not listen on a port."""

            def __init__(self, wsgi_app: "Any", flags: "Any") -> None:
                made = serving.ThreadedWSGIServer("127.0.0.1", 0, wsgi_app, Handler)
                made.socket.close()  # before it accepts a connection
                made.daemon_threads = True
                servers.append(made)

            def serve_forever(self) -> None:
                pass

            def get_url(self) -> str:
                return ""

        servers: "List[Any]" = []
        board = program.TensorBoard(default.get_plugins(), server_class=Server)
        argv = ["", "--logdir", os.path.expanduser(logdir)]
        try:
            # Without this option, a second program reads the logs and listens on a port open to all
            # users.
            board.configure(argv, load_fast="false")
        except ValueError:  # an older release
            board.configure(argv)
        board.launch()
    except (Exception, SystemExit) as error:
        python = "Python %d.%d.%d" % sys.version_info[:3]
        why = "%s: %s" % (type(error).__name__, error)
        raise NoDashboard("TensorBoard does not start with %s: %s." % (python, why)) from None

    def reach() -> socket.socket:
        ours, theirs = socket.socketpair()
        servers[0].process_request(theirs, ("127.0.0.1", 0))
        return ours

    return reach


def main(argv: "List[str]") -> int:
    folder, attempt = os.path.abspath(argv[1]), argv[2]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(argv[3]):
        return 0  # the cell has ended already
    with open(os.path.join(folder, "dashboards.json"), encoding="utf-8") as file:
        plan = json.load(file)
    report = StatusFile(os.path.join(folder, "dashboards.%s.json" % attempt))
    threads = [
        threading.Thread(target=serve, args=(name, plan, folder, attempt, report), daemon=True)
        for name in plan["names"]
    ]
    for one in threads:
        one.start()
    for one in threads:  # until it is killed, unless no dashboard works
        one.join()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
