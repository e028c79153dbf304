"""Labs and dashboards below the address of a Jupyter server: access, and forwarded headers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
import websocket
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPHeaders
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketHandler

from jupyter_slurm.server.calls import with_jupyter
from jupyter_slurm.server.lab_proxy import SWITCHED_OFF
from jupyter_slurm.wire import LabEntry
from tests.agent.memory_agent import LABS_VARIABLE
from tests.server.served import (
    Client,
    Served,
    environment,
    memory_agent,
    running_server,
)
from tests.server.test_access import DASHBOARD_PROXY, FOREIGN, LAB_PROXY

LAB_ID = LAB_PROXY.rpartition("/")[2]
OFF_ID = "offoffof"
TOKEN = "t" * 64
COOKIE = f"jupyter-slurm={TOKEN}; ray-authentication-token=rays"
VERBS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
WITH_BODY = ("POST", "PUT", "PATCH")
TELLING = {
    "Cookie": "somebody=ada",
    "X-XSRFToken": "ours",
    "X-Forwarded-For": "10.1.2.3",
    "X-Forwarded-Host": "hub.example.org",
    "Forwarded": "for=10.1.2.3",
    "X-Real-IP": "10.1.2.3",
    "Remote-User": "ada",
    "X-Auth-Request-Access-Token": "secret",
    "Referer": "http://hub.example.org/user/ada/",
}
"""Headers about the client that browsers and proxies send."""
STAYS_THERE = {
    "Alt-Svc": 'h2="evil.example:443"',
    "Clear-Site-Data": "*",
    "NEL": '{"report_to": "evil", "max_age": 31536000}',
    "Report-To": '{"group": "evil", "endpoints": [{"url": "https://evil.example"}]}',
    "Service-Worker-Allowed": "/",
    "Strict-Transport-Security": "max-age=31536000",
    "WWW-Authenticate": "Basic",
    "X-Accel-Redirect": "/internal/secret",
    "X-Sendfile": "/etc/passwd",
}
"""Headers that would affect all pages of the address, or a proxy in front of Jupyter."""


@dataclass
class Far:
    """Stand-in for a lab's server, which may be hostile."""

    port: int = 0
    seen: list[tuple[str, str, HTTPHeaders]] = field(default_factory=list)
    """Verb, address and headers of each request."""

    @property
    def last(self) -> tuple[str, str, HTTPHeaders]:
        return self.seen[-1]


@contextmanager
def far_server() -> Iterator[Far]:
    far = Far()

    class Says(RequestHandler):
        SUPPORTED_METHODS = VERBS

        def answer(self) -> None:
            far.seen.append(
                (self.request.method or "", self.request.uri or "", self.request.headers)
            )
            self.set_cookie("_xsrf", "theirs")
            for name, text in STAYS_THERE.items():
                self.set_header(name, text)
            self.set_header("Content-Security-Policy", "frame-ancestors 'none'")
            if self.request.uri == "/":
                self.redirect("/status")
                return
            self.set_status(201)
            if self.request.method != "HEAD":
                self.write(b"said " + self.request.body)

        get = head = post = put = patch = delete = options = answer

    class Echoes(WebSocketHandler):
        def select_subprotocol(self, subprotocols: list[str]) -> str | None:
            return subprotocols[0] if subprotocols else None

        def open(self, *args: str) -> None:
            far.seen.append(("GET", self.request.uri or "", self.request.headers))

        def on_message(self, message: str | bytes) -> None:
            self.write_message(message, binary=isinstance(message, bytes))

    ready, loops = threading.Event(), []

    def serve() -> None:
        async def work() -> None:
            sockets = bind_sockets(0, "127.0.0.1")
            server = HTTPServer(Application([(".*/channels", Echoes), (".*", Says)]))
            server.add_sockets(sockets)
            far.port = sockets[0].getsockname()[1]
            end = asyncio.Event()
            loops.append((asyncio.get_running_loop(), end))
            ready.set()
            await end.wait()
            server.stop()
            await server.close_all_connections()

        asyncio.run(work())

    thread = threading.Thread(target=serve)
    thread.start()
    assert ready.wait(60)
    yield far
    [(loop, end)] = loops
    loop.call_soon_threadsafe(end.set)
    thread.join(60)


