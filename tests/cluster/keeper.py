"""Holds a home for private clusters for as long as its standard input is open, then purges them.

A process of its own, so that a test run that is interrupted or killed leaves nothing behind: its
end of the pipe closes whatever happens. Reads a spec as one line of JSON (null: start nothing, the
tests will), answers with the cluster's folder or the error as one line, then waits.
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
        signal.signal(number, signal.SIG_IGN)  # the pipe alone tells when to end
    wanted = json.loads(sys.stdin.readline())
    print(json.dumps({} if wanted is None else start(wanted)), flush=True)
    sys.stdin.read()
    clusters = folder().parent
    for place in clusters.iterdir() if clusters.exists() else ():
        down(place.name, purge=True)
    return 0


def start(wanted: dict[str, Any]) -> dict[str, str]:
    """Bring the cluster up, with `accounting` if that is asked for; its folder, or why not."""
    lines = list(wanted.get("extra_conf", ()))
    if wanted.pop("accounting", False):
        from tests.cluster.accounting import Accounting  # noqa: PLC0415 - few clusters need it

        lines = [*Accounting.of(folder(wanted.get("name", "local"))).lines(), *lines]
    spec = LocalSpec(**wanted | {"extra_conf": tuple(lines)})
    try:
        return {"folder": str(up(spec).folder)}
    except JupyterSlurmError as error:
        return {"error": str(error)}


if __name__ == "__main__":
    sys.exit(main())
