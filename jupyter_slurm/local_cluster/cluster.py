"""`up`, `down` and `status`: the order in which a private cluster starts and stops."""

from __future__ import annotations

import os
import pwd
import random
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from jupyter_slurm.errors import ConfigError, LocalClusterError, RequestError
from jupyter_slurm.formatting import counted
from jupyter_slurm.local_cluster import conf, profile, software
from jupyter_slurm.local_cluster.conf import Ports
from jupyter_slurm.local_cluster.daemons import Daemons, slurmd
from jupyter_slurm.local_cluster.gpus import own_gpus
from jupyter_slurm.local_cluster.paths import (
    Paths,
    folder,
    locked,
    remove_empty,
)
from jupyter_slurm.local_cluster.software import Software
from jupyter_slurm.local_cluster.spec import LocalSpec, LocalStatus
from jupyter_slurm.places import host, write_private

Say = Callable[[str], None]

Gpus = int | Literal["own"] | None
"""The number of simulated GPUs; "own" for this machine's GPUs; None for this machine's GPUs if it
has any."""

_PORTS = range(20_000, 32_000)  # below Linux's range for outgoing connections
_CANCEL_S = 10.0


class _ClusterFile(msgspec.Struct, frozen=True):
    """The record of a cluster, in cluster.json."""

    spec: LocalSpec
    ports: Ports
    software: Software


def silent(_: str) -> None:
    """Do nothing."""


def up(spec: LocalSpec, say: Say = silent) -> LocalStatus:
    """Start the private cluster, or its missing daemons, and register it.

    Jobs that were queued or running when the cluster stopped are queued again (see `down`). Return
    when every node answers. Raise ConfigError if Slurm is not installed. Raise LocalClusterError if
    the cluster is running with another shape, if a daemon does not start, or if the name belongs to
    another cluster.
    """
    place = folder(spec.name)
    profile.check(spec.name)
    with locked(place):
        paths = Paths.of(place)
        known = _load(paths)
        if known is not None:
            _refuse_another_shape(known, spec)
        paths.make()
        programs = _software(paths, say)
        ports = _ports(known, spec)
        daemons = Daemons(spec, paths, ports, programs)
        _write(daemons)
        try:
            _start(daemons, say)
        except BaseException:
            _stop(daemons)
            raise
        profile.register(spec, paths, _profile_environment(daemons))
        return _status(daemons)


def down(name: str = "local", purge: bool = False, say: Say = silent) -> None:
    """Stop the private cluster if it exists.

    Its queue and profile stay for the next `up`. Running jobs lose their node, so they are killed
    and requeued, or end as NODE_FAIL if submitted with `--no-requeue`. With `purge`, cancel every
    job and remove all processes, files and the profile.
    """
    place = folder(name)
    if not place.exists():
        return
    with locked(place):
        paths = Paths.of(place)
        known = _load(paths)
        if known is not None:
            daemons = _daemons(known, paths)
            say(f"Stopping {name} …")
            if daemons.find("slurmctld") is not None:
                daemons.wake("slurmctld")
                with suppress(subprocess.TimeoutExpired):
                    (_cancel_all if purge else _fail_nodes)(daemons)
            _stop(daemons)
        if purge:
            profile.unregister(name)
            paths.unlink()
            shutil.rmtree(place)
            remove_empty(place.parent, parents=2)


def status(name: str = "local") -> LocalStatus | None:
    """Return the private cluster's status; None if it was never started, or was purged."""
    daemons = load(folder(name))
    return None if daemons is None else _status(daemons)


def load(place: Path) -> Daemons | None:
    """Return the cluster in the folder `place`, or None."""
    paths = Paths.of(place)
    known = _load(paths)
    return None if known is None else _daemons(known, paths)


def _daemons(known: _ClusterFile, paths: Paths) -> Daemons:
    return Daemons(known.spec, paths, known.ports, known.software)


