"""Labs (JupyterLab in a job), and the login of a browser to labs and dashboards."""

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
"""Display names by dashboard."""


class LabStep(StrEnum):
    WAITING = "waiting"  # the job has not started
    STARTING = "starting"
    READY = "ready"


class Lab(Struct, frozen=True, kw_only=True):
    """The state of a lab that has not ended."""

    url: str
    """The URL on this machine: `http://lab-ID-RANDOM.localhost:PORT/` and the base URL. Each
    restart of the agent changes RANDOM. Access requires the host name."""
    port: int
    """The port on both loopbacks. After a restart, the agent uses the same port if it is free."""
    base_url: str = "/"
    """The lab's base URL. If it is not "/", the lab is shown below the URL of the requesting
    Jupyter server, because that server's browsers are on other machines."""
    step: LabStep = LabStep.WAITING


class LabEntry(Struct, frozen=True, kw_only=True):
    """The login of a browser to a lab. The browser POSTs `token`, as `token` and as `password`, to
    `login_url`. So the token never appears in a URL, history, log or command line. A dashboard
    opens by its `login_url` alone; Ray's dashboard then asks for `token`."""

    login_url: str
    token: str
    port: int = 0
    base_url: str = "/"
    """The URL of the Jupyter server below which the page may be shown; "/" if this is not allowed.
    """
    cookie: str = ""
    """The cookie that a Jupyter server adds to requests to the dashboard; "" if the cluster's
    profile does not allow that."""
