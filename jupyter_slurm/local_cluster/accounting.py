"""Accounting for a private cluster: slurmdbd on a private MariaDB, and its first account and user.

The database has neither a port nor passwords: its socket lies in a folder that only its user can
enter.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable

from jupyter_slurm.errors import LocalClusterError
from jupyter_slurm.local_cluster.daemons import Daemons

ACCOUNT = "default"


def start(daemons: Daemons, user: str, say: Callable[[str], None]) -> None:
    """Start the database and slurmdbd; add the cluster, an account and `user` to it.

    LocalClusterError with the program's own words when one of them refuses.
    """
    if not (daemons.places.database / "mysql").exists():
        say("Making the accounting database …")
        _make_database(daemons, user)
    daemons.start_mariadbd(
        "--no-defaults",
        f"--datadir={daemons.places.database}",
        f"--socket={daemons.places.database_socket}",
        f"--pid-file={daemons.places.base}/run/mariadbd.pid",
        # At its start it removes the temporary tables of all others in this folder.
        f"--tmpdir={daemons.places.base}/run",
        f"--user={user}",
        "--skip-networking",
        "--skip-grant-tables",
        # slurmdbd(8) wants the first two; the third trades a crash's last second for speed.
        "--innodb-buffer-pool-size=64M",
        "--innodb-lock-wait-timeout=900",
        "--innodb-flush-log-at-trx-commit=2",
    )
    daemons.start_slurmdbd()
    _associate(daemons, user)


def _make_database(daemons: Daemons, user: str) -> None:
    """Make MariaDB's own tables; replace a half-made folder of an interrupted `up`."""
    place = daemons.places.database
    shutil.rmtree(place, ignore_errors=True)
    part = place.with_name("database.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(mode=0o700)
    done = subprocess.run(
        [
            daemons.software.programs["mariadb-install-db"],
            "--no-defaults",
            f"--datadir={part}",
            f"--user={user}",
            "--auth-root-authentication-method=socket",
            "--skip-test-db",
        ],
        env=os.environ | {"TMPDIR": str(daemons.places.base / "run")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LocalClusterError("The accounting database cannot be made.", detail=done.stderr)
    part.rename(place)


def _associate(daemons: Daemons, user: str) -> None:
    """Add sacctmgr's three entries; one that exists already is not an error."""
    for entity in (
        ("cluster", daemons.spec.name),
        ("account", ACCOUNT),
        ("user", user, f"account={ACCOUNT}", "adminlevel=admin"),
    ):
        done = daemons.run("sacctmgr", "-i", "-Q", "add", *entity)
        words = done.stdout + done.stderr
        if done.returncode and "Nothing new added" not in words and "lready exist" not in words:
            raise LocalClusterError(
                f"sacctmgr cannot add the {entity[0]} {entity[1]}.",
                detail=words,
            )
