"""The program of one node of a job that `torchrun` starts, in the image.

    python3 -uB launch_torchrun.py JOBDIR ATTEMPT INDEX

Python 3.6 and later, standard library and PyTorch only. What `torchrun` guesses is said here: which
node holds the rendezvous (it compares host names, which a wrong /etc/hosts breaks: pytorch#73656),
this node's address, and the port, which the first node chooses as it opens it.

PyTorch's store takes and gives values for whoever connects to it, from the node or from another
machine, and torchrun unpickles what it finds there. So the names of its values are a secret of the
job, and no pickle is read that the job's key has not signed.
"""

import contextlib
import datetime
import functools
import hashlib
import hmac
import json
import logging
import os
import pickle
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # `python -P` leaves it out

import launch_line
import launch_processes
import runner

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict, List  # noqa: F401 - in comments

MISSING = 65
TELL_S = 50.0
STORE_S = 900
LEAVE_DAYS = 365
AGAIN_S = 0.01


def fail(sentence):
    # type: (str) -> int
    runner.complain(sentence)
    return MISSING


def read_json(path):
    # type: (str) -> Dict[str, Any]
    with open(path, encoding="utf-8") as file:
        return json.load(file)  # type: ignore[no-any-return]


def secret(job_dir, purpose):
    # type: (str, str) -> bytes
    """Return a secret that all nodes of the job can derive, for one purpose."""
    return hmac.new(launch_line.read_key(job_dir), purpose.encode("ascii"), hashlib.sha256).digest()


def rendezvous(job_dir, attempt, index, address):
    # type: (str, str, int, str) -> Any
    """Return the store by which the nodes meet: the first one opens it, and tells the others by a
    file where it is."""
    from torch.distributed import TCPStore

    path = os.path.join(job_dir, "engine.%s.json" % attempt)
    if index == 0:
        store = TCPStore(address, 0, None, True, wait_for_workers=False)
        runner.put(path, json.dumps({"address": address, "port": store.port}).encode())
        return store
    deadline_s = time.monotonic() + TELL_S
    while not os.path.exists(path):
        if time.monotonic() > deadline_s:
            raise SystemExit(fail("the first node has not said where torchrun is to meet"))
        os.listdir(job_dir)  # makes NFS ask
        time.sleep(0.05)
    where = read_json(path)
    return TCPStore(where["address"], where["port"], None, False)


def by_address(run, address):
    # type: (Any, str) -> List[str]
    """Have torchrun and Gloo use this address, and return torchrun's options for it. By themselves
    they go by the node's name, which it and others may resolve to themselves."""
    for name, own in launch_line.interfaces():
        if own == address:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", name.partition(":")[0])
    if "--local_addr" in run.get_args_parser()._option_string_actions:
        return ["--local_addr=%s" % address]
    with contextlib.suppress(ImportError):  # PyTorch before 2
        from torch.distributed.elastic.agent.server import api

        if hasattr(api, "_get_fq_hostname"):
            api._get_fq_hostname = lambda: address
    return []


def by_free_port():
    # type: () -> None
    """Have torchrun choose the port at which the ranks meet among those that nobody takes before
    they open it. Its own is one that Linux may give to the next connection from the node; PyTorch
    2.5 and later keep it open."""
    from torch.distributed.elastic.agent.server import api as agent
    from torch.distributed.elastic.rendezvous import api as meeting

    def bound():
        # type: () -> socket.socket
        sock = socket.socket()
        sock.bind(("localhost", launch_line.free_port()))
        return sock

    if hasattr(agent, "_get_socket_with_port"):  # PyTorch before 2.4
        agent._get_socket_with_port = bound
    if hasattr(meeting, "get_free_port"):
        meeting.get_free_port = launch_line.free_port


class SignedPickle(object):
    """Stands in for the module `pickle` where torchrun reads the state of its rendezvous."""

    PickleError = pickle.PickleError

    def __init__(self, key):
        # type: (bytes) -> None
        self.key = key

    def dumps(self, value):
        # type: (Any) -> bytes
        data = pickle.dumps(value)
        return self._proof(data) + data

    def loads(self, signed):
        # type: (bytes) -> Any
        data = signed[hashlib.sha256().digest_size :]
        if not hmac.compare_digest(self._proof(data) + data, signed):
            raise pickle.PickleError("somebody else has written the state of the rendezvous")
        return pickle.loads(data)

    def _proof(self, data):
        # type: (bytes) -> bytes
        return hmac.new(self.key, data, hashlib.sha256).digest()


def lose_no_signal(kind):
    # type: (Any) -> None
    """Have signals come again that Python has dropped: torchrun makes of each an exception of this
    kind, and nothing that is raised while an object is finalized reaches anybody."""
    tell = getattr(sys, "unraisablehook", None)  # Python 3.8

    def again(dropped):
        # type: (Any) -> None
        if isinstance(dropped.exc_value, kind):
            number = int(dropped.exc_value.sigval)
            threading.Timer(AGAIN_S, os.kill, (os.getpid(), number)).start()
        elif tell is not None:
            tell(dropped)

    sys.unraisablehook = again  # novermin: Python before 3.8 never looks at it


