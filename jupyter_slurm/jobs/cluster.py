"""One cluster's Slurm commands: run with the right environment, counted, their failures named.

The only place where a Slurm command is run. What the commands mean is in `slurm/`.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from jupyter_slurm import containers
from jupyter_slurm.containers.images import find_image
from jupyter_slurm.errors import CommandError, ConfigError, ControllerError
from jupyter_slurm.jobs.prepare import Site, image_of, runtime_of
from jupyter_slurm.profiles import ClusterProfile
from jupyter_slurm.slurm.fields import SLURM_ENV
from jupyter_slurm.slurm.rejections import explain_rejection
from jupyter_slurm.transport import Completed, TimedOutError, Transport
from jupyter_slurm.transport.local import LocalTransport
from jupyter_slurm.wire import JobSpec


def open_transport(profile: ClusterProfile) -> Transport:
    if profile.host is not None:
        raise ConfigError(
            f"The cluster {profile.name!r} is on another machine ({profile.host}), and this "
            "version reaches only the Slurm of this machine.",
            hint="Use jupyter-slurm where `sbatch` works, e.g. on the login node.",
        )
    return LocalTransport(path=profile.path, env=profile.env)


class SlurmCluster:
    """A profile, the way to its machine, and how often each command was run there."""

    def __init__(self, profile: ClusterProfile) -> None:
        self.profile = profile
        self.transport = open_transport(profile)
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self.profile.name

    def job_root(self) -> PurePosixPath:
        home = self.transport.home()
        root = self.profile.job_root
        return home / root[2:] if root.startswith("~/") else PurePosixPath(root)

    def site(self, spec: JobSpec) -> Site:
        """What `prepare` needs to know of this cluster's machine. NotFoundError: no such image."""
        home = str(self.transport.home())
        runtime = containers.runtime_named(runtime_of(spec, self.profile))
        image = image_of(spec, self.profile)
        if image is None or not runtime.takes_image:
            return Site(home)
        path = find_image(
            image,
            aliases=self.profile.images,
            image_dirs=self.profile.image_dirs,
            suffixes=runtime.image_suffixes,
            home=home,
            exists=lambda path: self.transport.exists(PurePosixPath(path)),
            listing=lambda folder: self.transport.listing(PurePosixPath(folder)),
        )
        return Site(home, path)

    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)

    def run(self, argv: Sequence[str], timeout_s: float | None = None) -> Completed:
        """What the command said, whether it failed or not. ControllerError: it did not answer."""
        self._count(argv[0])
        limit_s = timeout_s or self.profile.command_timeout_s
        try:
            return self.transport.run(argv, env=SLURM_ENV, timeout_s=limit_s)
        except TimedOutError as exc:
            raise _silent(self.name, argv, str(exc)) from exc

    def run_as_written(self, argv: Sequence[str]) -> Completed:
        """As `run`, but times are printed for people, as in a terminal."""
        self._count(argv[0])
        try:
            return self.transport.run(argv, timeout_s=self.profile.command_timeout_s)
        except TimedOutError as exc:
            raise _silent(self.name, argv, str(exc)) from exc

    def ask(self, argv: Sequence[str]) -> bytes:
        """The command's output. ControllerError: nothing is known; CommandError: it refused."""
        done = self.run(argv)
        if done.returncode == 0:
            return done.stdout
        words = done.stderr.decode(errors="replace").strip()
        rejection = explain_rejection(words)
        if rejection is not None and rejection.category != "definitive":
            raise _silent(self.name, argv, words)
        raise CommandError(
            f"`{argv[0]}` failed on {self.name} (exit code {done.returncode}).",
            detail=words or None,
            hint=rejection.advice if rejection is not None and rejection.known else None,
        )

    def deliver(
        self, folder: PurePosixPath, files: Mapping[str, bytes | Path], argv: Sequence[str]
    ) -> Completed:
        """Puts a job's folder in place and runs `argv`, which calls sbatch, in it.

        ControllerError: sbatch did not end in time; the job may have been taken.
        """
        self._count("sbatch")
        limit_s = self.profile.submit_timeout_s
        try:
            return self.transport.deliver(folder, files, argv, env=SLURM_ENV, timeout_s=limit_s)
        except TimedOutError as exc:
            raise _silent(self.name, ["sbatch"], str(exc)) from exc

    def _count(self, program: str) -> None:
        with self._lock:
            self._counts[program] += 1


def _silent(name: str, argv: Sequence[str], words: str) -> ControllerError:
    return ControllerError(
        f"Slurm's controller on {name} does not answer `{argv[0]}`.",
        hint="Nothing is lost, it is asked again. `scontrol ping` tells whether it is up.",
        detail=words or None,
    )
