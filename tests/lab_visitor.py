"""A client of a lab that replaces a browser. It logs in like the page, and runs code."""

from __future__ import annotations

import json
import secrets
from typing import Any

import requests
import websocket

from jupyter_slurm.wire import Job, LabEntry

_ANSWER_S = 60.0


class LabVisitor:
    """Connection to the lab's port that uses its host name without name resolution."""

    def __init__(self, host: str, port: int) -> None:
        """`host` is the host in the browser's address. `port` is a port of this machine."""
        self.host = host
        self.port = port
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers["Host"] = self.host

    @classmethod
    def of(cls, job: Job) -> LabVisitor:
        assert job.lab is not None
        return cls(job.lab.url.removeprefix("http://").rstrip("/"), job.lab.port)

    def take_cookies(self, other: LabVisitor) -> None:
        """Take over the other visitor's cookies, as a browser would for one host name."""
        self._session.cookies.update(other._session.cookies)

    def log_in(self, entry: LabEntry) -> requests.Response:
        """Return the response to the page's POST."""
        path = entry.login_url.removeprefix(f"http://{self.host}")
        return self._session.post(
            f"http://127.0.0.1:{self.port}{path}",
            data={"token": entry.token, "password": entry.token},
            headers={"Origin": "null"},
            allow_redirects=False,
            timeout=_ANSWER_S,
        )

    def get(self, path: str, **headers: str) -> requests.Response:
        return self._session.get(
            f"http://127.0.0.1:{self.port}{path}", headers=headers, timeout=_ANSWER_S
        )

    def hang_up(self) -> None:
        """Close idle connections, so that the next request opens a new connection."""
        self._session.close()

    def stream(self, path: str) -> Any:
        """Return the streamed answer, an `HTTPResponse` to close."""
        answer = self._session.get(
            f"http://127.0.0.1:{self.port}{path}",
            headers={"Referer": f"http://{self.host}/lab"},  # /files is for links in the page
            stream=True,
            timeout=_ANSWER_S,
        )
        assert answer.ok, answer.status_code
        return answer.raw

    def post(self, path: str, body: Any = None) -> Any:
        """Post as a page of the lab, and return the answer."""
        answer = self._session.post(
            f"http://127.0.0.1:{self.port}{path}",
            json=body,
            headers={"X-XSRFToken": self._session.cookies.get("_xsrf") or ""},
            timeout=_ANSWER_S,
        )
        assert answer.ok, answer.text
        return answer.json() if answer.content else None

    def start_kernel(self) -> str:
        self.get("/lab")  # this sets the cookie that requests with changes need
        kernel_id: str = self.post("/api/kernels", {})["id"]
        return kernel_id

    def run(self, kernel_id: str, code: str) -> str:
        """Run code, and return its output."""
        cookies = "; ".join(f"{one.name}={one.value}" for one in self._session.cookies)
        sock = websocket.create_connection(
            f"ws://127.0.0.1:{self.port}/api/kernels/{kernel_id}/channels",
            host=self.host,
            cookie=cookies,
            origin=f"http://{self.host}",
            timeout=_ANSWER_S,
        )
        try:
            return self._run(sock, code)
        finally:
            sock.close()

    def _run(self, sock: Any, code: str) -> str:
        message_id = secrets.token_hex(8)
        content = {"code": code, "silent": False, "allow_stdin": False}
        header = {
            "msg_id": message_id,
            "msg_type": "execute_request",
            "username": "",
            "version": "5.3",
        }
        header["session"] = secrets.token_hex(8)
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
        sock.send(json.dumps({**message, "channel": "shell", "buffers": []}))
        printed = ""
        while True:
            got = json.loads(sock.recv())
            if got["parent_header"].get("msg_id") != message_id:
                continue
            if got["msg_type"] == "stream":
                printed += got["content"]["text"]
            if got["msg_type"] == "error":
                raise AssertionError(got["content"])
            if got["msg_type"] == "status" and got["content"]["execution_state"] == "idle":
                return printed
