"""The connection of the user's code to Ray or Dask. It adds the name `ray`, or the names `client`
and `distributed`, to the code's namespace.

Runs on the cluster, in the code's process, Python 3.6 and later, standard library and the image's
engine only. launch_engine.py starts the engine beside this process.
"""

import contextlib
import functools
import json
import logging
import os
import signal
import sys
import threading
import time
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict, Iterator, List, Set

JOIN_S = 120.0
"""Timeout in seconds for all nodes to join after the engine has started on the first node."""
LOOK_S = 0.05
WATCH_S = 0.5
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)


class EngineError(Exception):
    """The engine does not run, or does not run on all nodes."""


class State:
    """The state of the engine, with its address from `engine.N.json` and its failures from
    `launch.N.jsonl`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.attempt = os.path.basename(path).split(".")[1]
        self.news = self.beside("launch.%s.jsonl")
        self.read_bytes = 0
        self.was_whole = False
        """True once all nodes have joined. Later connections use the remaining nodes."""

    def beside(self, name: str) -> str:
        return os.path.join(os.path.dirname(self.path), name % self.attempt)

    def look(self) -> "List[str]":
        """Return the new sentences about failures."""
        try:
            with open(self.news, "rb") as file:
                file.seek(self.read_bytes)
                data = file.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self.read_bytes += len(whole)
        told = [json.loads(line.decode("ascii")) for line in whole.splitlines()]
        self.was_whole = self.was_whole or any("joined" in one for one in told)
        return [one["said"] for one in told if "said" in one]

    def check(self) -> None:
        """Raise EngineError after a failure before all nodes have joined."""
        said = self.look()
        if said and not self.was_whole:
            raise EngineError(" ".join(said))

    def wait(self) -> "Dict[str, Any]":
        """Wait for the engine, and return its description. launch_engine.py enforces the
        timeout."""
        while True:
            self.check()
            if os.path.exists(self.path):
                with open(self.path, encoding="utf-8") as file:
                    return dict(json.load(file))
            time.sleep(LOOK_S)

    def joined(self) -> None:
        """Record that all nodes have joined."""
        with open(self.news, "ab", 0) as file:
            file.write(b'{"joined": true}\n')


def enter(path: str, namespace: "Dict[str, Any]") -> None:
    """Wait for all nodes, and put the engine into the code's namespace. `path` is the path of
    `engine.N.json`. Raises EngineError."""
    state = State(path)
    with open(state.beside("world.%s.json"), encoding="utf-8") as file:
        world = json.load(file)
    with own_signals():
        if world["engine"] == "ray":
            namespace["ray"] = connect_ray(state, world)
        else:
            namespace["client"] = connect_dask(state, world)
            namespace["distributed"] = sys.modules["distributed"]
    if world["runner"] != "runner.py":  # another job's log has them and is shown
        threading.Thread(target=watch, args=(state,), daemon=True).start()


@contextlib.contextmanager
def own_signals() -> "Iterator[None]":
    """Keep our signal handlers. At SIGTERM, the handler of `ray.init` would exit instead of
    interrupting the code."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers: "Dict[int, Any]" = {}
    for number in SIGNALS:
        handlers[number] = signal.getsignal(number)
    try:
        yield
    finally:
        for changed, handler in handlers.items():
            if handler is not None:
                signal.signal(changed, handler)


def all_joined(state: State, world: "Dict[str, Any]", name: str, joined: "Any") -> None:
    """Wait until `joined()` has the names of all nodes. Raises EngineError."""
    wanted = [node["name"] for node in world["nodes"]]
    deadline_s = time.monotonic() + JOIN_S
    while True:
        here: "Set[str]" = joined()
        missing = [one for one in wanted if one not in here]
        if here and state.was_whole:
            return
        if not missing:
            state.joined()
            return
        state.check()
        if time.monotonic() > deadline_s:
            have = "have" if len(missing) > 1 else "has"
            told = (", ".join(missing), have, name, JOIN_S, len(here), len(wanted))
            raise EngineError("%s %s not joined %s within %d s (%d of %d nodes)." % told)
        time.sleep(LOOK_S)


def watch(state: State) -> None:
    """Print the engine's failures to stderr while a session or kernel runs."""
    while True:
        for sentence in state.look():
            sys.stderr.write("jupyter-slurm: %s %s\n" % (time.strftime("%H:%M:%S"), sentence))
        time.sleep(WATCH_S)


def connect_ray(state: State, world: "Dict[str, Any]") -> "Any":
    import ray  # while it starts on the nodes

    told = state.wait()
    os.environ["RAY_ADDRESS"] = told["address"]
    init = ray.init
    # Set the address, because Ray could guess an address in another network.
    known = {"_node_ip_address": told["address"].rpartition(":")[0].strip("[]")}
    known["logging_level"] = logging.WARNING
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # advice on Ray's own variables
        init(address=told["address"], **known)
    ours = [True]

    @functools.wraps(init)
    def init_again(*args: "Any", **kwargs: "Any") -> "Any":
        """Accept the code's own `ray.init(…)` instead of raising an error. In a session, later
        calls keep the connection of the first call."""
        with own_signals():
            if ours:
                ours.clear()
                ray.shutdown()
                known["ignore_reinit_error"] = True
            return init(*args, **dict(known, **kwargs))

    ray.init = init_again
    all_joined(
        state,
        world,
        "Ray",
        lambda: {node["NodeName"] for node in ray.nodes() if node["Alive"]},
    )
    return ray


def connect_dask(state: State, world: "Dict[str, Any]") -> "Any":
    import dask  # while it starts on the nodes
    import distributed

    told = state.wait()
    os.environ["DASK_SCHEDULER_ADDRESS"] = told["address"]
    dask.config.set({"scheduler-address": told["address"]})  # for Client() in the code
    client = distributed.Client(told["address"], timeout=JOIN_S)

    def joined() -> "Set[str]":
        try:
            found = client.scheduler_info(n_workers=-1)
        except TypeError:  # Dask before 2025, which lists all
            found = client.scheduler_info()
        return {str(one["name"]) for one in found["workers"].values()}

    all_joined(state, world, "Dask", joined)
    return client
