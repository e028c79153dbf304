"""A lab: a JupyterLab that runs as a job, as its job reports it; the login for a browser there and
at the dashboards of other jobs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

__all__ = ["DASHBOARDS", "DashboardName", "Lab", "LabEntry", "LabStep"]

DashboardName = Literal["ray", "dask", "tensorboard"]
DASHBOARDS: Mapping[DashboardName, str] = MappingProxyType(
    {"ray": "Ray", "dask": "Dask", "tensorboard": "TensorBoard"}
)
"""The names of those that show them."""


class LabStep(StrEnum):
    WAITING = "waiting"  # its job has not begun
    STARTING = "starting"
    READY = "ready"


class Lab(Struct, frozen=True, kw_only=True):
    """Of a job of kind LAB that has not ended."""

    url: str
    """`http://lab-ID-RANDOM.localhost:PORT/` and its base URL, on this machine; another one after
    the agent restarts. Only a browser that knows it can enter."""
    port: int
    """The port on both loopbacks; the same after the agent restarts, if it is still free."""
    base_url: str = "/"
    """If not "/", the lab is shown below the address of the Jupyter server that asked for it, whose
    browsers are on other machines."""
    step: LabStep = LabStep.WAITING


class LabEntry(Struct, frozen=True, kw_only=True):
    """Sends a browser to a lab: by a POST of `token`, as `token` and as `password`, to `login_url`,
    so that no address, history, log or command line holds the token. A dashboard is opened by its
    `login_url` alone; Ray's then asks for `token`."""

    login_url: str
    token: str
    port: int = 0
    base_url: str = "/"
    """The address of a Jupyter server below which it may be shown; "/": below none."""
    cookie: str = ""
    """The cookie that a Jupyter server adds to a browser's requests to the dashboard; "": the
    profile of its cluster does not allow that."""
