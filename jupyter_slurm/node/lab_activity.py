"""Idle detection for a lab.

Runs on the cluster, Python 3.6 and later, standard library only. An open page sends requests all
day, so requests do not count as activity. A busy kernel, output, a keystroke in a terminal and a
changed file do.
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
"""Seconds between a change and the next check, in which the server handles the change."""
LOOKS = 10
"""Number of checks during the idle time."""
ANSWER_S = 10.0
REPORT_SHARE = 0.5
"""Fraction of the idle time after which to report that the lab is idle."""


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
        """Return the answer; None if the server does not answer."""
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
    """The time of the last activity. After half of the idle time without activity, this class calls
    `report` with the time of the last activity. When the lab is used again, it calls `report` with
    None. It calls `after_look` after each check."""

    def __init__(
        self,
        server: Server,
        idle_s: float,
        report: "Callable[[Optional[float]], None]",
        after_look: "Callable[[], None]",
    ) -> None:
        self.server = server
        self.idle_s = idle_s
        self.report = report
        self.after_look = after_look
        self.last_s = time.time()
        self.is_reported = False
        self.used = threading.Event()
        self.pause_s = min(LONGEST_LOOK_S, idle_s / LOOKS)
        self.thread = threading.Thread(target=self.keep_looking)
        self.thread.daemon = True

    def start(self) -> None:
        self.thread.start()

    def mark_used(self) -> None:
        """Record activity now."""
        self.last_s = time.time()
        self.used.set()

    def is_over(self) -> bool:
        """Report when the lab becomes idle or active. Return whether the idle time is over."""
        quiet_s = time.time() - self.last_s
        idle = quiet_s >= self.idle_s * REPORT_SHARE
        if idle != self.is_reported:
            self.is_reported = idle
            self.report(round(self.last_s, 3) if idle else None)
        return quiet_s >= self.idle_s

    def keep_looking(self) -> None:
        while True:
            if self.used.wait(self.pause_s):
                time.sleep(SOON_S)
                self.used.clear()
            self.look()
            self.after_look()

    def look(self) -> None:
        for kind in ("kernels", "terminals"):
            for one in self.server.get(kind) or []:
                if one.get("execution_state") in ("busy", "starting"):
                    self.last_s = time.time()
                else:
                    self.last_s = max(self.last_s, seconds(one.get("last_activity")))


def seconds(text: "Optional[str]") -> float:
    """Parse `2026-01-31T12:00:00.123456Z`; return 0 for anything else."""
    try:
        return float(calendar.timegm(time.strptime((text or "")[:19], "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return 0.0
