"""slurmdbd on a private MariaDB for test clusters: files, options, and first entries.

The database has neither a port nor passwords: only its user can enter the folder of its socket.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_slurm.local_cluster.daemons import Daemons, listens
from jupyter_slurm.local_cluster.paths import Paths
from jupyter_slurm.places import host
from tests.ssh.sshd import free_port
from tests.ssh.waiting import wait_until

ACCOUNT = "default"
_START_S = 300.0


def slurm_lines(paths: Paths, port: int) -> list[str]:
    """Lines for slurm.conf(5)."""
    return [
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=127.0.0.1",
        # With munge, this is the socket that authenticates to slurmdbd.
        f"AccountingStoragePass={paths.munge_socket}",
        f"AccountingStoragePort={port}",
        "AccountingStorageTRES=gres/gpu",
        "AccountingStoreFlags=job_comment",
    ]


def slurmdbd_conf(paths: Paths, host: str, user: str, port: int) -> str:
    return "\n".join(
        [
            f"DbdHost={host}",
            "DbdAddr=127.0.0.1",
            f"DbdPort={port}",
            f"AuthInfo=socket={paths.munge_socket}",
            f"SlurmUser={user}",
            f"PidFile={paths.base}/run/slurmdbd.pid",
            f"LogFile={paths.log('slurmdbd')}",
            "StorageType=accounting_storage/mysql",
            "StorageHost=localhost",
            "StorageLoc=slurm_acct_db",
            f"StorageUser={user}",
            "",
        ]
    )


def database(paths: Paths) -> Path:
    return paths.base / "database"


def database_socket(paths: Paths) -> Path:
    return paths.base / "database.sock"


def install_argv(paths: Paths, user: str) -> list[str]:
    return [
        *("mariadb-install-db", *_own(paths, user)),
        "--auth-root-authentication-method=socket",
        "--skip-test-db",
    ]


def mariadbd_argv(paths: Paths, user: str) -> list[str]:
    return [
        *("mariadbd", *_own(paths, user)),
        f"--socket={database_socket(paths)}",
        f"--pid-file={paths.base}/run/mariadbd.pid",
        "--skip-networking",
        "--skip-grant-tables",
        # slurmdbd(8) needs the first two settings. The third may lose the last second before a
        # crash.
        "--innodb-buffer-pool-size=64M",
        "--innodb-lock-wait-timeout=900",
        "--innodb-flush-log-at-trx-commit=2",
    ]


def _own(paths: Paths, user: str) -> list[str]:
    # A starting mariadbd removes the temporary tables of all others in its tmpdir.
    folders = (f"--datadir={database(paths)}", f"--tmpdir={paths.base}/run")
    return ["--no-defaults", *folders, f"--user={user}"]


@dataclass
class Accounting:
    """The accounting daemons of a cluster that `up` started."""

    paths: Paths
    port: int
    user: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @classmethod
    def of(cls, folder: Path) -> Accounting:
        """Return the accounting daemons of the cluster in `folder`. Its munged then starts and
        stops with them."""
        own = cls(Paths.of(folder), free_port(), pwd.getpwuid(os.getuid()).pw_name)
        start_munged, stop = Daemons.start_munged, Daemons.stop

        def start_all(daemons: Daemons) -> None:
            start_munged(daemons)
            own.start(daemons)

        def stop_all(daemons: Daemons, name: str) -> None:
            stop(daemons, name)
            if name == "munged":
                own.stop()

        Daemons.start_munged = start_all  # type: ignore[method-assign, assignment]
        Daemons.stop = stop_all  # type: ignore[method-assign, assignment]
        return own

    def lines(self) -> list[str]:
        return slurm_lines(self.paths, self.port)

    def start(self, daemons: Daemons) -> None:
        paths = self.paths
        conf = paths.base / "slurmdbd.conf"
        conf.touch(mode=0o600)
        conf.write_text(slurmdbd_conf(paths, host(), self.user, self.port))
        database(paths).mkdir(mode=0o700)
        self._spawn(*install_argv(paths, self.user)).wait()
        self._keep(*mariadbd_argv(paths, self.user))
        wait_until(database_socket(paths).exists, _START_S)
        self._keep("slurmdbd", "-D")
        wait_until(lambda: listens(self.port), _START_S)
        for entity in (
            ("cluster", daemons.spec.name),
            ("account", ACCOUNT),
            ("user", self.user, f"account={ACCOUNT}", "adminlevel=admin"),
        ):
            done = daemons.run("sacctmgr", "-i", "-Q", "add", *entity)
            assert done.returncode == 0, done.stdout + done.stderr

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
            process.wait()
        self.processes.clear()

    def _keep(self, *argv: str) -> None:
        self.processes.append(self._spawn(*argv))

    def _spawn(self, *argv: str) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
        program = shutil.which(argv[0], path=path)
        assert program is not None, f"{argv[0]} is not installed"
        files = {
            "SLURM_CONF": str(self.paths.conf),
            "MYSQL_UNIX_PORT": str(database_socket(self.paths)),
            "TMPDIR": f"{self.paths.base}/run",
        }
        with (self.paths.base / "log" / f"{argv[0]}.out").open("wb") as log:
            return subprocess.Popen(
                [program, *argv[1:]],
                env=os.environ | files,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
