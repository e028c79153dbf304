"""Labs and dashboards below this server's own address: `{base_url}jupyter-slurm/lab-proxy/ID/…`,
`{base_url}jupyter-slurm/dashboard-proxy/ID/NAME/…`, for browsers on another machine (JupyterHub,
Binder). Ports and hosts come from the agent, never from the URL. Pages below this address can do
whatever this session can, so the cluster's profile must allow such pages (`lab_same_origin`). The
proxy does not send them our cookies, tokens or names.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote_plus

import msgspec
from jupyter_core.utils import ensure_async
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server_proxy.handlers import LocalProxyHandler
from tornado.web import HTTPError, authenticated

from jupyter_slurm.server.access import Guarded
from jupyter_slurm.server.calls import OWN
from jupyter_slurm.server.relay import Relay
from jupyter_slurm.wire import DashboardName, LabEntry

_HOST = "127.0.0.1"
_GOES_THERE = (
    "Accept Accept-Encoding Accept-Language Cache-Control Content-Type If-Match If-Modified-Since "
    "If-None-Match If-Range If-Unmodified-Since Pragma Range User-Agent X-Requested-With"
).split()
"""Request headers that the proxy forwards to the lab. Other headers, e.g. of a proxy in front of
this server, may name users."""
_SECRETS = frozenset(("token", "_xsrf"))
"""URL arguments that the proxy does not forward."""
_OF_A_LOGIN = "v1.token."
"""Prefix of WebSocket protocols that contain a Jupyter token."""
_STAYS_THERE = (
    "accept-ch alt-svc clear-site-data nel proxy-authenticate report-to service-worker-allowed "
    "set-cookie strict-transport-security www-authenticate x-lighttpd-send-file x-sendfile"
).split()
"""Response headers that the proxy drops, because they affect pages outside the lab, or a proxy in
front of this server."""
_OBEYED_BY_PROXIES = "x-accel-"
"""Prefix of headers that nginx interprets, e.g. to send other files instead of the answer."""
_VISIT = ("navigate", "document")
_STREAM = "text/event-stream"


class LabProxyHandler(Guarded, LocalProxyHandler):  # type: ignore[misc]
    """The proxy to a lab."""

    entry: LabEntry

    rule = OWN["lab-proxy"]

    def initialize(self, relay: Relay) -> None:
        self.relay = relay
        self.absolute_url = True
        """Forward the whole path. The lab has the same base URL, so its pages do not need
        rewriting."""

    async def find(self, job_id: str) -> LabEntry:
        """Ask the agent for the address. Raise HTTPError if this server may not show the lab."""
        entry = await self.relay.with_agent(lambda agent: agent.lab_entry(job_id))
        if entry.base_url == "/":
            raise HTTPError(403, SWITCHED_OFF)
        if not self.request.path.startswith(entry.base_url):
            raise HTTPError(404, "This lab was requested by a Jupyter server with another URL.")
        return entry

    def login(self) -> dict[str, str]:
        """Return the lab's Authorization header."""
        return {"Authorization": f"token {self.entry.token}"}

    def path_there(self) -> str:
        """Return the undecoded path on the lab's server."""
        return self.request.path

    async def prepare(self) -> None:  # type: ignore[override]
        await super().prepare()
        if self._finished:
            return  # redirected to the login
        # The lab trusts us and does not check the origin; jupyter_server 2.15 checks it only in its
        # API.
        if self.request.method in ("GET", "HEAD"):
            if not self._is_visit():
                self.check_page()
        elif not self.check_origin():
            raise HTTPError(404)
        await self.permit(self.rule)
        self.entry = await self.find(self.path_args[0])

    def _is_visit(self) -> bool:
        """Return whether the user, rather than a foreign page, requests the lab. WebSockets check
        the origin when they open."""
        headers = self.request.headers
        if headers.get("Upgrade", "").lower() == "websocket":
            return True
        if "Sec-Fetch-Mode" in headers:
            return (headers["Sec-Fetch-Mode"], headers.get("Sec-Fetch-Dest")) == _VISIT
        return headers.get("Accept", "").startswith("text/html")

    def get_login_url(self) -> str:
        """Return the login URL for redirecting a page. Raise 403 for a WebSocket."""
        if self.request.headers.get("Upgrade", "").lower() == "websocket":
            raise HTTPError(403)
        return str(super().get_login_url())

    def check_xsrf_cookie(self) -> None:
        """Check the XSRF token as for our own pages, because the lab trusts us."""
        JupyterHandler.check_xsrf_cookie(self)

    @authenticated
    async def get(self, job_id: str, path: str) -> None:
        """Forward a page or a WebSocket."""
        await ensure_async(super().get(job_id, path))

    @authenticated
    async def http_get(self, job_id: str, path: str) -> None:
        await self.proxy(job_id, path)

    head = post = put = patch = delete = options = http_get

    async def proxy(self, job_id: str, path: str) -> None:
        if self.request.headers.get("Accept") == _STREAM:
            # The proxy would forward a stream of events with all of its headers.
            raise HTTPError(406, "Events of a lab's server are not forwarded.")
        await super(LocalProxyHandler, self).proxy(_HOST, self.entry.port, path)

    async def open(self, job_id: str, path: str) -> None:
        await self.proxy_open(_HOST, self.entry.port, path)

    def proxy_request_headers(self) -> dict[str, str]:
        """Return the headers, also for WebSockets, without the Origin, which this proxy checks."""
        headers = self.request.headers
        kept = {name: headers[name] for name in _GOES_THERE if name in headers}
        host = self.entry.login_url.removeprefix("http://").partition("/")[0]
        return {**kept, "Host": host, **self.login()}

    def get_client_uri(self, protocol: str, host: str, port: int, proxied_path: str) -> str:
        """Return the undecoded URL without secrets."""
        words = [
            word
            for word in self.request.query.split("&")
            if word and unquote_plus(word.partition("=")[0]) not in _SECRETS
        ]
        query = f"?{'&'.join(words)}" if words else ""
        return f"{protocol}://{host}:{port}{self.path_there()}{query}"

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        """Offer the lab the browser's protocols, except those that contain a login."""
        kept = [name for name in subprotocols if not name.startswith(_OF_A_LOGIN)]
        selected: str | None = super().select_subprotocol(kept)
        return selected

    def add_header(self, name: str, value: Any) -> None:
        name = name.lower()
        if name not in _STAYS_THERE and not name.startswith(_OBEYED_BY_PROXIES):
            super().add_header(name, value)


