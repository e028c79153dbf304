"""Holds one private cluster for as long as its standard input is open, then purges it.

A process of its own, so that a test run that is interrupted or killed leaves nothing behind: its
end of the pipe closes whatever happens. Reads the spec as one line of JSON, answers with the
cluster's folder (or the error) as one line, then waits.
"""

from __future__ import annotations

import json
import signal
import sys

from jupyter_slurm.errors import JupyterSlurmError
from jupyter_slurm.local_cluster import LocalSpec, down, up


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the pipe alone tells when to end
    wanted = json.loads(sys.stdin.readline())
    spec = LocalSpec(**wanted | {"extra_conf": tuple(wanted.get("extra_conf", ()))})
    try:
        answer = {"folder": str(up(spec).folder)}
    except JupyterSlurmError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)
    sys.stdin.read()
    down(spec.name, purge=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
