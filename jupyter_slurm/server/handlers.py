"""Routes that relay a call to the agent. `own.py` defines the other routes."""

from __future__ import annotations

import os
import re
from types import TracebackType
from typing import Generic, TypeVar

import msgspec
from jupyter_server.base.handlers import APIHandler
from tornado.httputil import HTTPServerRequest
from tornado.web import HTTPError, authenticated

from jupyter_slurm.agent.protocol import MAX_BODY_BYTES, NOT_JSON, calls
from jupyter_slurm.commands.line import HUB_VARIABLE
from jupyter_slurm.errors import JupyterSlurmError, RequestError
from jupyter_slurm.server.access import Guarded
from jupyter_slurm.server.calls import (
    OWN,
    RULES,
    Rule,
    packed_query,
    wait_s,
    with_caller,
    with_jupyter,
)
from jupyter_slurm.server.relay import AgentAnswer, Relay

_OWN_NAME = re.compile(r"localhost|127(\.[0-9]+){3}|\[?::1\]?|.+\.localhost")
_T = TypeVar("_T")
_State = TypeVar("_State")


class Handler(Guarded, APIHandler):
    """The base of routes that call the agent."""

    def initialize(self, relay: Relay) -> None:
        self.relay = relay

    def log_exception(
        self,
        typ: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Do not log our own errors, which the client gets as answers."""
        if not isinstance(value, JupyterSlurmError):
            super().log_exception(typ, value, tb)

    def give(self, answer: AgentAnswer) -> None:
        self.set_status(answer.status)
        self.finish(answer.body)

    def wish(self, kind: type[_T]) -> _T:
        """Decode the body. Raises RequestError."""
        try:
            return msgspec.json.decode(self.request.body or b"{}", type=kind)
        except NOT_JSON as exc:
            raise RequestError(f"{exc}.") from exc

    def give_value(self, value: object) -> None:
        self.finish(msgspec.json.encode(value))

    def query(self) -> dict[str, str]:
        """Return the URL's arguments without the token, and without the number that JupyterLab adds
        to bypass caches."""
        names = (name for name in self.request.query_arguments if not name.isdigit())
        return {
            name: self.get_query_argument(name, strip=False) for name in names if name != "token"
        }

    async def ask(self, name: str, body: bytes) -> AgentAnswer:
        if len(body) > MAX_BODY_BYTES:
            raise RequestError(
                f"{name} would send {len(body) / 2**20:.0f} MiB; the agent accepts at most "
                f"{MAX_BODY_BYTES / 2**20:.0f} MiB."
            )
        return await self.relay.ask(name, body, wait_s(body))


class StatefulHandler(Handler, Generic[_State]):
    """The base of routes that have state in this server."""

    def initialize(  # type: ignore[override]  # tornado passes the route's own arguments
        self, relay: Relay, state: _State
    ) -> None:
        super().initialize(relay)
        self.state = state


class CallHandler(Handler):
    """The route `{base_url}jupyter-slurm/api/NAME`."""

    @authenticated
    async def get(self, name: str) -> None:
        rule = _rule(name)
        self.check_page()
        await self.permit(rule)
        if not rule.get:
            raise HTTPError(405, f"{name} requires the HTTP method POST.")
        self.give(await self.ask(name, packed_query(name, self.query())))

    @authenticated
    async def post(self, name: str) -> None:
        await self.permit(_rule(name))
        body = with_caller(name, self.request.body, self.relay.caller)
        if name == "submit" and browser_is_elsewhere(self.request):
            body = with_jupyter(body, self.base_url)
        self.give(await self.ask(name, body))


class AgentHandler(Handler):
    """The route `{base_url}jupyter-slurm/agent/v1/NAME`: the agent, for kernels that cannot reach
    its socket. Callers need the right to execute programs."""

    @authenticated
    async def post(self, name: str) -> None:
        await self.permit(OWN["agent"])
        if name not in calls():
            raise HTTPError(404, f"Unknown call {name}.")
        self.give(await self.ask(name, self.request.body))


class NoSuchRoute(Handler):
    """The answer to any other path below `{base_url}jupyter-slurm/`."""

    @authenticated
    async def get(self) -> None:
        raise HTTPError(404, "Unknown call.")

    @authenticated
    async def post(self) -> None:
        raise HTTPError(404, "Unknown call.")


def browser_is_elsewhere(request: HTTPServerRequest) -> bool:
    """Return whether the browser may be on another machine, which cannot reach our ports. That is
    the case under JupyterHub, or if the request does not use this machine's own name."""
    return HUB_VARIABLE in os.environ or not _OWN_NAME.fullmatch(request.host_name)


def _rule(name: str) -> Rule:
    rule = RULES.get(name)
    if rule is None:
        raise HTTPError(404, f"Unknown call {name}.")
    return rule
