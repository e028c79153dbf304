"""The common part of all routes: permissions, no caching on the way, and the form of errors."""

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
"""A page of this server, and a user by the address bar (Fetch Metadata, W3C)."""


class Guarded(JupyterHandler):
    """The base that comes first among a handler's bases."""

    auth_resource = RESOURCE

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Cache-Control", "no-store")

    async def permit(self, rule: Rule) -> None:
        """Raise 403 unless this server's authorizer allows the user all that the rule needs."""
        for right in rule.rights:
            if not await self.may(right):
                what = "" if right.resource == RESOURCE else f" {right.resource}"
                raise HTTPError(403, f"You may not {right.action}{what} here.")

    def check_page(self) -> None:
        """Raise 403 if a page from elsewhere may have made the browser ask this with its cookie:
        Jupyter allows that for requests that change nothing, but a GET here costs Slurm's commands.

        No page can change these headers of a browser. A browser without them (an old one, or one
        that reaches this server without TLS) has to show the origin.
        """
        if self.asked_by_our_page() or self.settings.get("disable_check_xsrf", False):
            return
        if "X-Xsrftoken" not in self.request.headers:
            raise HTTPError(403, "A page that is not this server's may not ask this.")
        self.check_xsrf_cookie()

    def asked_by_our_page(self) -> bool:
        """Tell whether the browser says that a page of this server asks, or a person."""
        return self.request.headers.get("Sec-Fetch-Site") in _OURS or bool(self.check_referer())

    async def may(self, right: Right) -> bool:
        allowed = self.authorizer.is_authorized(
            self, self.current_user, right.action, right.resource
        )
        return bool(await ensure_async(allowed))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer every error with a Problem, also those of the server itself."""
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
        return "This failed inside the Jupyter server, whose log says more."
    return f"{responses.get(status, 'Refused')}."
