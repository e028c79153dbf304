"""The time that the agent takes to start, with all kinds of records.

    scripts/bench lockout [--records completed running]

It starts the real agent for each state of a record and each failure of its cluster in
`tests/attacks/test_lockout.py`. The time is from the command's call until its socket is served. The
first line is an agent without records.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jupyter_slurm.agent.launch import COMMAND
from jupyter_slurm.client import AgentClient
from jupyter_slurm.transport.ssh.route import CONFIG_VARIABLE
from tests.agent.home import ended
from tests.attacks.test_lockout import RECORDS, TROUBLES, Far, record
from tests.cluster.plugin import jupyter_homes
from tests.ssh.accounts import PLAIN_SHELL, make_folder, oneself
from tests.ssh.kept import keeping
from tests.ssh.sshd import Sshd

_ROUNDS = 1
"""The number of starts. Only the fastest counts, since the others depend on other load on the
machine."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", nargs="+", choices=RECORDS, default=RECORDS)
    args = parser.parse_args()
    with keeping() as keeper:
        folder = make_folder(keeper, "lockout-")
        (folder / "sshd").mkdir(mode=0o711)
        sshd = Sshd(keeper, folder / "sshd", oneself(), (PLAIN_SHELL,))
        sshd.start()
        head = [name.rjust(17) for name in TROUBLES]
        print("milliseconds".ljust(32), *head)
        print("no record".ljust(32), f"{_measured(sshd, None, None):17.0f}")
        for held in args.records:
            row = [f"{_measured(sshd, held, trouble):17.0f}" for trouble in TROUBLES]
            print(held.ljust(32), *row, flush=True)
        sshd.stop()


def _measured(sshd: Sshd, held: str | None, trouble: str | None) -> float:
    return min(_once(sshd, held, trouble) for _ in range(_ROUNDS))


def _once(sshd: Sshd, held: str | None, trouble: str | None) -> float:
    home = Path(tempfile.mkdtemp(prefix="lockout-"))
    profile = home / "local.toml"
    profile.write_text("")
    slurm: Any = SimpleNamespace(profile_path=profile)
    far = Far(home, slurm, sshd)
    if held is not None and trouble is not None:
        far.records.save(record(held))
        TROUBLES[trouble](far)
    os.environ |= jupyter_homes(home) | {CONFIG_VARIABLE: str(far.ssh_config)}
    (home / "runtime").mkdir(mode=0o700)
    socket = home / "runtime" / "agent.sock"
    argv = [*COMMAND, "--detach", "--socket", str(socket)]
    began_s = time.perf_counter()
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stderr=sys.stderr)
    took_s = time.perf_counter() - began_s
    pid = AgentClient(socket, COMMAND).status().pid
    with ended(pid) as wait:
        os.kill(pid, signal.SIGTERM)
        assert wait(60.0), f"the agent {pid} does not end"
    far.keep[0].close()
    shutil.rmtree(home)
    return took_s * 1000


if __name__ == "__main__":
    main()