@pytest.fixture(scope="module")
def far() -> Iterator[Far]:
    with far_server() as started:
        yield started


@pytest.fixture(scope="module")
def hub_server(home: Path, far: Far) -> Iterator[Served]:
    """Yield a server with the base URL of a hub's user. Its agent knows two labs."""
    base = f"/user/ada/{LAB_PROXY.rpartition('/')[0]}/"
    labs = {
        one: LabEntry(
            login_url=f"http://lab-{one}.localhost:{far.port}{base_url}login?next=%2Flab",
            token=TOKEN,
            port=far.port,
            base_url=base_url,
        )
        for one, base_url in ((LAB_ID, f"{base}{LAB_ID}/"), (OFF_ID, "/"))
    }
    boards = {
        f"{LAB_ID}/{name}": LabEntry(
            login_url=f"http://{name}.localhost:{far.port}/",
            token=TOKEN,
            port=far.port,
            cookie=cookie,
        )
        for name, cookie in (("ray", COOKIE), ("dask", ""))
    }
    (home / "labs.json").write_bytes(msgspec.json.encode(labs | boards))
    env = environment(home) | {LABS_VARIABLE: str(home / "labs.json")}
    config = "c.ServerApp.base_url = '/user/ada/'\nc.ServerApp.allow_remote_access = True\n"
    with memory_agent(env), running_server(env, home, config) as started:
        yield started


@pytest.fixture(scope="module")
def page(hub_server: Served) -> Client:
    """Return a browser logged in with the password."""
    return hub_server.stranger().log_in()


def body_of(verb: str) -> bytes | None:
    return b"it" if verb in WITH_BODY else None


def opened(client: Client, path: str, origin: str | None = None) -> websocket.WebSocket:
    return client._opened(path, origin)._connection


def test_proxy_forwards_authenticated_requests_to_the_lab(
    hub_server: Served, page: Client, far: Far
) -> None:
    ours = {"X-XSRFToken": page.cookies["_xsrf"]}
    for verb in VERBS:
        secret = f"token={hub_server.token}&%74oken={hub_server.token}"
        path = f"{LAB_PROXY}/api/a%20b?{secret}&x=1&x=%262&_xsrf=mine"
        for client, headers in ((hub_server.client(), {}), (page, ours)):
            answer = client.ask(verb, path, body_of(verb), **headers)
            assert answer.status == 201, verb
            said = b"" if verb == "HEAD" else b"said " + (body_of(verb) or b"")
            assert answer.body == said
            assert far.last[:2] == (verb, f"/user/ada/{LAB_PROXY}/api/a%20b?x=1&x=%262")


def test_proxy_removes_credentials_and_the_labs_cookies(
    hub_server: Served, page: Client, far: Far
) -> None:
    page.get("api")
    before = dict(page.cookies)
    assert before
    answer = page.get(f"{LAB_PROXY}/lab", Accept="text/html", **TELLING | {"Cookie": cookies(page)})
    assert answer.status == 201
    assert page.cookies == before
    kept = {name.lower() for name in answer.headers}
    assert not kept & {"set-cookie", *(name.lower() for name in STAYS_THERE)}
    assert answer.headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    _, _, headers = far.last
    assert {name.lower() for name in headers} <= {
        "accept", "accept-encoding", "authorization", "connection", "host", "user-agent"
    }  # fmt: skip
    assert headers["Authorization"] == f"token {TOKEN}"
    assert headers["Host"] == f"lab-{LAB_ID}.localhost:{far.port}"
    hub_server.client().post(f"{LAB_PROXY}/api/kernels", {}, **TELLING)
    said = "".join(f"{name}: {text}\n" for name, text in far.last[2].get_all())
    assert hub_server.token not in said
    for word in ("somebody", "10.1.2.3", "hub.example.org", "ada", "secret", "ours"):
        assert word not in said


