"""What every route has in common: who may, that nothing is kept on the way, and how errors look."""

from __future__ import annotations

from http.client import responses
from typing import Any

import msgspec
from jupyter_core.utils import ensure_async
from jupyter_server.base.handlers import JupyterHandler
from tornado.web import HTTPError

from jupyter_slurm.errors import JupyterSlurmError
from jupyter_slurm.server.calls import RESOURCE, Action
from jupyter_slurm.wire import Problem


class Guarded(JupyterHandler):
    """Comes first among a handler's bases."""

    auth_resource = RESOURCE

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Cache-Control", "no-store")

    async def permit(self, action: Action) -> None:
        """403 unless this server's authorizer lets the user do so."""
        if not await self._is_authorized(action, RESOURCE):
            raise HTTPError(403, f"You may not {action} here.")

    async def permit_files(self, action: Action) -> None:
        """The same of the files that this server shows, whose resource is Jupyter's own."""
        if not await self._is_authorized(action, "contents"):
            raise HTTPError(403, f"You may not {action} files here.")

    async def permit_terminals(self) -> None:
        """The same of programs in terminals, whose resource is Jupyter's own."""
        if not await self._is_authorized("execute", "terminals"):
            raise HTTPError(403, "You may not use terminals here.")

    async def permit_kernelspecs(self, action: Action) -> None:
        """The same of the kernels that can be picked."""
        if not await self._is_authorized(action, "kernelspecs"):
            raise HTTPError(403, f"You may not {action} kernels here.")

    async def _is_authorized(self, action: Action, resource: str) -> bool:
        allowed = self.authorizer.is_authorized(self, self.current_user, action, resource)
        return bool(await ensure_async(allowed))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Every error is a Problem, those of the server itself too."""
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
