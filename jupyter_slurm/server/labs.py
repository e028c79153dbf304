"""The waiting page of a lab or dashboard, which shows progress and then logs in.

The page uses the public calls. Its commands run in the JupyterLab that opened it. Only a POST
returns the token, and the page sends it by another POST, so the token never appears in a URL or
log. A browser on another machine uses `lab_proxy.py` and gets no token.
"""

from __future__ import annotations

import json
import secrets
from importlib import resources

import msgspec
from tornado.web import HTTPError, authenticated

from jupyter_slurm.server.calls import OWN
from jupyter_slurm.server.handlers import Handler, browser_is_elsewhere
from jupyter_slurm.wire import DashboardName
from jupyter_slurm.wire.state import STATE_WORDS

_PAGE = "lab_room.html"
_WAIT_S = 20.0
"""Seconds that a request waits for a dashboard."""
NO_PROXY = (
    "Showing labs and dashboards below this Jupyter's URL needs jupyter-server-proxy in the "
    "server's environment: pip install 'jupyter-slurm[hub]'."
)


class LabHandler(Handler):
    """`GET lab/ID`: the page. `POST lab/ID`: the browser's login, a LabEntry."""

    nonce: str | None = None
    """The nonce of the page's script, if the answer is the page."""

    @property
    def content_security_policy(self) -> str:
        if self.nonce is None:
            return str(super().content_security_policy)
        return (
            f"default-src 'none'; script-src 'nonce-{self.nonce}'; style-src 'nonce-{self.nonce}'; "
            f"connect-src 'self'; form-action http://*.localhost:*; frame-ancestors 'self'"
        )

    @authenticated
    async def get(self, job_id: str) -> None:
        await self.permit(OWN["lab"])
        self.show(job_id, None)

    def show(self, job_id: str, dashboard: str | None) -> None:
        self.nonce = secrets.token_urlsafe()
        self.set_header("Content-Security-Policy", self.content_security_policy)
        page = resources.files(__package__).joinpath(_PAGE).read_text(encoding="utf-8")
        told = {
            "id": job_id,
            "dashboard": dashboard,
            "base": self.base_url,
            "elsewhere": browser_is_elsewhere(self.request),
            "words": dict(STATE_WORDS),
        }
        page = page.replace("NONCE", self.nonce).replace('"TOLD"', json.dumps(told))
        self.finish(page, set_content_type="text/html; charset=utf-8")

    @authenticated
    async def post(self, job_id: str) -> None:
        await self.permit(OWN["lab_entry"])
        entry = await self.relay.with_agent(lambda agent: agent.lab_entry(job_id))
        self.finish(msgspec.json.encode(entry))


class DashboardHandler(LabHandler):
    """`GET dashboard/ID/NAME`: the page for a dashboard. `POST dashboard/ID/NAME`: the browser's
    login."""

    @authenticated
    async def get(self, job_id: str, name: str) -> None:
        await self.permit(OWN["dashboard"])
        self.show(job_id, name)

    @authenticated
    async def post(self, job_id: str, name: DashboardName) -> None:
        await self.permit(OWN["dashboard_entry"])
        entry = await self.relay.with_agent(
            lambda agent: agent.dashboard_entry(job_id, name, _WAIT_S)
        )
        below = f"{self.base_url}jupyter-slurm/dashboard-proxy/{job_id}/{name}/"
        told = msgspec.structs.replace(
            entry,
            token="" if browser_is_elsewhere(self.request) else entry.token,
            base_url=below if entry.cookie else "/",
            cookie="",
        )
        self.finish(msgspec.json.encode(told))


class NoProxyHandler(Handler):
    """The route if jupyter-server-proxy is not installed."""

    @authenticated
    async def get(self, *_: str) -> None:
        raise HTTPError(501, NO_PROXY)

    post = put = patch = delete = get