def cookies(page: Client) -> str:
    return "; ".join(f"{name}={text}" for name, text in page.cookies.items())


def test_proxy_rejects_unauthenticated_requests(hub_server: Served, page: Client, far: Far) -> None:
    number = len(far.seen)
    path = f"{LAB_PROXY}/api/kernels"
    for client in (hub_server.stranger(), Client(hub_server.url, TOKEN)):
        answer = client.get(path)
        assert answer.status == 302
        assert answer.headers["Location"].startswith("/user/ada/login?")
        for verb in WITH_BODY:
            assert client.ask(verb, path, b"{}").status == 403
    for verb in (*WITH_BODY, "DELETE"):
        assert page.ask(verb, path, body_of(verb)).status == 403, verb
    foreign = {"X-XSRFToken": page.cookies["_xsrf"], "Origin": FOREIGN}
    assert page.ask("POST", path, b"{}", **foreign).status == 404
    assert hub_server.client().get(path, Accept="text/event-stream").status == 406
    assert len(far.seen) == number


def test_foreign_page_with_the_cookie_cannot_read_the_lab(page: Client, far: Far) -> None:
    """The lab cannot check the client: the proxy adds the lab's token."""
    number = len(far.seen)
    path = f"{LAB_PROXY}/files/data.json"
    for said in (
        {"Referer": f"{FOREIGN}/", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
        {"Referer": f"{FOREIGN}/", "Accept": "*/*"},
        {"Accept": "image/png"},
    ):
        assert page.get(path, **said).status == 403, said
    assert len(far.seen) == number
    link = {"Referer": f"{FOREIGN}/", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert page.get(f"{LAB_PROXY}/lab", **link, **{"Sec-Fetch-Dest": "document"}).status == 201
    assert page.get(path, **{"Sec-Fetch-Site": "same-origin"}).status == 201


def test_proxy_forwards_authenticated_websockets(
    hub_server: Served, page: Client, far: Far
) -> None:
    path = f"{LAB_PROXY}/api/kernels/1/channels"
    for client, origin in ((hub_server.client(), None), (page, hub_server.url.split("/user")[0])):
        connection = opened(client, f"{path}?session_id=1&token={hub_server.token}", origin)
        connection.send("text")
        assert connection.recv() == "text"
        connection.send_binary(bytes(range(256)) * 4000)
        assert connection.recv() == bytes(range(256)) * 4000
        connection.close()
        assert far.last[1] == f"/user/ada/{path}?session_id=1"
        assert not {"cookie", "origin"} & {name.lower() for name in far.last[2]}
        assert far.last[2]["Authorization"] == f"token {TOKEN}"
    offered = [f"v1.token.websocket.jupyter.org.{hub_server.token}", "v1.kernel.websocket"]
    connection = websocket.create_connection(
        "ws" + hub_server.url.removeprefix("http") + path,
        header=hub_server.client()._headers(),
        subprotocols=offered,
        suppress_origin=True,
    )
    assert connection.getsubprotocol() == offered[1]
    connection.send("text")
    assert connection.recv() == "text"  # the first call reaches the lab's server now
    connection.close()
    assert far.last[2]["Sec-WebSocket-Protocol"] == offered[1]
    number = len(far.seen)
    nobody = [
        (hub_server.stranger(), None),
        (Client(hub_server.url, TOKEN), None),
        (page, FOREIGN),
    ]
    for client, origin in nobody:
        with pytest.raises(websocket.WebSocketBadStatusException) as refused:
            opened(client, path, origin)
        assert refused.value.status_code == 403
    assert len(far.seen) == number


def test_proxy_reaches_only_targets_of_the_agent(hub_server: Served, far: Far) -> None:
    number = len(far.seen)
    client = hub_server.client()
    off = client.get(f"jupyter-slurm/lab-proxy/{OFF_ID}/lab")
    assert off.status == 403
    assert "`lab_same_origin = true`" in str(off.problem.message)
    assert "with this Jupyter session" in str(off.problem.message)
    assert client.get("jupyter-slurm/lab-proxy/zzzzzzzz/lab").status == 404
    for path in (f"{far.port}/lab", f"127.0.0.1:{far.port}/lab", f"{LAB_ID}", f"{LAB_ID}:1/lab"):
        assert client.get(f"jupyter-slurm/lab-proxy/{path}").status == 404, path
    assert len(far.seen) == number


def test_proxy_forwards_a_dashboard_without_credentials(
    hub_server: Served, page: Client, far: Far
) -> None:
    base = f"/user/ada/{DASHBOARD_PROXY}"
    visit = {"Accept": "text/html", "Cookie": cookies(page)}
    to_start = page.get(f"{DASHBOARD_PROXY}/", **TELLING | visit)
    assert (to_start.status, to_start.headers["Location"]) == (302, f"{base}/status")
    assert not {"set-cookie", "alt-svc"} & {name.lower() for name in to_start.headers}
    # The dashboard's pages do not get Jupyter's token.
    for said in ({"Sec-Fetch-Site": "same-origin"}, {"Referer": hub_server.url}):
        posted = page.post(f"{DASHBOARD_PROXY}/data/a%20b?tag=%26&_xsrf=1", {}, **said)
        assert (posted.status, far.last[:2]) == (201, ("POST", "/data/a%20b?tag=%26"))
    for headers in (one[2] for one in far.seen[-3:]):
        assert headers["Cookie"] == COOKIE
        assert headers["Host"] == f"ray.localhost:{far.port}"
        assert not {"authorization", "origin", "referer"} & {name.lower() for name in headers}
    connection = opened(hub_server.client(), f"{DASHBOARD_PROXY}/a/channels")
    connection.send("text")
    assert connection.recv() == "text"
    connection.close()
    assert (far.last[1], far.last[2]["Cookie"]) == ("/a/channels", COOKIE)


def test_proxy_rejects_foreign_requests_to_a_dashboard(
    hub_server: Served, page: Client, far: Far
) -> None:
    number = len(far.seen)
    for said in ({}, {"Referer": f"{FOREIGN}/"}, {"Sec-Fetch-Site": "cross-site"}):
        assert page.post(f"{DASHBOARD_PROXY}/data", {}, **said).status == 403, said
        assert page.get(f"{DASHBOARD_PROXY}/data", **said).status == 403, said
    stranger = hub_server.stranger()
    assert stranger.get(f"{DASHBOARD_PROXY}/").status == 302  # a redirect to the login
    assert stranger.post(f"{DASHBOARD_PROXY}/data", {}).status == 403
    client = hub_server.client()
    off = client.get(DASHBOARD_PROXY.replace("ray", "dask/"))
    assert (off.status, off.problem.message) == (403, SWITCHED_OFF)
    assert client.get(DASHBOARD_PROXY.replace("ray", "tensorboard/")).status == 404
    assert client.get(DASHBOARD_PROXY.replace("ray", "other/")).status == 404
    assert len(far.seen) == number


def test_lab_spec_gets_the_servers_base_url(hub_server: Served) -> None:
    def given(kind: str) -> object:
        spec = {"spec": {"id": "a", "kind": kind}, "wait": 1}
        return msgspec.json.decode(with_jupyter(msgspec.json.encode(spec), "/user/ada/"))

    assert given("lab") == {
        "spec": {"id": "a", "kind": "lab", "jupyter_base_url": "/user/ada/"},
        "wait": 1,
    }
    assert given("cell") == {"spec": {"id": "a", "kind": "cell"}, "wait": 1}
    assert with_jupyter(b"no", "/") == b"no"