def _load(paths: Paths) -> _ClusterFile | None:
    path = paths.folder / paths.record.name
    try:
        return msgspec.json.decode(path.read_bytes(), type=_ClusterFile, dec_hook=_path)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise LocalClusterError(
            f"Cannot read {path}.", hint="Remove its folder.", detail=str(error)
        ) from error


def _path(_: type, text: str) -> Path:
    return Path(text)


def _status(daemons: Daemons) -> LocalStatus:
    paths = daemons.paths
    return LocalStatus(
        spec=daemons.spec,
        folder=paths.folder,
        conf=paths.conf,
        version=daemons.software.version_text,
        daemons=daemons.status(),
    )


def _refuse_another_shape(known: _ClusterFile, spec: LocalSpec) -> None:
    if replace(known.spec, runtime=spec.runtime) == spec:  # only the profile names the runtime
        return
    daemons = _daemons(known, Paths.of(folder(spec.name)))
    if not _status(daemons).stopped:
        was = known.spec
        raise LocalClusterError(
            f"The private cluster {spec.name!r} is running with another shape: "
            f"{counted(was.nodes, 'node')}, each with {counted(was.cpus, 'CPU')} and "
            f"{was.memory_mib} MiB, {was.gpus_text() or 'no GPU'}.",
            hint="Stop it (`jupyter slurm down`), or use another --name.",
        )


def _software(paths: Paths, say: Say) -> Software:
    """Return the system's Slurm, or a private Slurm for users who cannot install it as root."""
    found = software.installed()
    if found is not None:
        return found
    if os.geteuid() == 0 or not software.can_unpack():
        raise software.not_installed()
    return software.unpacked(paths.base / "software", say)


def _ports(known: _ClusterFile | None, spec: LocalSpec) -> Ports:
    """Return the previous ports if all are free or used by our daemons, otherwise new ports."""
    if known is not None and known.spec.nodes == spec.nodes:
        daemons = _daemons(known, Paths.of(folder(spec.name)))
        if not _status(daemons).stopped or all(map(_free, known.ports.all())):
            return known.ports
    candidates = (port for port in random.sample(_PORTS, len(_PORTS)) if _free(port))
    controller, *nodes = (next(candidates) for _ in range(1 + spec.nodes))
    return Ports(controller, tuple(nodes))


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Slurm's daemons do
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        raise ConfigError(
            f"User ID {os.getuid()} does not have a name on this machine, but Slurm needs a name.",
            hint="Run as a user with a name (`id`).",
        ) from None


def _write(daemons: Daemons) -> None:
    """Create the folders, and write every file that the daemons read."""
    spec, paths, programs = daemons.spec, daemons.paths, daemons.software
    at = conf.Setting(
        host=host(),
        user=_user(),
        paths=paths,
        ports=daemons.ports,
        version=programs.version,
        plugins=str(programs.plugins) if programs.plugins else None,
    )
    for node in spec.node_names():
        paths.spool(node).mkdir(mode=0o700, exist_ok=True)
    for position in range(len(spec.own_gpus) or spec.gpus):
        with suppress(FileExistsError):
            paths.gpu(position).symlink_to(os.devnull)
    if spec.own_gpus:
        write_private(paths.task_prolog, conf.task_prolog(spec))
        paths.task_prolog.chmod(0o700)
    for name, program in programs.commands.items():
        (paths.bin / name).unlink(missing_ok=True)
        (paths.bin / name).symlink_to(program)
    if not paths.munge_key.exists():
        write_private(paths.munge_key, secrets.token_hex(512))
    write_private(paths.conf, conf.slurm_conf(spec, at))
    write_private(paths.base / "gres.conf", conf.gres_conf(spec, paths))
    write_private(paths.base / "cgroup.conf", conf.cgroup_conf(at.version))
    record = _ClusterFile(spec, daemons.ports, programs)
    write_private(paths.record, msgspec.json.encode(record, enc_hook=str).decode())