def leave(store, name, index, nodes):
    # type: (Any, str, int, int) -> None
    """Keep the store of the first node until the others need it no more. Where one fails the
    launcher ends all of them."""
    keys = ["%s.ended.%d" % (name, one) for one in range(1, nodes)]
    with contextlib.suppress(RuntimeError, OSError):
        if index:
            store.set("%s.ended.%d" % (name, index), "")
        elif keys:
            store.wait(keys, datetime.timedelta(LEAVE_DAYS))


def main(argv):
    # type: (List[str]) -> int
    job_dir, attempt, index = os.path.abspath(argv[1]), argv[2], int(argv[3])
    world = read_json(os.path.join(job_dir, "world.%s.json" % attempt))
    plan = read_json(os.path.join(job_dir, "launch.json"))
    os.environ.update(world["environment"])
    logs = os.path.join(job_dir, "torchrun.%s.%d" % (attempt, index))
    os.makedirs(logs, exist_ok=True)  # which also tells that this has begun (launch_result.py)
    level = os.environ.get("LOGLEVEL")
    os.environ.setdefault("LOGLEVEL", "CRITICAL")  # what fails is told by the ranks themselves
    try:
        from torch.distributed import run
        from torch.distributed.elastic.multiprocessing import (
            SignalException,
            Std,
        )
        from torch.distributed.elastic.multiprocessing.errors import (
            ChildFailedError,
        )
        from torch.distributed.launcher import api as launcher
    except ImportError as error:
        python = "Python %d.%d.%d" % sys.version_info[:3]
        return fail(
            "torchrun needs PyTorch 1.10 or later, which %s cannot import: %s." % (python, error)
        )
    if level is None:
        del os.environ["LOGLEVEL"]
    node = world["nodes"][index]
    processes = world["processes"][index]
    name = secret(job_dir, "rendezvous " + attempt).hex()
    store = rendezvous(job_dir, attempt, index, node["address"])
    # One thread for each process and CPU, where nothing is said: torchrun would say so, and take 1.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, node["cpus"] // processes)))
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    words = [
        "--log_dir=%s" % logs,  # else a folder in /tmp, which stays
        "--nnodes=%d" % len(world["nodes"]),
        "--nproc_per_node=%d" % processes,
        "--max_restarts=%d" % plan["max_restarts"],
        "--monitor_interval=0.2",
        "--rdzv_backend=c10d",
        "--rdzv_id=%s" % name,
        "--rdzv_endpoint=%s:%d" % (store.host, store.port),
        "--rdzv_conf=is_host=false,timeout=%d" % STORE_S,
    ]
    words += by_address(run, node["address"])
    by_free_port()
    words += [os.path.join(job_dir, world["runner"]), job_dir, attempt, "torchrun"]
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    with contextlib.suppress(ImportError, AttributeError):
        from torch.distributed.elastic.rendezvous import dynamic_rendezvous

        pickles = SignedPickle(secret(job_dir, "pickles " + attempt))
        dynamic_rendezvous.pickle = pickles  # type: ignore[attr-defined,unused-ignore]
        # Nodes are told apart by address, process id and a count. In containers on one machine all
        # of these may be the same, and both would be taken for one node.
        handler = dynamic_rendezvous.DynamicRendezvousHandler
        handler._node_desc_generator._local_id = index
    config, program, arguments = run.config_from_args(run.parse_args(words))
    # A node on which a rank has failed would wait five minutes for the others, so that they can
    # read the store: `leave` keeps it for them.
    launcher.LocalElasticAgent = functools.partial(
        launcher.LocalElasticAgent, exit_barrier_timeout=0.1
    )
    for name in ("redirects", "tee"):  # PyTorch before 2 does not find "none" with Python 3.11
        if getattr(config, name, Std.NONE) is None:
            setattr(config, name, Std.NONE)
    lose_no_signal(SignalException)
    for number in (signal.SIGUSR1, signal.SIGUSR2):  # of the others torchrun makes an end
        signal.signal(number, lambda number, _frame: launch_processes.signal_children(number))
    try:
        launcher.elastic_launch(config, program)(*arguments)
    except ChildFailedError:
        return 1  # what failed is told by the ranks themselves
    except SignalException as error:
        return 128 + int(error.sigval)
    leave(store, name, index, len(world["nodes"]))
    return 0


if __name__ == "__main__":
    ended = main(sys.argv)
    for late in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(late, signal.SIG_IGN)  # else PyTorch raises an error; nothing is left to end
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ended)  # no code of the user's ran here, and to tidy PyTorch up takes 0.2 s
