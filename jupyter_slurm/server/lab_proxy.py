"""Labs and dashboards below this server's own address: `{base_url}jupyter-slurm/lab-proxy/ID/…`,
`{base_url}jupyter-slurm/dashboard-proxy/ID/NAME/…`.

For browsers that are on another machine than this server (JupyterHub, Binder). Only the agent says
where they are; no port and no host comes from an address. Their pages below this address have the
powers of this session, so a cluster's profile has to allow that (`lab_same_origin`). Even so
nothing of ours goes to them: no cookie, no token, no name of this server.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote_plus

import msgspec
from jupyter_core.utils import ensure_async
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server_proxy.handlers import LocalProxyHandler  # type: ignore[import-untyped]
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
"""Headers of a request that go to the lab. All others stay here: a proxy in front of this server
may name its users in any of them."""
_SECRETS = frozenset(("token", "_xsrf"))
"""The arguments of an address that stay here."""
_OF_A_LOGIN = "v1.token."
"""The beginning of the names of a WebSocket's protocols that contain a Jupyter's token."""
_STAYS_THERE = (
    "accept-ch alt-svc clear-site-data nel proxy-authenticate report-to service-worker-allowed "
    "set-cookie strict-transport-security www-authenticate x-lighttpd-send-file x-sendfile"
).split()
"""Headers of an answer that would affect more than the lab, or that a proxy in front of this server
obeys."""
_OBEYED_BY_PROXIES = "x-accel-"
"""For nginx: e.g. to send other files in place of the answer."""
_VISIT = ("navigate", "document")
_STREAM = "text/event-stream"


class LabProxyHandler(Guarded, LocalProxyHandler):  # type: ignore[misc]
    """The proxy: a user of this server's labs may do in one whatever its own pages can."""

    entry: LabEntry

    rule = OWN["lab-proxy"]

    def initialize(self, relay: Relay) -> None:
        self.relay = relay
        self.absolute_url = True
        """The lab's server has the same base URL, so its answers need no rewriting."""

    async def find(self, job_id: str) -> LabEntry:
        """Ask the agent where it is; raise HTTPError if it may not be shown here."""
        entry = await self.relay.with_agent(lambda agent: agent.lab_entry(job_id))
        if entry.base_url == "/":
            raise HTTPError(403, SWITCHED_OFF)
        if not self.request.path.startswith(entry.base_url):
            raise HTTPError(404, "This lab was asked for from a Jupyter with another address.")
        return entry

    def login(self) -> dict[str, str]:
        """Return the header that its server lets in."""
        return {"Authorization": f"token {self.entry.token}"}

    def path_there(self) -> str:
        """Return the path to ask its server for, unread."""
        return self.request.path

    async def prepare(self) -> None:  # type: ignore[override]
        await super().prepare()
        if self._finished:
            return  # redirected to the login
        if self.request.method in ("GET", "HEAD") and not self._is_visit():
            self.check_page()  # the lab trusts us, and so does not check the origin itself
        await self.permit(self.rule)
        self.entry = await self.find(self.path_args[0])

    def _is_visit(self) -> bool:
        """Tell whether a user goes there, rather than another page's request; WebSockets check the
        origin when they open."""
        headers = self.request.headers
        if headers.get("Upgrade", "").lower() == "websocket":
            return True
        if "Sec-Fetch-Mode" in headers:
            return (headers["Sec-Fetch-Mode"], headers.get("Sec-Fetch-Dest")) == _VISIT
        return headers.get("Accept", "").startswith("text/html")

    def get_login_url(self) -> str:
        """Send a page to the login, and refuse a WebSocket."""
        if self.request.headers.get("Upgrade", "").lower() == "websocket":
            raise HTTPError(403)
        return str(super().get_login_url())

    def check_xsrf_cookie(self) -> None:
        """Check as all our pages do: the lab has no cookie here, and trusts us."""
        JupyterHandler.check_xsrf_cookie(self)

    @authenticated
    async def get(self, job_id: str, path: str) -> None:
        """Pass on a page, or a WebSocket."""
        await ensure_async(super().get(job_id, path))

    @authenticated
    async def http_get(self, job_id: str, path: str) -> None:
        await self.proxy(job_id, path)

    head = post = put = patch = delete = options = http_get

    async def proxy(self, job_id: str, path: str) -> None:
        if self.request.headers.get("Accept") == _STREAM:
            # Such answers are handed on with all their headers.
            raise HTTPError(406, "Events of a lab's server do not come through here.")
        await super(LocalProxyHandler, self).proxy(_HOST, self.entry.port, path)

    async def open(self, job_id: str, path: str) -> None:
        await self.proxy_open(_HOST, self.entry.port, path)

    def proxy_request_headers(self) -> dict[str, str]:
        """Return the headers, for WebSockets too, without an Origin, which was checked here."""
        headers = self.request.headers
        kept = {name: headers[name] for name in _GOES_THERE if name in headers}
        host = self.entry.login_url.removeprefix("http://").partition("/")[0]
        return {**kept, "Host": host, **self.login()}

    def get_client_uri(self, protocol: str, host: str, port: int, proxied_path: str) -> str:
        """Return the address as it came, unread, but without secrets."""
        words = [
            word
            for word in self.request.query.split("&")
            if word and unquote_plus(word.partition("=")[0]) not in _SECRETS
        ]
        query = f"?{'&'.join(words)}" if words else ""
        return f"{protocol}://{host}:{port}{self.path_there()}{query}"

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        """Offer the lab the same protocols, but for those that carry a login."""
        kept = [name for name in subprotocols if not name.startswith(_OF_A_LOGIN)]
        selected: str | None = super().select_subprotocol(kept)
        return selected

    def add_header(self, name: str, value: Any) -> None:
        name = name.lower()
        if name not in _STAYS_THERE and not name.startswith(_OBEYED_BY_PROXIES):
            super().add_header(name, value)


class DashboardProxyHandler(LabProxyHandler):
    """Forward a request below `dashboard-proxy/ID/NAME/` to that dashboard, without the address
    before it: a dashboard does not know the address, and its pages link by relative ones."""

    rule = OWN["dashboard-proxy"]

    async def find(self, which: str) -> LabEntry:
        job_id, _, name = which.partition("/")
        asked = msgspec.convert(name, DashboardName)
        self.absolute_url = False
        self.proxy_base = f"jupyter-slurm/dashboard-proxy/{which}"
        """The place that it redirects below."""
        entry = await self.relay.with_agent(lambda agent: agent.dashboard_entry(job_id, asked))
        if not entry.cookie:
            raise HTTPError(403, SWITCHED_OFF)
        return entry

    def login(self) -> dict[str, str]:
        return {"Cookie": self.entry.cookie}

    def path_there(self) -> str:
        return self.request.path.partition(f"/{self.proxy_base}")[2]

    def check_xsrf_cookie(self) -> None:
        """Let a dashboard's own pages POST, which do not know our token."""
        try:
            super().check_xsrf_cookie()
        except HTTPError:
            if not self.asked_by_our_page():
                raise


SWITCHED_OFF = (
    "The profile of its cluster does not let it be shown below this Jupyter's address. "
    "`lab_same_origin = true` there does, for dashboards and for labs that are started from then "
    "on: whoever controls that cluster's machines can then do with this session of Jupyter what "
    "you can."
)
