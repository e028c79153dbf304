"""The Slurm of `site.py`: its files, and its daemons, each on a separate machine."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from jupyter_slurm.local_cluster import conf, software
from jupyter_slurm.local_cluster.conf import Ports, Setting
from jupyter_slurm.local_cluster.paths import Paths
from jupyter_slurm.local_cluster.spec import LocalSpec
from tests.ssh.accounts import Account
from tests.ssh.kept import Keeper
from tests.ssh.network import Machine
from tests.ssh.waiting import wait_until

SLURMD_PORT = 6818
_GPUS = 2
_OURS = ("SlurmctldHost", "CommunicationParameters", "NodeName", "DefMemPerCPU")


def write_conf(
    folder: Path, account: Account, controller: str, nodes: Mapping[str, str], cpus: int = 8
) -> Path:
    """Write Slurm's files to the new folder `folder`, and return the folder to mount at /etc/slurm.
    `nodes` maps names to addresses, and `controller` has the form "name(address)". Each node has
    `cpus` CPUs with 2 GiB for each."""
    folder.mkdir(mode=0o711)
    paths = Paths.of(folder)
    assert paths.base == folder, "the path is too long for Slurm"
    for name in ("gpu", "log", "run", "spool", "state"):
        (folder / name).mkdir()
        shutil.chown(folder / name, account.name)
    for node in nodes:
        paths.spool(node).mkdir()
        shutil.chown(paths.spool(node), account.name)
    for index in range(_GPUS):
        paths.gpu(index).symlink_to(os.devnull)
    paths.munge_key.write_text(secrets.token_hex(512))
    paths.munge_key.chmod(0o400)
    shutil.chown(paths.munge_key, account.name)
    shutil.chown(folder, account.name)  # for munged's socket
    spec = LocalSpec(name="site", gpus=_GPUS, cpus=cpus, memory_mib=2048 * cpus)
    found = software.installed()
    assert found is not None
    at = Setting(controller, account.name, paths, Ports(6817, (SLURMD_PORT,)), found.version)
    lines = [line for line in conf.slurm_conf(spec, at).splitlines() if not line.startswith(_OURS)]
    machines = [
        f"NodeName={node} NodeAddr={address} Port={SLURMD_PORT} CPUs={spec.cpus} "
        f"RealMemory={spec.memory_mib} Gres=gpu:{spec.gpu_type}:{spec.gpus} State=UNKNOWN"
        for node, address in nodes.items()
    ]
    etc = folder / "etc"
    etc.mkdir(mode=0o755)
    lines = [f"SlurmctldHost={controller}", *machines, "DefMemPerCPU=1024", *lines]
    (etc / "slurm.conf").write_text("\n".join(lines) + "\n")
    gres = conf.gres_conf(spec, paths).replace("NodeName=n1 ", f"NodeName={','.join(nodes)} ")
    (etc / "gres.conf").write_text(gres)
    (etc / "cgroup.conf").write_text(conf.cgroup_conf(found.version))
    return etc


def start(keeper: Keeper, folder: Path, user: str, login: Machine, nodes: list[Machine]) -> None:
    """Start the daemons, and wait until every node responds."""
    log = folder / "log" / "words"
    paths = Paths.of(folder)
    programs = software.programs()
    munged = (
        *(str(programs["munged"]), "--foreground", "--force"),
        f"--key-file={paths.munge_key}",
        f"--socket={paths.munge_socket}",
        f"--pid-file={folder}/run/munged.pid",
        f"--log-file={paths.log('munged')}",
        f"--seed-file={folder}/run/munged.seed",
    )
    keeper.start(login.argv(*munged, user=user), log)
    wait_until(paths.munge_socket.exists)
    keeper.start(login.argv(str(programs["slurmctld"]), "-D", user=user), log)
    for node in nodes:
        keeper.start(node.argv(str(programs["slurmd"]), "-D", user=user), log)
    deadline_s = time.monotonic() + 60
    while set(_states(login, user)) != {"idle"}:
        assert time.monotonic() < deadline_s, f"Slurm does not start\n{_last_words(folder)}"
        time.sleep(0.1)


def _states(login: Machine, user: str) -> list[str]:
    return login.run("sinfo", "-h", "-N", "-o", "%T", user=user, check=False).stdout.split()


def _last_words(folder: Path) -> str:
    files = sorted((folder / "log").iterdir())
    return "\n".join(f"{file.name}:\n{file.read_text()[-2000:]}" for file in files)
