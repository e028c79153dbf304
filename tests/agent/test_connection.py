"""A connection to the agent whose call is interrupted."""

from __future__ import annotations

import gc
import signal
import sys
from types import FrameType

import pytest

from jupyter_slurm.client import AgentClient
from tests.agent.home import AgentHome


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # interrupted as it was closed
def test_an_interrupt_at_any_step_of_a_call_reaches_the_one_who_asked(
    agent_home: AgentHome,
) -> None:
    """Python drops what is raised while an object is finalized: a Ctrl-C at that moment would be
    lost."""
    client = agent_home.client()
    client.status()
    functions, is_interrupted = called(client, -1)
    assert not is_interrupted
    lost = []
    for step in range(len(functions)):
        known, is_interrupted = called(client, step)
        if not is_interrupted:
            lost.append(known[step])
        client.status()  # over an idle connection again
    assert lost == []


def called(client: AgentClient, interrupted_at: int) -> tuple[list[str], bool]:
    """Return the Python functions that a call of the agent calls, and whether an interrupt at the
    one with this number was told."""
    functions: list[str] = []

    def look(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            functions.append(frame.f_code.co_qualname)
            if len(functions) == interrupted_at + 1:
                signal.raise_signal(signal.SIGINT)

    gc.collect()
    gc.disable()  # what it ends are calls, too
    sys.setprofile(look)
    try:
        client.status()
    except KeyboardInterrupt:
        return functions, True
    finally:
        sys.setprofile(None)
        gc.enable()
    return functions, False
