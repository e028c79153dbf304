"""The launcher of a job on many nodes. No I/O.

The batch script runs `node/launch.py` on the first node, outside any image, instead of the job's
program. On all nodes, srun starts the engine in the image, either through the script `engine` or in
a container of the step.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
from pathlib import Path

import msgspec

from jupyter_slurm.containers import Box, Launch
from jupyter_slurm.containers.none import NoContainer
from jupyter_slurm.containers.runtime import HasSteps
from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.kinds.kind import RANKED, Files, node_files
from jupyter_slurm.jobs.submission.resolve import Resolved
from jupyter_slurm.wire import CellSpec, SessionSpec

_TASKS = frozenset(("ntasks", "ntasks-per-node", "ntasks-per-gpu"))
"""Options that set the number of ranks. Without them each GPU has one rank."""

_GPUS = frozenset("gpus gres gpus-per-node gpus-per-socket gpus-per-task tres-per-task".split())
"""Options that request GPUs. In a job with these options, a step gets the job's GPUs without
requesting them."""

_RUNNERS = ("runner_ranks", "runner_engine")


def launch(job: Resolved) -> Launch:
    """Return the script's command for the launcher. Raise RequestError if the runtime cannot run
    MPI."""
    if job.spec.launch == "mpi" and not job.runtime.has_mpi:
        raise RequestError(
            f"`--launch mpi` does not work with {job.runtime.name}: MPI cannot reach Slurm from "
            "the containers.",
            hint="Use `--launch torchrun` or another runtime.",
            option="launch",
        )
    folder = str(job.job_dir.path)
    words = [job.python, "-uBS", f"{folder}/{layout.LAUNCHER}", folder, "{attempt}"]
    return NoContainer().launch(words, Box(job_dir=folder, workdir=folder))


def files(job: Resolved, in_image: Launch, box: Box, inside: str) -> Files:
    """Return the launcher's files except `engine`. `in_image` starts a program in the image;
    `inside` is the job's folder in the image."""
    spec, runtime = job.spec, job.runtime
    program = job.kind.rank_runner if spec.launch in RANKED else job.kind.runner
    assert program is not None
    plan = {
        "engine": spec.launch,
        "is_ranked": spec.launch in RANKED,
        "runner": program,
        "has_result": job.kind.has_result or job.kind.accepts_cells,
        "has_requeue": "requeue" in job.options,
        "inside": inside,
        "in_image": job.in_image,
        "step": runtime.step(box) if isinstance(runtime, HasSteps) else None,
        "pid_file": in_image.pid_file,
        "by_task": not _TASKS.isdisjoint(job.options),
        "has_asked_for_gpus": not _GPUS.isdisjoint(job.options),
        "interface": job.profile.interface or None,
        "mpi": spec.mpi if isinstance(spec, CellSpec | SessionSpec) else None,
        "mpi_types": job.site.mpi_types or ("none",),
        "has_overlap": job.site.has_overlap,
        "max_restarts": spec.max_restarts if isinstance(spec, CellSpec) else 0,
    }
    ours = ("launch", "private_folder", "runner.", *_RUNNERS, program)
    found: dict[str, bytes | Path] = {layout.KEY: b"", layout.LAUNCH: msgspec.json.encode(plan)}
    for one in ours:
        found |= node_files(one)
    if spec.launch == "dask":
        found |= {layout.CERTIFICATE: b"", layout.CERTIFICATE_KEY: b""}
    return found


def dask_certificate(key: bytes) -> tuple[bytes, bytes]:
    """Return a certificate and its private key in PEM format, derived from the job's key.

    Dask authenticates by TLS alone, and an image may lack a tool that creates certificates. Only
    processes that have this self-signed certificate accept it.
    """
    from cryptography import x509  # noqa: PLC0415 - 40 ms, for Dask only
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415

    secret = hmac.new(key, b"certificate", hashlib.sha256).digest()
    private = ed25519.Ed25519PrivateKey.from_private_bytes(secret)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "jupyter-slurm job")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(1)
        # The certificate is valid regardless of the nodes' clocks and the job's waiting time.
        .not_valid_before(datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC))
        .not_valid_after(datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(private, None)
    )
    return made.public_bytes(serialization.Encoding.PEM), private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
