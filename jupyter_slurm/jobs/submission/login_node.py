"""Builds of images and environments on the login node, without Slurm.

These jobs have a folder and a script like all jobs, so that they share the code for output,
attaching and the verdict. Start, cancellation and state differ. A process on the login node, the
keeper, starts the script in its own process group and stops it on request. If the script could not
write the exit file, the keeper writes it. The file `submitted` names the host. The next connection
may reach another login node, where the processes are not visible.
"""

from __future__ import annotations

from jupyter_slurm.errors import ConnectionLostError, SubmitError
from jupyter_slurm.formatting import joined
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.kinds.kind import Files
from jupyter_slurm.jobs.outcome import verdict
from jupyter_slurm.jobs.outcome.verdict import Evidence, Verdict
from jupyter_slurm.jobs.records.registry import JobRegistry
from jupyter_slurm.jobs.submission.prepare import Submission
from jupyter_slurm.jobs.submission.submit import Submitter
from jupyter_slurm.transport import Completed, TimedOutError
from jupyter_slurm.wire import Job, JobState

_TIMEOUT_S = 30.0
_GRACE_S = 20
"""Seconds between TERM and KILL, for the script to remove unpacked files."""

_SINCE_SH = """
since() { # print the start time of process $1 in clock ticks, or nothing if it has ended
  read -r all <"/proc/$1/stat" || return
  all=${all##*) }; [ "${all%% *}" = Z ] && return
  set -- $all; printf %s "${20}"
} 2>/dev/null
"""

# The keeper runs this as the script's process. $1 is the keeper's start time. Only the first
# process that creates the link `submitted` runs the script (ln is atomic, even on NFS). Closing fd
# 3 lets _BEGIN_SH read the file.
_SCRIPT_SH = (
    _SINCE_SH
    + """
boot=$(cat /proc/sys/kernel/random/boot_id)
printf '%s %s %s %s %s %s\\n' "$(uname -n)" "$boot" "$PPID" "$1" $$ "$(since $$)" >"submitted.$$"
ln "submitted.$$" submitted 2>/dev/null; taken=$?
rm -f "submitted.$$"
[ $taken = 0 ] && exec ./job.sh 3>&-
"""
)

# The keeper. $1 is _SCRIPT_SH, and $2 is the number of seconds between TERM and KILL.
_KEEPER_SH = (
    _SINCE_SH
    + """
trap '' HUP
unset SLURM_JOB_ID SLURM_JOB_PARTITION SLURM_JOB_USER SLURM_RESTART_COUNT SLURMD_NODENAME job told
stop() { # signal the script first, as Slurm does, so that it forwards the signal
  kill -TERM "$job"; sleep 1; kill -TERM "-$job"
  left=$2
  while [ "$left" -gt 0 ] && kill -0 "$job"; do sleep 1; left=$((left - 1)); done
  kill -KILL "-$job"
} 2>/dev/null
trap 'told=1; [ -z "$job" ] || stop "$@"' TERM
setsid nice -n 10 sh -c "$1" sh "$(since $$)" &
job=$!
exec 3>&-
[ -z "$told" ] || stop "$@"
while :; do
  wait "$job"; rc=$?
  kill -0 "$job" 2>/dev/null && continue
  wait "$job" 2>/dev/null; last=$?
  case $last in 127 | -1) ;; *) rc=$last ;; esac
  break
done
trap '' TERM
read -r host boot keeper rest <submitted; [ "$keeper" = $$ ] || exit
[ -s exit.0.json ] && exit
kill -KILL "-$job" 2>/dev/null
signal=; [ "$rc" -gt 128 ] && signal=KILL
printf '{"exit_code": %d, "signal": "%s", "time_s": %d}\\n' "$rc" "$signal" "$(date +%s)" \\
  >exit.0.json.partial && mv exit.0.json.partial exit.0.json
"""
)

# Run this in the job's folder. A second run only prints the result of the first.
_BEGIN_SH = """
[ -s submitted ] || : "$(setsid sh -c "$1" sh "$2" "$3" 3>&1 </dev/null >>slurm.out 2>&1 &)"
cat submitted 2>/dev/null || { cat slurm.out >&2; exit 1; }
"""

# Print a line for each pair of arguments VERB and FOLDER. The system reuses process IDs, so a
# process is the same only if start time and boot ID are equal.
_LOOK_SH = (
    _SINCE_SH
    + """
here=$(uname -n) now=$(cat /proc/sys/kernel/random/boot_id)
look() {
  if ! read -r host boot keeper began pid since <"$2/submitted"; then
    if [ -d "${2%/*}" ]; then echo gone; else echo unseen "$here"; fi
  elif [ "$host" != "$here" ]; then echo elsewhere "$here"
  elif [ "$boot" != "$now" ]; then echo gone
  elif [ "$(since "$keeper")" = "$began" ]; then
    echo lives
    [ "$1" = look ] || kill -TERM "$keeper"
  elif [ "$(since "$pid")" = "$since" ]; then
    echo lives
    [ "$1" = look ] || kill -KILL "-$pid"
  else echo gone
  fi
} 2>/dev/null
while [ $# -gt 0 ]; do look "$1" "$2"; shift 2; done
"""
)


