"""The calls of Slurm's commands on one cluster, their counts, and explanations of failures.

Only this module runs Slurm's commands. `slurm/` contains their argv and parsers.
"""

from __future__ import annotations

import secrets
import shlex
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, Self

from jupyter_slurm import containers
from jupyter_slurm.containers.image_folder import tool_of
from jupyter_slurm.containers.images import find_image, name_of
from jupyter_slurm.containers.references import Reference
from jupyter_slurm.errors import CommandError, ControllerError, RequestError, TransportError
from jupyter_slurm.jobs.cluster.environment_script import PROBE, Toolchain, parse_toolchain
from jupyter_slurm.jobs.cluster.image_store import ImageStore, site_images
from jupyter_slurm.jobs.submission.script import ScriptPlan, render_enter
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.slurm import scancel, scontrol, srun
from jupyter_slurm.slurm.fields import SLURM_ENV, optional_int, sealed
from jupyter_slurm.slurm.rejections import explain_rejection
from jupyter_slurm.slurm.versions import SlurmVersion, parse_version
from jupyter_slurm.transport import Completed, TimedOutError, Transport
from jupyter_slurm.transport.local import LocalTransport

if TYPE_CHECKING:
    from jupyter_slurm.transport.ssh.connection import SshConnection


_SECRET_BYTES = 8
_USUAL_ARRAY_SIZE = 1001
"""The default of MaxArraySize in slurm.conf(5)."""


class ClusterAccess(NamedTuple):
    """The transport to a cluster's machine, and the transport's SSH connection."""

    transport: Transport
    connection: SshConnection | None = None
    """The SSH connection; None for this machine."""

    @classmethod
    def to(cls, profile: ClusterProfile, on_change: Callable[[], None]) -> Self:
        """Return the access for the profile, but do not connect. Call `on_change`, in any thread,
        whenever the connection opens, drops or closes. Raise ConfigError if the ssh configuration
        is invalid."""
        if profile.host is None:
            return cls(LocalTransport(path=profile.path, env=profile.env))
        # Import this only for remote clusters.
        from jupyter_slurm.transport.ssh.connection import SshConnection  # noqa: PLC0415
        from jupyter_slurm.transport.ssh.route import route  # noqa: PLC0415
        from jupyter_slurm.transport.ssh.transport import SshTransport  # noqa: PLC0415

        hops = route(profile.host, user=profile.user, port=profile.port, jump=profile.jump)
        connection = SshConnection(hops, name=profile.name, hint=profile.hint, on_change=on_change)
        return cls(SshTransport(connection, path=profile.path, env=profile.env), connection)

    def again(self, old: ClusterProfile, new: ClusterProfile) -> Self | None:
        """Return this access with the settings of `new`; None if the changed settings need a new
        access."""
        if _differ(old, new, "host", "user", "port", "jump", "hint"):
            return None
        if not _differ(old, new, "path", "env"):
            return self
        if self.connection is None:
            return None
        from jupyter_slurm.transport.ssh.transport import SshTransport  # noqa: PLC0415

        self.transport.close()
        transport = SshTransport(self.connection, path=new.path, env=new.env)
        return self._replace(transport=transport)

    def close(self) -> None:
        self.transport.close()
        if self.connection is not None:
            self.connection.close()

    def leave(self) -> None:
        """Close the access. If the login needed answers, leave its connection to the next agent."""
        self.transport.close()
        if self.connection is not None:
            self.connection.leave()


def _differ(old: ClusterProfile, new: ClusterProfile, *settings: str) -> bool:
    return any(getattr(old, name) != getattr(new, name) for name in settings)