def _start(daemons: Daemons, say: Say) -> None:
    spec = daemons.spec
    say(f"Starting {daemons.software.version_text} …")
    daemons.start_munged()
    daemons.start_slurmctld()
    for node in spec.node_names():
        daemons.start_slurmd(node)
    daemons.wait("slurmctld", lambda: _nodes_answer(daemons))


def _nodes_answer(daemons: Daemons) -> bool:
    """Return whether every node has answered slurmctld (no "idle*"). Nodes may be drained."""
    told = daemons.run("sinfo", "-h", "-N", "-o", "%T")
    states = told.stdout.split()
    return bool(states) and not any(state.endswith("*") or state == "unknown" for state in states)


def _stop(daemons: Daemons) -> None:
    """Stop jobs, then nodes, then slurmctld; in this order, each ends at once."""
    daemons.kill_jobs()
    for node in daemons.spec.node_names():
        daemons.stop(slurmd(node))
    daemons.kill_jobs()  # slurmd may have started more jobs
    for node in daemons.spec.node_names():  # a requeued job must not find its old script
        for left in daemons.paths.spool(node).glob("job*"):
            shutil.rmtree(left)
    for name in ("slurmctld", "munged"):
        daemons.stop(name)


def _cancel_all(daemons: Daemons) -> None:
    """Cancel every job and wait. Jobs that ignore the signal end with their node."""
    daemons.run("scancel", "--user", _user(), limit_s=_CANCEL_S)
    deadline = time.monotonic() + _CANCEL_S
    while time.monotonic() < deadline and daemons.run("squeue", "-h", limit_s=2).stdout:
        time.sleep(0.05)


def _fail_nodes(daemons: Daemons) -> None:
    """Make slurmctld end the running jobs now, not minutes later.

    A node that is DOWN returns when its slurmd registers (ReturnToService=2).
    """
    reason = "reason=jupyter slurm down"
    daemons.run("scontrol", "update", "NodeName=ALL", "State=DOWN", reason, limit_s=_CANCEL_S)


def _profile_environment(daemons: Daemons) -> dict[str, str]:
    env = {"SLURM_CONF": str(daemons.paths.conf)}
    if daemons.software.libraries:
        env["LD_LIBRARY_PATH"] = os.pathsep.join(map(str, daemons.software.libraries))
    return env


def shape(
    name: str = "local",
    gpus: Gpus = None,
    asked: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = silent,
) -> LocalSpec:
    """Return the shape for the cluster `name`; `asked` has fields of `LocalSpec`. Raise
    RequestError if this machine's GPUs were requested but it has none."""
    known = status(name)
    base = known.spec if known else LocalSpec(name=name)
    fields = dict(asked or {})
    fields |= _gpus(gpus, fields.get("gpu_type"), known, say)
    return replace(base, **fields)


def _gpus(
    asked: Gpus, gpu_type: str | None, known: LocalStatus | None, say: Callable[[str], None]
) -> dict[str, Any]:
    """Return the GPUs of the shape. This machine's GPUs may change between two starts."""
    if isinstance(asked, int):
        return {"gpus": asked, "own_gpus": ()}
    had_own = bool(known and known.spec.own_gpus)
    if asked is None and known and (not known.stopped or not had_own):
        return {}
    own = own_gpus(say)
    if not own and (asked == "own" or had_own):
        raise RequestError(
            "nvidia-smi finds no GPU on this machine.",
            hint="Use `--gpus 2` for two simulated GPUs: jobs get numbers, but no device.",
            option="gpus",
        )
    kind = gpu_type or _type_given(known)
    return {"own_gpus": tuple(replace(gpu, type=kind or gpu.type) for gpu in own)}


def _type_given(known: LocalStatus | None) -> str | None:
    """Return the earlier `--gpu-type` of this machine's GPUs, because queued jobs may name it."""
    if known is None or {gpu.type for gpu in known.spec.own_gpus} != {known.spec.gpu_type}:
        return None
    return known.spec.gpu_type
