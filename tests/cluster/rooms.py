"""Rooms: this machine with other folders at its root and another host name. Needs root.

A site's `/scratch` or `/home` is mounted only for the programs of a room, invisible on the machine
itself. Networks are not changed.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import psutil

from tests.ssh.kept import Keeper
from tests.ssh.waiting import wait_until

_PATIENCE_S = 300.0
_HOLDER = "room"

# $1: host name. $2: the new folders of the root, separated by blanks. $3 …: pairs of a source and a
# target. pivot_root changes the root, since users cannot create containers below chroot
# (user_namespaces(7)). The new root is built in /mnt, which every machine has.
_MAKE = r"""set -e
hostname "$1"
new=$2
shift 2
mount -t tmpfs -o mode=755 tmpfs /mnt
for one in /*; do
  case " $new /mnt " in *" $one "*) mkdir "/mnt$one"; continue ;; esac
  if [ -L "$one" ]; then
    cp -P "$one" /mnt/
  elif [ -d "$one" ]; then
    mkdir "/mnt$one"
    mount --rbind "$one" "/mnt$one"
  fi
done
while [ $# -gt 0 ]; do
  if [ -d "$1" ]; then mkdir -p "/mnt$2"; else mkdir -p "/mnt${2%/*}"; : >>"/mnt$2"; fi
  mount --rbind "$1" "/mnt$2"
  shift 2
done
mkdir /mnt/.old
cd /mnt
pivot_root . .old
umount -l /.old
rmdir /.old
exec -a room sleep infinity
"""


def possible() -> bool:
    """Return whether this process can create rooms. In some containers root cannot."""
    done = subprocess.run(["unshare", "--mount", "--uts", "true"], capture_output=True, check=False)
    return done.returncode == 0


@dataclass(frozen=True)
class Room:
    host: str
    """The host name in the room."""
    holder: int
    """The process that holds the room open."""

    @classmethod
    def make(cls, keeper: Keeper, host: str, mounts: Mapping[str, Path], log: Path) -> Room:
        """`mounts` maps paths in the room to sources. A path that this machine lacks must be below
        a top-level folder that this machine lacks or that the room replaces. That folder must be
        the first of these mounts.
        """
        new = {f"/{PurePosixPath(place).parts[1]}" for place in mounts if not Path(place).exists()}
        new |= {place for place in mounts if place.count("/") == 1}
        words = [str(word) for place, what in mounts.items() for word in (what, place)]
        argv = ["unshare", "--mount", "--uts", "bash", "-c", _MAKE, "room", host]
        holder = keeper.start([*argv, " ".join(sorted(new)), *words], log)

        def made() -> bool:
            assert psutil.pid_exists(holder), log.read_text()
            return psutil.Process(holder).cmdline()[:1] == [_HOLDER]

        wait_until(made, _PATIENCE_S)
        return cls(host, holder)

    def argv(self, *command: str, user: str | None = None) -> list[str]:
        """Return the command line that runs `command` in the room, as root or as `user`."""
        become = [] if user is None else ["setpriv", f"--reuid={user}", f"--regid={user}"]
        become += ["--init-groups"] if become else []
        enter = ("nsenter", f"--target={self.holder}", "--mount", "--uts")
        return [*enter, *become, *command]

    def run(self, *command: str, user: str | None = None) -> str:
        """Run a command, which must succeed, and return its output."""
        done = subprocess.run(
            self.argv(*command, user=user),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE_S,
            cwd="/",
        )
        assert done.returncode == 0, f"{self.host}: {command}: {done.stdout}{done.stderr}"
        return done.stdout
