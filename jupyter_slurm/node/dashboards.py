"""The ways to a job's dashboards, Ray's, Dask's and TensorBoard, for this user alone.

    python3 -uB dashboards.py JOBDIR ATTEMPT PARENT

Runs on the first node, in the image, beside the cell and no longer than it; Python 3.6 and later,
standard library and TensorBoard only. Each dashboard has a door, as a lab has (lab_door.py), and
`dashboards.N.json` says where that is, or why there is none. TensorBoard runs in this program and
listens nowhere: it gets the connections that the door lets in. Where Ray's and Dask's are, the
engine's program says in `engine.N.json`: at a port of the node's own loopback, or at a Unix socket.
Everybody on the node can connect to a port: Ray's dashboard asks for a token, and Dask's has a
socket (launch_dask_dashboard.py).
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

import lab_door
import runner

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Callable, Dict, List, Union

LOOK_S = 0.1
ANSWER_S = 60.0
"""How long the dashboard of an engine that runs may take to answer."""
QUIET_S = 60.0
PR_SET_PDEATHSIG = 1
TITLES = {"ray": "Ray", "dask": "Dask", "tensorboard": "TensorBoard"}
BROUGHT_BY = {"ray": "ray[default]", "dask": "bokeh"}
"""The packages that bring an engine its dashboard, as pip names them."""


class NoDashboard(Exception):  # noqa: N818 - no error: the job goes on
    """There is no such dashboard; says why, and what to do."""


class Told:
    """The file that says which dashboards there are."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.known: "Dict[str, Any]" = {}

    def __call__(self, name: str, **more: "Any") -> None:
        with self.lock:
            self.known[name] = more
            with contextlib.suppress(OSError):  # no room: the runner says so
                runner.put(self.path, json.dumps(self.known).encode("ascii"))


def lead(name: str, plan: "Dict[str, Any]", folder: str, attempt: str, told: Told) -> None:
    """Open the door of one dashboard once that is there, and keep it."""
    token = ""
    try:
        if name == "tensorboard":
            reach = tensorboard(plan["logdir"])
        else:
            reach = of_engine(name, os.path.join(folder, "engine.%s.json" % attempt))
            token = token_of_ray() if name == "ray" else ""
        # The agent names it in the same way.
        door = lab_door.Door("jslurm-%s-%s" % (plan["id"], name), reach, lambda: None)
    except NoDashboard as why:
        told(name, problem=str(why))
        return
    except OSError as error:
        told(name, problem="There is no way to %s: %s." % (TITLES[name], error))
        return
    told(name, token=token)
    never, _ = os.pipe()
    while True:
        door.step(never, QUIET_S)


# --- the dashboards ---


def of_engine(name: str, path: str) -> "Callable[[], socket.socket]":
    """Return what connects to the engine's dashboard, once that answers. Raise NoDashboard."""
    missing = "%s has no dashboard here. Install %s into the image: it brings one." % (
        TITLES[name],
        BROUGHT_BY[name],
    )
    if name == "ray" and not all(importlib.util.find_spec(one) for one in needs_of_ray()):
        raise NoDashboard(missing)  # Ray says so itself, but first it takes its time to start
    while not os.path.exists(path):
        time.sleep(LOOK_S)
    with open(path, encoding="utf-8") as file:
        at = json.load(file).get("dashboard")
    if at is None:
        raise NoDashboard(missing)
    reach = functools.partial(connected, at)
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
    """Return the packages without which this Ray starts no dashboard, as its own file lists them:
    they differ between releases."""
    spec = importlib.util.find_spec("ray")
    for place in (spec and spec.submodule_search_locations) or []:
        with contextlib.suppress(OSError):
            path = os.path.join(place, "dashboard", "optional_deps.py")
            with open(path, encoding="utf-8") as file:
                return re.findall(r"^(?:import|from) (\w+)", file.read(), re.M)
    return []


def connected(at: "Union[int, str]") -> socket.socket:
    """Return a connection to a port of this node, or to the path of a Unix socket."""
    if isinstance(at, int):
        return socket.create_connection(("127.0.0.1", at), lab_door.CONNECT_S)
    return lab_door.at_path(at)


def token_of_ray() -> str:
    """Return the token that Ray's dashboard asks for; the job's Ray has it in a file."""
    path = os.environ.get("RAY_AUTH_TOKEN_PATH", "")
    if os.environ.get("RAY_AUTH_MODE") != "token" or not path:
        return ""
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def tensorboard(logdir: str) -> "Callable[[], socket.socket]":
    """Start TensorBoard in this program and return what connects to it. Raise NoDashboard."""
    # TensorFlow, where there is one, would take the memory of all GPUs.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    try:
        from tensorboard import default, program  # noqa: PLC0415
        from werkzeug import serving  # noqa: PLC0415

        class Handler(serving.WSGIRequestHandler):  # type: ignore[misc,unused-ignore]
            protocol_version = "HTTP/1.1"  # a connection takes more than one request

            def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 - so it is called there
                pass

        class Server(program.TensorBoardServer):  # type: ignore[misc,unused-ignore]
            """Serves what it is given, and listens nowhere."""

            def __init__(self, wsgi_app: "Any", flags: "Any") -> None:
                made = serving.ThreadedWSGIServer("127.0.0.1", 0, wsgi_app, Handler)
                made.socket.close()  # before anything was accepted there
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
            # Else another program of its own reads the logs, at a port that is open to everybody.
            board.configure(argv, load_fast="false")
        except ValueError:  # it is older than that
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
    told = Told(os.path.join(folder, "dashboards.%s.json" % attempt))
    ways = [
        threading.Thread(target=lead, args=(name, plan, folder, attempt, told), daemon=True)
        for name in plan["names"]
    ]
    for one in ways:
        one.start()
    for one in ways:  # until it is killed, or where there is none
        one.join()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