class DashboardProxyHandler(LabProxyHandler):
    """Forward a request below `dashboard-proxy/ID/NAME/` to that dashboard without this prefix,
    because the dashboard's pages use relative links."""

    rule = OWN["dashboard-proxy"]

    async def find(self, which: str) -> LabEntry:
        job_id, _, name = which.partition("/")
        asked = msgspec.convert(name, DashboardName)
        self.absolute_url = False
        self.proxy_base = f"jupyter-slurm/dashboard-proxy/{which}"
        """The path to which the proxy's redirects are relative."""
        entry = await self.relay.with_agent(lambda agent: agent.dashboard_entry(job_id, asked))
        if not entry.cookie:
            raise HTTPError(403, SWITCHED_OFF)
        return entry

    def login(self) -> dict[str, str]:
        return {"Cookie": self.entry.cookie}

    def path_there(self) -> str:
        return self.request.path.partition(f"/{self.proxy_base}")[2]

    def check_xsrf_cookie(self) -> None:
        """Allow POST requests from a dashboard's pages, which do not have our token."""
        try:
            super().check_xsrf_cookie()
        except HTTPError:
            if not self.is_from_our_page():
                raise


SWITCHED_OFF = (
    "The cluster's profile does not allow this page below this Jupyter's URL. Set `lab_same_origin "
    "= true` in the profile to allow dashboards, and labs started later. Then anyone who controls "
    "the cluster's machines can do with this Jupyter session whatever you can."
)
