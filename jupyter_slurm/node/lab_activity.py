"""Whether anybody still uses a lab: what its server says, and what is written through its door.

Runs on the cluster, Python 3.6 and later, standard library only. An open page sends the server
requests all day long: these are not a sign of a person, and neither is a kernel that has nothing to
do. A kernel at work, output, a keystroke in a terminal, and a change to a file are.
"""

import calendar
import contextlib
import http.client
import json
import socket
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Callable, Optional

LONGEST_LOOK_S = 30.0
SOON_S = 1.0
"""How long after a sign of somebody it looks: what was asked for is done by then."""
LOOKS = 10
"""How many looks happen within the idle time."""
ANSWER_S = 10.0
TOLD_AFTER = 0.5
"""The share of the idle time after which it is reported: before, nobody needs to know."""


class ServerConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=ANSWER_S)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(ANSWER_S)
        self.sock.connect(self.path)


class Server:
    """Jupyter's REST API behind the socket `path`, below `base_url`."""

    def __init__(self, path: str, token: str, base_url: str) -> None:
        self.path = path
        self.base_url = base_url
        self.headers = {"Authorization": "token " + token}

    def get(self, what: str) -> "Any":
        """Return what the server answers, or None when it does not."""
        connection = ServerConnection(self.path)
        with contextlib.closing(connection):
            try:
                connection.request("GET", self.base_url + "api/" + what, headers=self.headers)
                answer = connection.getresponse()
                if answer.status == 200:
                    return json.loads(answer.read().decode("utf-8"))
            except (OSError, http.client.HTTPException, ValueError):
                pass
        return None

    def answers(self) -> bool:
        return self.get("status") is not None


class Activity:
    """When somebody last did something in the lab. Once half of the idle time is over, `tell` is
    called with the time since when the lab has been idle, and with None when it is in use again.
    `beside` is called after each look."""

    def __init__(
        self,
        server: Server,
        idle_s: float,
        tell: "Callable[[Optional[float]], None]",
        beside: "Callable[[], None]",
    ) -> None:
        self.server = server
        self.idle_s = idle_s
        self.tell = tell
        self.beside = beside
        self.last_s = time.time()
        self.told = False
        self.stirred = threading.Event()
        self.pause_s = min(LONGEST_LOOK_S, idle_s / LOOKS)
        self.thread = threading.Thread(target=self.look_again_and_again)
        self.thread.daemon = True

    def start(self) -> None:
        self.thread.start()

    def stir(self) -> None:
        """Record that somebody has done something now."""
        self.last_s = time.time()
        self.stirred.set()

    def is_over(self) -> bool:
        """Tell whether nobody has done anything for too long; report a change through `tell`."""
        quiet_s = time.time() - self.last_s
        idle = quiet_s >= self.idle_s * TOLD_AFTER
        if idle != self.told:
            self.told = idle
            self.tell(round(self.last_s, 3) if idle else None)
        return quiet_s >= self.idle_s

    def look_again_and_again(self) -> None:
        while True:
            if self.stirred.wait(self.pause_s):
                time.sleep(SOON_S)
                self.stirred.clear()
            self.look()
            self.beside()

    def look(self) -> None:
        for kind in ("kernels", "terminals"):
            for one in self.server.get(kind) or []:
                if one.get("execution_state") in ("busy", "starting"):
                    self.last_s = time.time()
                else:
                    self.last_s = max(self.last_s, seconds(one.get("last_activity")))


def seconds(text: "Optional[str]") -> float:
    """Return the time that `2026-01-31T12:00:00.123456Z` names, or 0 when there is none."""
    try:
        return float(calendar.timegm(time.strptime((text or "")[:19], "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return 0.0