class LoginNodeRunner(Submitter):
    """The start of one job on the login node, retried until the job has started."""

    def _hand_over(self, submission: Submission, files: Files) -> Completed:
        argv = ["sh", "-c", _BEGIN_SH, "begin", _KEEPER_SH, _SCRIPT_SH, str(_GRACE_S)]
        deliver = self._cluster.transport.upload_and_run
        try:
            return deliver(self._dir.path, files, argv, timeout_s=_TIMEOUT_S)
        except TimedOutError as exc:
            raise _silent(self._cluster, exc) from exc

    def _judge(self, done: Completed) -> bool:
        host = _host(done.stdout)
        if host is not None:
            return self._settle(host)
        return self._reject(
            SubmitError(
                f"The login node of {self._cluster.name} could not start the job.",
                hint="Check disk space and quota in `job_root` of the cluster's profile.",
                detail=done.stderr.decode(errors="replace").strip() or None,
            )
        )

    def _look_up(self) -> str | None:
        return _host(self._cluster.transport.read(self._dir.submitted) or b"")

    def _learned(self, answer: str) -> dict[str, object]:
        return {"nodes": (answer,)}

    def _cancel(self, answer: str) -> None:
        look(self._registry, self._cluster)


def begun(registry: JobRegistry, cluster: SlurmCluster) -> list[Job]:
    """Return the live jobs of `cluster` that run on a login node."""
    jobs = [record.job for record in registry.live(cluster.name)]
    return [job for job in jobs if job.on_login and job.submitted_s is not None]


def look(registry: JobRegistry, cluster: SlurmCluster) -> list[Job]:
    """Return the jobs of `cluster` whose processes have ended. Stop the jobs that the user
    cancelled, and record which jobs are not visible from this login node. Raises TransportError."""
    jobs = begun(registry, cluster)
    if not jobs:
        return []
    words = [
        word
        for job in jobs
        for word in ("look" if job.cancel_requested_s is None else "cancel", job.job_dir)
    ]
    try:
        done = cluster.transport.run(["sh", "-c", _LOOK_SH, "look", *words], timeout_s=_TIMEOUT_S)
    except TimedOutError as exc:
        raise _silent(cluster, exc) from exc
    said = [line.split(" ") for line in done.stdout.decode(errors="replace").splitlines()]
    gone = []
    for job, (state, *here) in zip(jobs, said, strict=False):
        why = _unseen(job, state, here[0]) if here else None
        registry.found(job, why=why, problem=None, problem_since_s=None)
        if state == "gone":
            gone.append(job)
    return gone


def judge(evidence: Evidence) -> Verdict:
    """Judge a job like `verdict.judge`, but without Slurm's evidence."""
    ended = evidence.exit
    exit_code = ended.exit_code if ended is not None else None
    if evidence.cancel_requested:
        why = joined("Cancelled by you.", verdict.interrupted_at(evidence))
        return Verdict(state=JobState.CANCELLED, why=why, exit_code=exit_code)
    by_itself = ended is not None and ended.signal is None
    if evidence.folder_gone or evidence.unstarted_claim or by_itself:
        return verdict.judge(evidence)
    where = f"the login node {evidence.started.node}" if evidence.started else "a login node"
    why = f"No exit record found. The job was killed on {where}, or that node restarted."
    if ended is not None:
        why = f"Killed by an external signal (SIG{ended.signal}) on {where}."
    return Verdict(
        state=JobState.FAILED,
        why=why,
        advice="Some sites kill long-running processes on the login node, or all "
        'processes after logout. Set `build_on = "job"` in the cluster\'s profile to run builds in '
        "Slurm.",
        exit_code=exit_code,
        inferred=ended is None,
    )


def _host(submitted: bytes) -> str | None:
    words = submitted.decode(errors="replace").split()
    return words[0] if words else None


def _unseen(job: Job, state: str, here: str) -> str:
    what = f"the job's folder is missing on the login node {here}"
    if state == "elsewhere":
        runs = ", ".join(job.nodes)
        what = f"the job runs on the login node {runs}, but the connection now reaches {here}"
    ends = "The job cannot be cancelled"
    if not job.cancel_requested_s:
        ends = "The job's processes are not visible"
    return f"{ends} on this connection: {what}. The job's files will show the outcome."


def _silent(cluster: SlurmCluster, error: TimedOutError) -> ConnectionLostError:
    return ConnectionLostError(f"The login node of {cluster.name} does not answer: {error}.")
