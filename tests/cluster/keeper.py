"""Keep private clusters of a home while standard input is open, then purge them.

It is a separate process, so that an interrupted or killed test run leaves nothing behind: its
standard input always closes with the run. It reads a spec as one line of JSON (null to start
nothing), answers with one line, the cluster's folder or the error, and then waits.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

from jupyter_slurm.errors import JupyterSlurmError
from jupyter_slurm.local_cluster import LocalSpec, down, folder, up


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # only EOF ends the keeper
    wanted = json.loads(sys.stdin.readline())
    print(json.dumps({} if wanted is None else start(wanted)), flush=True)
    sys.stdin.read()
    clusters = folder().parent
    for place in clusters.iterdir() if clusters.exists() else ():
        down(place.name, purge=True)
    return 0


def start(wanted: dict[str, Any]) -> dict[str, str]:
    """Start the cluster, with `accounting` if requested. Return its folder or the error."""
    lines = list(wanted.get("extra_conf", ()))
    if wanted.pop("accounting", False):
        from tests.cluster.accounting import Accounting  # few clusters need it

        lines = [*Accounting.of(folder(wanted.get("name", "local"))).lines(), *lines]
    spec = LocalSpec(**wanted | {"extra_conf": tuple(lines)})
    try:
        return {"folder": str(up(spec).folder)}
    except JupyterSlurmError as error:
        return {"error": str(error)}


if __name__ == "__main__":
    sys.exit(main())
