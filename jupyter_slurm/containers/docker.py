"""Runtimes `docker`, `sudo-docker` and `podman`: their flags and ways, and nothing of Slurm's but
what a job's environment says.

What had to be known (tried with 20.10; docker-run(1), podman-run(1)):
- The engine is a daemon: a container is no child of the job. It outlives a client that is killed,
  unless it notices that its standard input has ended, which the engine closes with the client. So
  a pipe leads there whose other end the job holds, and who reads it inside ends everything.
- As process 1 a program ignores SIGTERM that it does not handle: --init.
- Nothing of the job's environment, user, CPUs, memory and GPUs holds inside of itself. `--gpus all`
  would be all of the node's: they are named, by UUID, which is right whether or not cgroups hide
  the others. The value is read as CSV and must be quoted for more than one.
- Values of variables do not go by the command line, which everybody on the node can read, nor by
  --env-file, which knows no newline: they are written to a file that is read inside.
- /dev/shm has 64 MB: --ipc=host.
"""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Sequence

from jupyter_slurm.containers.references import Reference
from jupyter_slurm.containers.runtime import Box, Explained, Launch, Mount, in_workdir, without_nul
from jupyter_slurm.errors import RequestError

_ENVIRONMENT = "node.sh"

# $1 the job dir, $2 how many words lead to the engine, they, its options, --, the image, the
# program inside.
_START = r"""
dir=$1 count=$2; shift 2
engine=
while [ "$count" -gt 0 ]; do engine="$engine $1"; shift; count=$((count - 1)); done
attempt=${SLURM_RESTART_COUNT:-0}
name=jslurm-$SLURM_JOB_ID-$attempt
say() { printf 'jupyter-slurm: %s\n' "$1" >&2; }

set -- --name "$name" --label "slurm.job=$SLURM_JOB_ID" --user "$(id -u):$(id -g)" "$@"
for group in $(id -G); do set -- --group-add "$group" "$@"; done
[ -d "$HOME" ] && set -- --volume "$HOME:$HOME" "$@"
cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
[ -n "$cpus" ] && set -- --cpuset-cpus "$cpus" "$@"
memory=${SLURM_MEM_PER_NODE:-$((${SLURM_MEM_PER_CPU:-0} * ${SLURM_CPUS_ON_NODE:-0}))}
[ "$memory" -gt 0 ] && set -- --memory "${memory}m" "$@"
limit=$(ulimit -l)
[ "$limit" = unlimited ] && limit=-1 || limit=$((limit * 1024))
set -- --ulimit "memlock=$limit" "$@"
case ${CUDA_VISIBLE_DEVICES:-} in '' | NoDevFiles) ;; *)
  if command -v nvidia-smi >/dev/null; then
    gpus=$(nvidia-smi -i "$CUDA_VISIBLE_DEVICES" --query-gpu=uuid --format=csv,noheader) || {
      say "nvidia-smi does not know the GPUs of this job ($CUDA_VISIBLE_DEVICES)"; exit 66
    }
    gpus=$(printf '%s' "$gpus" | tr '\n' ,)
    CUDA_VISIBLE_DEVICES=$gpus; export CUDA_VISIBLE_DEVICES
    set -- --gpus "\"device=$gpus\"" "$@"
  fi ;;
esac
umask 077
awk 'BEGIN {
  told = "^(SLURM_[A-Z0-9_]*|CUDA_VISIBLE_DEVICES|HOME|USER|LOGNAME|TZ)$"
  for (name in ENVIRON) if (name ~ told) {
    value = ENVIRON[name]; gsub(/\047/, "\047\\\047\047", value)
    printf "export %s=\047%s\047\n", name, value
  }
}' >"$dir/node.sh" || exit 74

fifo=$dir/stdin.$attempt
rm -f "$fifo"; mkfifo "$fifo" || exit 74
exec 9<>"$fifo"
hand_on() { $engine kill --signal "$1" "$name" >/dev/null 2>&1; }
for signal in TERM INT USR1 USR2; do trap "hand_on $signal" "$signal"; done
$engine run --rm --interactive --init "$@" <"$fifo" 9>&- &
client=$!
while :; do
  wait "$client"; rc=$?
  kill -0 "$client" 2>/dev/null && continue
  wait "$client" 2>/dev/null; last=$?
  [ "$last" = 127 ] || rc=$last
  break
done
trap '' TERM INT
rm -f "$fifo"
# A client that was killed leaves a container, which is about to end.
[ "$rc" -gt 128 ] && $engine rm --force "$name" >/dev/null 2>&1
exit "$rc"
"""

# Inside, before the program: its input is empty, and the end of the pipe is the end of everything
# but process 1, which ends then too.
_DEAD_MAN = """exec 3<&0 </dev/null
( trap '' TERM INT USR1 USR2; while read -r line <&3; do :; done; kill -KILL -1 ) 3<&3 &
exec 3<&-
"""

_OPTIONS = (
    # An image's entrypoint prints banners, or runs something else than it is told.
    "--entrypoint=/bin/sh",
    "--network=host",
    "--ipc=host",
    "--workdir=/",
)

