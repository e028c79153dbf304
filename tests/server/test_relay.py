"""Calls that the server passes to the agent."""

from __future__ import annotations

import asyncio

from jupyter_slurm.errors import AgentError
from jupyter_slurm.server.relay import Relay


class Agent:
    """Stand-in for an agent that answers at once."""

    def relay(self, name: str, body: bytes, wait_s: float = 0.0) -> tuple[int, bytes]:
        return 200, body

    def close(self) -> None:
        """Do nothing, since no connection is open."""


def test_agent_error_is_returned_and_the_next_call_retries() -> None:
    tries = []

    def connect() -> Agent:
        tries.append(1)
        if len(tries) == 1:
            raise AgentError("It does not start.", hint="Look at its log.")
        return Agent()

    async def main() -> None:
        relay = Relay(connect)  # type: ignore[arg-type]
        status, body = await relay.ask("jobs", b"{}")
        assert status == 503
        assert b"It does not start." in body
        assert b"Look at its log." in body
        assert (await relay.ask("jobs", b"{}")).status == 200

    asyncio.run(main())
