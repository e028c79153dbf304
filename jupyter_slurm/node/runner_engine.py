"""Ray or Dask, made ready for the user's code: `ray`, or `client` and `distributed`.

Runs on the cluster, in the code's process, Python 3.6 and later, standard library and the image's
engine only. The engine is started beside this process (launch_engine.py); two files tell where it
is, and what becomes of it.
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
"""How long the nodes have to join once the engine runs on the first one."""
LOOK_S = 0.05
WATCH_S = 0.5
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)


class EngineError(Exception):
    """The engine is not there, or not on all nodes."""


class State:
    """What is told of the engine: where it is in `engine.N.json`, what becomes of it in lines of
    `launch.N.jsonl`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.attempt = os.path.basename(path).split(".")[1]
        self.news = self.beside("launch.%s.jsonl")
        self.read_bytes = 0
        self.was_whole = False
        """Whether all nodes have joined once; whoever comes later takes those that are left."""

    def beside(self, name: str) -> str:
        return os.path.join(os.path.dirname(self.path), name % self.attempt)

    def look(self) -> "List[str]":
        """Return the sentences that are new."""
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
        """Raise EngineError for what has gone wrong before all nodes had joined."""
        said = self.look()
        if said and not self.was_whole:
            raise EngineError(" ".join(said))

    def wait(self) -> "Dict[str, Any]":
        """Return where the engine is, once it is there. Its program gives up some time; this one
        does not."""
        while True:
            self.check()
            if os.path.exists(self.path):
                with open(self.path, encoding="utf-8") as file:
                    return dict(json.load(file))
            time.sleep(LOOK_S)

    def joined(self) -> None:
        """Tell that all nodes have joined."""
        with open(self.news, "ab", 0) as file:
            file.write(b'{"joined": true}\n')


def enter(path: str, namespace: "Dict[str, Any]") -> None:
    """Put the engine of which `path` tells into the code's namespace when all nodes have joined.
    Raise EngineError."""
    state = State(path)
    with open(state.beside("world.%s.json"), encoding="utf-8") as file:
        world = json.load(file)
    with own_signals():
        if world["engine"] == "ray":
            namespace["ray"] = connect_ray(state, world)
        else:
            namespace["client"] = connect_dask(state, world)
            namespace["distributed"] = sys.modules["distributed"]
    threading.Thread(target=watch, args=(state,), daemon=True).start()


@contextlib.contextmanager
def own_signals() -> "Iterator[None]":
    """Keep our handlers of signals: `ray.init` has one of its own for SIGTERM, which makes an exit
    of what is an interrupt."""
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
    """Wait until `joined()` has the names of all nodes. Raise EngineError: names the missing."""
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
            raise EngineError("%s %s not joined %s within %d s: %d of %d nodes are there." % told)
        time.sleep(LOOK_S)


def watch(state: State) -> None:
    """Say on stderr what becomes of the engine while the code runs."""
    while True:
        for sentence in state.look():
            sys.stderr.write("jupyter-slurm: %s %s\n" % (time.strftime("%H:%M:%S"), sentence))
        time.sleep(WATCH_S)


def connect_ray(state: State, world: "Dict[str, Any]") -> "Any":
    import ray  # noqa: PLC0415 - while it starts on the nodes

    told = state.wait()
    os.environ["RAY_ADDRESS"] = told["address"]
    init = ray.init
    # As `ray start` recommends it: Ray's guess may be another network's.
    known = {"_node_ip_address": told["address"].rpartition(":")[0].strip("[]")}
    known["logging_level"] = logging.WARNING
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # advice on Ray's own variables
        init(address=told["address"], **known)
    ours = [True]

    @functools.wraps(init)
    def init_again(*args: "Any", **kwargs: "Any") -> "Any":
        """Let code that begins with a `ray.init(…)` of its own have it, instead of an error. In a
        session, whatever begins so later finds the connection of the first."""
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
    import dask  # noqa: PLC0415 - while it starts on the nodes
    import distributed  # noqa: PLC0415

    told = state.wait()
    os.environ["DASK_SCHEDULER_ADDRESS"] = told["address"]
    dask.config.set({"scheduler-address": told["address"]})  # that of a Client() of the code's
    client = distributed.Client(told["address"], timeout=JOIN_S)

    def joined() -> "Set[str]":
        try:
            found = client.scheduler_info(n_workers=-1)
        except TypeError:  # Dask before 2025, which lists all
            found = client.scheduler_info()
        return {str(one["name"]) for one in found["workers"].values()}

    all_joined(state, world, "Dask", joined)
    return client