_ERRORS = re.compile(
    r"^(?:docker|podman|Error)?(?:: )?(?:Error response from daemon|Error): (.*?)\.?$"
    r"|^(?:docker: |ERROR: )?(Cannot connect to the Docker daemon.*?)\.?$"
    r"|^(?:docker: )?(Got permission denied while trying to connect.*?)\.?$"
    r"|^(sudo: .*?)$",
    re.MULTILINE,
)


class Docker:
    """`words` lead to the engine: `docker`, or `sudo -n docker` where users may not ask it."""

    takes_image = True
    image_suffixes: tuple[str, ...] = ()

    def __init__(self, name: str, words: Sequence[str], options: Sequence[str] = ()) -> None:
        self.name = name
        self._words = tuple(words)
        self._options = tuple(options)

    def fetched(self, reference: Reference) -> str | None:
        return str(reference)

    def job_dir(self, box: Box) -> str:
        return box.job_dir

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        if box.image is None:
            raise RequestError(
                f"The runtime {self.name} needs an image.",
                hint="Say --image NAME, or --runtime none for the node's own Python.",
            )
        image = without_nul(box.image, "the image's name")
        if image.startswith("/"):
            raise RequestError(
                f"{self.name} takes images by name, not the file {image}.",
                hint="Load it on the node (`docker load`), and say its name.",
            )
        mounts = [Mount(box.job_dir, box.job_dir), *box.mounts]
        inside = in_workdir(argv, box, box.job_dir, _DEAD_MAN + f". {_quoted(box)}\n")
        return Launch(
            (
                "/bin/sh",
                "-c",
                _START,
                "sh",
                box.job_dir,
                str(len(self._words)),
                *self._words,
                *_OPTIONS,
                *self._options,
                *map(_mount, mounts),
                image,
                *inside[1:],
            )
        )

    def check_argv(self) -> list[str]:
        return [*self._words, "version", "--format", "{{.Server.Version}}"]

    def explain(self, log_tail: str) -> Explained | None:
        errors = ["".join(found) for found in _ERRORS.findall(log_tail)]
        if not errors:
            return None
        what, advice = _advice(errors[-1])
        return Explained(f"{what}: {errors[-1]}.", advice)


DOCKERS = (
    Docker("docker", ("docker",)),
    Docker("sudo-docker", ("sudo", "-n", "docker")),
    # Files belong to whom they do outside; labels would need what users may not do.
    Docker("podman", ("podman",), ("--userns=keep-id", "--security-opt=label=disable")),
)


def _quoted(box: Box) -> str:
    return shlex.quote(f"{box.job_dir}/{_ENVIRONMENT}")


def _mount(mount: Mount) -> str:
    """CSV, so that a comma or a quote in a path is one."""
    fields = [
        "type=bind",
        f"src={without_nul(mount.src, 'the path to mount')}",
        f"dst={without_nul(mount.dst, 'the mount point')}",
        *(["readonly"] if mount.read_only else []),
    ]
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return f"--mount={line.getvalue()}"


def _advice(error: str) -> tuple[str, str]:
    for pattern, what, advice in (
        (
            r"Cannot connect|Is the docker daemon running",
            "The container engine does not answer",
            "Its daemon does not run on this node: tell the administrators, or exclude the node "
            "with --exclude.",
        ),
        (
            r"permission denied while trying to connect|sudo:",
            "You may not use the container engine there",
            "Ask the administrators for the group `docker`; where it is `sudo docker`, say "
            "--runtime sudo-docker.",
        ),
        (
            r"unauthorized|authentication required|access denied|denied:",
            "The registry does not let you have the image",
            "Is its name right? A private one needs `docker login` on the node.",
        ),
        (
            r"not found|manifest unknown|No such image|Unable to find",
            "There is no such image",
            "Look at its name and tag.",
        ),
        (
            r"dial tcp|no such host|timeout|TLS handshake|request canceled",
            "The registry cannot be reached from the node",
            "Load the image on the node beforehand, or name a mirror in the profile's [images].",
        ),
        (
            r"no space left",
            "There is no room for the image on the node",
            "Ask for unused images to be removed (`docker image prune`).",
        ),
        (
            r"exec format error|does not match the detected host platform|no matching manifest",
            "The image is for another kind of processor",
            "Look for one for the nodes' own (`uname -m` there).",
        ),
        (
            r"could not select device driver",
            "The node's engine cannot hand GPUs to containers",
            "The NVIDIA container toolkit is missing there: tell the administrators.",
        ),
        (
            r"executable file not found|no such file or directory: unknown",
            "The image has no such program",
            "It needs /bin/sh and python3: try another image.",
        ),
        (
            r"bind source path does not exist|invalid mount",
            "Something to be mounted is not on the node",
            "What --mount names must exist on the node.",
        ),
    ):
        if re.search(pattern, error):
            return what, advice
    return "The container engine has failed", "The sentence is its own."
