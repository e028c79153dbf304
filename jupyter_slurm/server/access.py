"""The base of all routes: permissions, caching headers, and the form of errors."""

from __future__ import annotations

from http.client import responses
from typing import Any

import msgspec
from jupyter_core.utils import ensure_async
from jupyter_server.base.handlers import JupyterHandler
from tornado.web import HTTPError

from jupyter_slurm.errors import JupyterSlurmError
from jupyter_slurm.server.calls import RESOURCE, Right, Rule
from jupyter_slurm.wire import Problem

_OURS = ("same-origin", "none")
"""Values of Sec-Fetch-Site in requests from this server's pages and from the address bar (W3C)."""


class Guarded(JupyterHandler):
    """The first base class of every handler."""

    auth_resource = RESOURCE

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Cache-Control", "no-store")

    async def permit(self, rule: Rule) -> None:
        """Raise 403 unless the server's authorizer grants all rights of the rule."""
        for right in rule.rights:
            if not await self.may(right):
                what = "" if right.resource == RESOURCE else f" {right.resource}"
                raise HTTPError(403, f"This server does not let you {right.action}{what}.")

    def check_page(self) -> None:
        """Raise 403 if a foreign page may have sent the request with the browser's cookie. Jupyter
        allows GET requests of foreign pages, but in this extension a GET request runs Slurm's
        commands.

        Pages cannot forge the headers Sec-Fetch-Site and Referer. Old browsers, and pages without
        TLS, do not always send them, and must then send the XSRF token.
        """
        if self.is_from_our_page() or self.settings.get("disable_check_xsrf", False):
            return
        if "X-Xsrftoken" not in self.request.headers:
            raise HTTPError(403, "Only this server's pages may send this request.")
        self.check_xsrf_cookie()

    def is_from_our_page(self) -> bool:
        """Return whether the browser marks the request as coming from our pages or the user."""
        return self.request.headers.get("Sec-Fetch-Site") in _OURS or bool(self.check_referer())

    async def may(self, right: Right) -> bool:
        allowed = self.authorizer.is_authorized(
            self, self.current_user, right.action, right.resource
        )
        return bool(await ensure_async(allowed))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer every error with a Problem, including Jupyter's own errors."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        if isinstance(error, JupyterSlurmError):
            self.set_status(error.status)
            problem = error.problem()
        else:
            problem = Problem(code=_code(status_code), message=_message(status_code, error))
        self.set_header("Content-Type", "application/json")
        self.finish(msgspec.json.encode(problem))


def _code(status: int) -> str:
    if status >= 500:
        return "internal"
    return {401: "forbidden", 403: "forbidden", 404: "not-found"}.get(status, "request")


def _message(status: int, error: BaseException | None) -> str:
    if isinstance(error, HTTPError) and error.log_message and status < 500:
        return error.log_message % error.args
    if status >= 500:
        return "Internal error. See the Jupyter server's log."
    return f"{responses.get(status, 'Refused')}."
