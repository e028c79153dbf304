"""A lab: a JupyterLab that runs as a job, as its job tells of it, and what lets a browser in."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class LabStep(StrEnum):
    WAITING = "waiting"  # its job has not begun
    INSTALLING = "installing"  # JupyterLab, beside an image that has none
    STARTING = "starting"
    READY = "ready"


class Lab(Struct, frozen=True, kw_only=True):
    """Of a job of kind LAB that has not ended."""

    url: str
    """`http://lab-ID-RANDOM.localhost:PORT/` and its base URL, on this machine; another one after
    the agent was started anew. Nobody gets in who does not know it."""
    port: int
    """On both loopbacks; the same after the agent was started anew, where it is still free."""
    base_url: str = "/"
    """Not "/": it is shown below the address of the Jupyter server that it was asked for from,
    whose browsers are on other machines."""
    step: LabStep = LabStep.WAITING
    door: tuple[str, int] | None = None
    """The address of the port that it has on the cluster, at which only who has the job's key gets
    in; None: it has none now."""


class LabEntry(Struct, frozen=True, kw_only=True):
    """What a browser is sent to a lab with: a POST of `token`, as `token` and as `password`, to
    `login_url`. No address holds the token, and so no history, log or command line does."""

    login_url: str
    token: str
    port: int = 0
    base_url: str = "/"
    """Below which address of a Jupyter server it may be shown; "/": below none."""