class SlurmCluster:
    """A profile, the access to its machine, and the number of runs of each command."""

    def __init__(self, profile: ClusterProfile, access: ClusterAccess) -> None:
        self.profile = profile
        self.access = access
        self.transport = access.transport
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._srun_lock = threading.Lock()
        self._srun_said: dict[str, tuple[int, str]] = {}
        """The cached output of srun, by option, with the connection's generation."""
        self._toolchains_lock = threading.Lock()
        self._toolchains: dict[str, tuple[int, Toolchain]] = {}
        """The cached programs of the login node, by the text of the search script, with the
        connection's generation."""
        self._array_size = (-1, 0)
        """The connection's generation, and the MaxArraySize cached for it."""

    @property
    def name(self) -> str:
        return self.profile.name

    def job_root(self) -> PurePosixPath:
        home = self.transport.home()
        root = self.profile.job_root
        return home / root[2:] if root.startswith("~/") else PurePosixPath(root)

    def environments_root(self) -> PurePosixPath:
        """Return the folder of package environments."""
        return self.job_root() / "envs"

    def check_configuration(self, slurm_conf: str | None) -> None:
        """Raise RequestError if the profile does not use the Slurm configuration of the user's own
        sbatch. `slurm_conf` is SLURM_CONF in the submitting process; None if it is not set."""
        if slurm_conf is not None and self.profile.misses(slurm_conf):
            raise RequestError(
                f"SLURM_CONF is {slurm_conf} on this machine but not in the profile of "
                f"{self.name}, so the job would not go to the cluster of your own sbatch.",
                hint="Add that cluster with `jupyter slurm clusters add NAME --host '' --env "
                f"SLURM_CONF={shlex.quote(slurm_conf)}`.",
            )

    def find_image(
        self, image: str, runtime: str, fetched: Callable[[Reference], str | None]
    ) -> str:
        """Return the path of an image on this cluster, or the name from `fetched` for a tool that
        downloads images. Raises NotFoundError or RequestError."""
        tool, known = tool_of(runtime), containers.runtime_named(runtime)
        return find_image(
            image,
            aliases=self.profile.images,
            image_dirs=self.profile.image_dirs,
            suffixes=known.image_suffixes,
            home=str(self.transport.home()),
            exists=lambda path: self.transport.exists(PurePosixPath(path)),
            listing=lambda folder: self.transport.listing(PurePosixPath(folder)),
            fetched=fetched,
            made=lambda name: self.image_store().find(name, tool),
            there=lambda: [
                *self.image_store().names(tool),
                *(name_of(path.name) for path in self.site_images(runtime)),
            ],
        )

    def site_images(self, runtime: str) -> list[PurePosixPath]:
        """Return the paths of the images for `runtime` in the profile's image folders."""
        return site_images(self.transport, self.profile.image_dirs, runtime)

    def image_store(self) -> ImageStore:
        """Return our own image folder."""
        beside = PurePosixPath(self.profile.job_root).parent / "images"
        return ImageStore(self.transport, self.profile.image_dir or str(beside))

    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)

    def run(
        self, argv: Sequence[str], timeout_s: float | None = None, stdin: bytes = b""
    ) -> Completed:
        """Run a command and return its output, even if the command fails. Raise ControllerError if
        Slurm does not answer.

        The command prints separators with a secret, so that text in the output cannot forge them
        (`sealed`). The returned output has plain separators.
        """
        self._count(argv[0])
        limit_s = timeout_s or self.profile.command_timeout_s
        command = sealed(argv, secrets.token_hex(_SECRET_BYTES))
        try:
            done = self.transport.run(command.argv, env=SLURM_ENV, stdin=stdin, timeout_s=limit_s)
        except TimedOutError as exc:
            raise _silent(self.name, argv, str(exc)) from exc
        return done._replace(stdout=command.opened(done.stdout))

    def run_as_written(self, argv: Sequence[str]) -> Completed:
        """Run a command as `run` does, but with Slurm's usual output format."""
        self._count(argv[0])
        try:
            return self.transport.run(argv, timeout_s=self.profile.command_timeout_s)
        except TimedOutError as exc:
            raise _silent(self.name, argv, str(exc)) from exc

    def cancel(self, ids: Sequence[str]) -> None:
        """Cancel these jobs, except those that have already ended. Raises as `ask` does."""
        try:
            self.ask(scancel.cancel_argv(ids))
        except CommandError as exc:
            if isinstance(exc, ControllerError) or not scancel.is_already_gone(exc.detail or ""):
                raise

    def ask(self, argv: Sequence[str]) -> bytes:
        """Return the command's output. Raise ControllerError if Slurm does not answer, or
        CommandError if the command fails."""
        done = self.run(argv)
        if done.returncode == 0:
            return done.stdout
        words = done.stderr.decode(errors="replace").strip()
        rejection = explain_rejection(words)
        if rejection is not None and rejection.category == "transient":
            raise ControllerError(
                f"`{argv[0]}` failed on {self.name}: {rejection.text}", hint=rejection.hint
            )
        if rejection is not None and rejection.category == "ambiguous":
            raise _silent(self.name, argv, words)
        raise CommandError(
            f"`{argv[0]}` failed on {self.name} (exit code {done.returncode}).",
            detail=words or None,
            hint=rejection.hint if rejection is not None else None,
        )

    def deliver(
        self, folder: PurePosixPath, files: Mapping[str, bytes | Path], argv: Sequence[str]
    ) -> Completed:
        """Create a job's folder with `files`, and run `argv` in the folder. `argv` calls sbatch.

        Raise ControllerError if sbatch does not end in time; Slurm may have accepted the job
        anyway.
        """
        self._count("sbatch")
        limit_s = self.profile.submit_timeout_s
        try:
            return self.transport.upload_and_run(folder, files, argv, timeout_s=limit_s)
        except TimedOutError as exc:
            raise _silent(self.name, ["sbatch"], str(exc)) from exc

    def open_stream(self, program: str, argv: Sequence[str]) -> socket.socket:
        """Call `Transport.open_stream`. `program` is the Slurm command that `argv` runs."""
        self._count(program)
        return self.transport.open_stream(argv)

    def on_terminal(
        self, folder: PurePosixPath, files: Mapping[str, bytes | Path], argv: Sequence[str]
    ) -> list[str]:
        """Prepare `argv`, which calls srun; see `Transport.on_terminal`."""
        self._count("srun")
        return self.transport.on_terminal(folder, files, argv)

    def srun_version(self) -> SlurmVersion | None:
        """Return srun's version, cached per connection; None if unknown now. `slurm/srun.py`
        selects features by version."""
        said = self._srun("--version")
        return None if said is None else parse_version(said)

    def mpi_types(self) -> tuple[str, ...]:
        """Return the MPI types of srun, best first, cached per connection; () if srun has none or
        does not report them."""
        return srun.parse_mpi_types(self._srun("--mpi=list") or "")

    def max_array_size(self) -> int:
        """Return MaxArraySize, cached per connection. The highest possible index of an array is one
        less. Raise CommandError if scontrol fails."""
        with self._srun_lock:
            connection = self.access.connection
            now = 0 if connection is None else connection.generation
            if self._array_size[0] != now:
                settings = scontrol.parse_config(self.ask(scontrol.config_argv()))
                size = optional_int(settings.get("MaxArraySize", "")) or _USUAL_ARRAY_SIZE
                self._array_size = (now, size)
            return self._array_size[1]

    def _srun(self, option: str) -> str | None:
        with self._srun_lock:
            connection = self.access.connection
            now = 0 if connection is None else connection.generation
            if self._srun_said.get(option, (-1, ""))[0] != now:
                done = self.run(["srun", option])
                if done.returncode != 0:
                    return None
                said = done.stdout + done.stderr  # some releases list MPI types on stderr
                self._srun_said[option] = (now, said.decode(errors="replace"))
            return self._srun_said[option][1]

    def toolchain(self, modules: Sequence[str]) -> Toolchain:
        """Return the login node's programs for installing packages. First load the profile's
        modules and `modules`, and run the profile's `setup`; raise RequestError if that fails. The
        result is cached per connection."""
        plan = ScriptPlan(
            title="toolchain",
            job_dir="/",
            command=("sh", "-c", PROBE, "probe", self.profile.python),
            modules=(*self.profile.modules, *modules),
            setup=self.profile.setup,
            login_shell=self.profile.login_shell,
        )
        text = render_enter(plan)
        with self._toolchains_lock:
            connection = self.access.connection
            now = 0 if connection is None else connection.generation
            known = self._toolchains.get(text)
            if known is None or known[0] != now:
                shell = ["bash", "-l", "-c"] if self.profile.login_shell else ["bash", "-c"]
                limit_s = self.profile.command_timeout_s
                try:
                    done = self.transport.run([*shell, text], timeout_s=limit_s)
                except TimedOutError as exc:
                    raise TransportError(
                        f"The login node of {self.name} does not answer: {exc}."
                    ) from exc
                if done.returncode != 0:
                    raise RequestError(
                        f"Cannot set up the login node of {self.name} to install packages.",
                        hint="Check that the job's modules, and `modules` and `setup` in the "
                        "cluster's profile, also work on the login node.",
                        detail=done.stderr.decode(errors="replace").strip() or None,
                        option="with",
                    )
                known = now, parse_toolchain(done.stdout.decode(errors="replace"))
                self._toolchains[text] = known
            return known[1]

    def _count(self, program: str) -> None:
        with self._lock:
            self._counts[program] += 1


def _silent(name: str, argv: Sequence[str], words: str) -> ControllerError:
    return ControllerError(
        f"Slurm's controller on {name} does not answer `{argv[0]}`.",
        hint="Check the controller with `scontrol ping`.",
        detail=words or None,
    )


def silent_sbatch(name: str, said: str) -> ControllerError:
    """Return the error for a running sbatch that has not answered yet."""
    return ControllerError(
        f"`sbatch` on {name} is still running and has not answered yet.",
        hint="Check the controller with `scontrol ping`.",
        detail=said or None,
    )
