"""What a cluster offers and what is wrong with it, in sentences: `jupyter slurm doctor`.

Looks and judges; changes nothing, submits nothing. Its only way to the cluster is the `run` that it
is given, which runs a command with the environment of the profile. A few commands are all it costs.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from jupyter_slurm.containers import RUNTIMES
from jupyter_slurm.errors import JupyterSlurmError, LoginNeededError
from jupyter_slurm.jobs.cluster.probe import (
    SHARED,
    Found,
    Run,
    ask,
    due_days,
    file_paths,
    is_alone,
    probe,
)
from jupyter_slurm.jobs.preflight.partition_facts import differences
from jupyter_slurm.profiles.profile import ClusterProfile, Storage
from jupyter_slurm.readable import counted, date_and_time, size, visible
from jupyter_slurm.slurm import scontrol, sinfo, versions
from jupyter_slurm.slurm.fields import optional_int
from jupyter_slurm.slurm.rejections import explain_rejection
from jupyter_slurm.transport import TimedOutError
from jupyter_slurm.wire import Check, ClusterInfo

_NEEDED = ("sbatch", "squeue", "scontrol", "scancel", "sinfo")
_PROGRAMS = (
    *_NEEDED,
    *sorted({one for tool in RUNTIMES.values() for one in tool.programs if one[0] != "-"}),
)
_LOGIN_FILES = Check(
    ok=False,
    sentence="The login files end a job before its code begins: an `exec`, an `exit`, or a PATH "
    "without the system's programs.",
    hint="Set `login_shell = false` in the cluster's profile, or have the files (/etc/profile, "
    "~/.bash_profile) do that in a terminal only.",
)
_OLDEST = versions.SlurmVersion(20, 11, 0)
_OLDEST_PYTHON = (3, 6)


def examine(profile: ClusterProfile, run: Run) -> list[Check]:
    """Check what works on this cluster and what does not, the basics first. LoginNeededError."""
    try:
        found = probe(profile, _PROGRAMS, run)
    except LoginNeededError:
        raise
    except (JupyterSlurmError, TimedOutError) as exc:
        sentence = f"The cluster cannot be reached: {exc}"
        return [Check(ok=False, sentence=sentence, hint=_hint(profile))]
    checks = list(_commands(found))
    alone = False
    if all(check.ok is not False for check in checks):
        controller = _controller(profile, run)
        checks.append(controller)
        if controller.ok:
            alone = is_alone(found, run)
            checks += _configuration(profile, run)
            checks += _nodes(run)
    if profile.login_shell and found.login_files_end:
        checks.append(_LOGIN_FILES)
    checks += _job_root(found, alone)
    checks += _others_in_job_root(found)
    checks += _erased_soon(profile.storage, found)
    checks += _runtimes(profile, found, alone)
    checks += _images(profile, found)
    return checks


def examine_records(set_aside: Sequence[Path]) -> Iterator[Check]:
    """Yield a check for each job record here, of any cluster, that could not be read."""
    for path in set_aside:
        yield Check(
            ok=False,
            sentence=f"The record of job {path.name.split('.')[0]} cannot be read, so that the "
            f"job is not shown: {path}.",
            hint="Restore the file, which is read again when the agent starts, or remove it. The "
            "job itself goes on; `squeue` on its cluster shows it.",
        )


def examine_partitions(profile: ClusterProfile, info: ClusterInfo) -> Iterator[Check]:
    """Compare the profile's partitions with those that the cluster has."""
    found = list(differences(profile, info))
    for sentence in found:
        yield Check(
            ok=None,
            sentence=sentence,
            hint=f"Change it in {profile.origin}; a job is judged by what the cluster says.",
        )
    if profile.partitions and not found:
        names = ", ".join(profile.partitions)
        sentence = f"The profile's partitions are as it says: {names}."
        yield Check(ok=True, sentence=sentence)


# --- judging ----------------------------------------------------------------------------------


def _commands(found: Found) -> Iterator[Check]:
    missing = [name for name in _NEEDED if not found.programs([name])]
    if missing:
        yield Check(
            ok=False,
            sentence=f"Slurm's commands are not found: {', '.join(missing)}.",
            hint="Put their folder into `path` of the cluster's profile.",
        )
    else:
        where = found.facts["program"]["sbatch"]
        sentence = f"Slurm's commands are there ({where})."
        yield Check(ok=True, sentence=sentence)


def _controller(profile: ClusterProfile, run: Run) -> Check:
    try:
        done = run(["scontrol", "ping"])
    except (JupyterSlurmError, TimedOutError) as exc:
        sentence = f"slurmctld does not answer: {exc}."
        return Check(ok=False, sentence=sentence, hint=_hint(profile))
    text = (done.stdout + done.stderr).decode("utf-8", "replace")
    if " is UP" in text:
        return Check(ok=True, sentence="The controller (slurmctld) answers.")
    known = explain_rejection(text)
    if known is not None and known.known:
        return Check(ok=False, sentence=known.sentence, hint=profile.hint or known.advice)
    sentence = f"slurmctld does not answer: {' '.join(text.split())}"
    return Check(ok=False, sentence=sentence, hint=_hint(profile))


def _hint(profile: ClusterProfile) -> str:
    conf = profile.env.get("SLURM_CONF")
    return profile.hint or (
        "On a private cluster: `jupyter slurm up`. Elsewhere wait, or ask the administrators"
        f"{f'; SLURM_CONF is {conf}' if conf else ''}."
    )


def _configuration(profile: ClusterProfile, run: Run) -> Iterator[Check]:
    text = ask(run, scontrol.config_argv())
    if text is None:
        yield Check(ok=None, sentence="Slurm does not show its configuration to you.")
        return
    config = scontrol.parse_config(text)
    yield _version(config.get("SLURM_VERSION", ""))
    accounting = config.get("AccountingStorageType", "").endswith("slurmdbd")
    if accounting:
        yield Check(ok=True, sentence="Accounting is on: what jobs used is kept, and shown.")
    else:
        yield Check(
            ok=None,
            sentence="Accounting is off: what scripts and programs used, and who cancelled jobs, "
            "is not known; everything else works.",
        )
    yield from _memory_of_jobs(profile, config.get("MinJobAge", ""), accounting=accounting)


def _version(text: str) -> Check:
    version = versions.parse_version(text)
    if version is None:
        return Check(ok=None, sentence=f"Slurm's version is unknown ({text or 'not reported'}).")
    if version < _OLDEST:
        return Check(
            ok=None,
            sentence=f"Slurm is {text}, older than what this was tested with (20.11).",
            hint="It may well work; newer options of sbatch do not.",
        )
    return Check(ok=True, sentence=f"Slurm is {text}.")


def _memory_of_jobs(
    profile: ClusterProfile, min_job_age: str, *, accounting: bool
) -> Iterator[Check]:
    """Check MinJobAge: how long slurmctld remembers a job that has ended (slurm.conf(5))."""
    words = min_job_age.split()
    seconds = optional_int(words[0]) if words else None
    if seconds is None:
        return
    if seconds >= 2 * profile.poll_s or seconds == 0:
        return
    yield Check(
        ok=True if accounting else None,
        sentence=f"Slurm forgets a job {seconds} s after it ends (MinJobAge), and the agent asks "
        f"Slurm every {profile.poll_s:g} s. "
        f"{'Accounting fills' if accounting else 'Job files fill'} the gap.",
    )


def _nodes(run: Run) -> Iterator[Check]:
    text = ask(run, sinfo.partitions_argv())
    partitions = sinfo.parse_partitions(text) if text else []
    up = [row.name + ("*" if row.is_default else "") for row in partitions if row.is_up]
    if up:
        names = ", ".join(dict.fromkeys(up))
        sentence = f"Partitions: {names} (*: default)."
        yield Check(ok=True, sentence=sentence)
    else:
        yield Check(ok=False, sentence="No partition is open to you.", hint="See `sinfo -a`.")
    nodes = {row.name: row for row in sinfo.parse_nodes(ask(run, sinfo.nodes_argv()) or "")}
    out = [name for name, row in nodes.items() if not row.takes_jobs]
    if not nodes:
        yield Check(ok=False, sentence="No node is open to you.", hint="See `sinfo -a -N`.")
        return
    if out:
        some = ", ".join(out[:5]) + (" …" if len(out) > 5 else "")
        yield Check(
            ok=None if len(out) < len(nodes) else False,
            sentence=f"{len(out)} of {len(nodes)} nodes cannot be used now: {some}.",
            hint="`sinfo -R` says why.",
        )
    gpus = sum(row.gpus or 0 for row in nodes.values())
    yield Check(
        ok=True if gpus else None,
        sentence=f"GPUs on {counted(len(nodes), 'node')}: {gpus}."
        if gpus
        else "No node has a GPU.",
    )


def _job_root(found: Found, alone: bool) -> Iterator[Check]:
    root = next(iter(found.facts.get("filesystem", {})), "")
    kind = found.one("filesystem")
    if not found.one("writable"):
        yield Check(
            ok=False,
            sentence=f"Jobs live in {root}, which you cannot write.",
            hint="Set `job_root` in the cluster's profile to a folder that you can write and that "
            "every node sees.",
        )
        return
    free_kib = optional_int(found.one("free_kib"))
    if free_kib is not None and free_kib < 1024 * 1024:
        yield Check(
            ok=False,
            sentence=f"{root} has only {free_kib // 1024} MiB left.",
            hint="Remove old files there, or set another `job_root`.",
        )
    if alone or kind.startswith(SHARED):
        sentence = f"Jobs live in {root}, which every node sees ({kind})."
        yield Check(ok=True, sentence=sentence)
    else:
        yield Check(
            ok=None,
            sentence=f"Jobs live in {root}, on a file system ({kind or 'unknown'}) that "
            "other machines may not see.",
            hint="Unless the nodes mount it, set `job_root` to a shared folder.",
        )


def _others_in_job_root(found: Found) -> Iterator[Check]:
    """Check who else may write where jobs live: a job's own folder is 0700, but a user who may
    write to one above it can put another in its place, unless a sticky bit prevents it."""
    root = next(iter(found.facts.get("filesystem", {})), "")
    uid, own_group = next(iter(found.facts.get("me", {}).items()), ("", ""))
    for folder, told in found.facts.get("rights", {}).items():
        letters, owner, group = [*told.split(), "", "", ""][:3]
        by_group = letters[5:6] == "w" and (group != own_group or letters.endswith("+"))
        by_all = letters[8:9] == "w"
        if owner in (uid, "0") and (letters[9:10] in ("t", "T") or not (by_group or by_all)):
            continue
        who = "Everybody there" if by_all else "Its group" if by_group else "Its owner"
        yield Check(
            ok=False if by_all else None,
            sentence=f"{who} can put another folder in the place of {root}, and what lies in that "
            f"would run as you: {folder} is {letters}.",
            hint="Set `job_root` to a folder that only you can write, as those above it; where "
            "others have to write, `chmod +t` keeps them from what is yours.",
        )
    last = next(iter(found.facts.get("rights", {}).values()), "")
    if last[10:11] == "+":
        yield Check(
            ok=None,
            sentence=f"{root} has an ACL ({last.split()[0]}): job folders are created so that "
            "only their owner has access, whatever the ACL grants.",
            hint="`getfacl` shows it. Files that jobs write elsewhere are as the ACL says.",
        )
    if found.one("filesystem") == "afs":
        yield Check(
            ok=None,
            sentence=f"{root} is on AFS, where `chmod` does not say who may read.",
            hint="`fs listacl` shows who may: the key of each job lies there.",
        )


def _erased_soon(storage: Storage, found: Found) -> Iterator[Check]:
    """Check which files the site will soon erase."""
    old_days = due_days(storage)
    for scratch, told in found.facts.get("old", {}).items():
        count, size_bytes, cut = (optional_int(one) or 0 for one in told.split())
        rule = (
            f"The site erases files in {scratch} {storage.purge_days} days after their last change"
        )
        if not count:
            found_none = "a search of 10 s found none that is" if cut else "none is"
            sentence = f"{rule}; {found_none} {old_days} days old."
            yield Check(ok=None if cut else True, sentence=sentence)
            continue
        path, changed_s = next(iter(found.facts["oldest"].items()))
        erased_s = int(changed_s) + storage.purge_days * 24 * 3600
        folder = shlex.quote(visible(str(PurePosixPath(path).parent)))
        yield Check(
            ok=None,
            sentence=f"{rule}. Older than {old_days} days: "
            f"{'at least ' if cut else ''}{counted(count, 'file')} ({size(size_bytes)}). The first "
            f"to go is {visible(path)}, on {date_and_time(erased_s)}.",
            hint=f"`%slurm pull {folder}` copies a folder to this machine.",
        )


def _runtimes(profile: ClusterProfile, found: Found, alone: bool) -> Iterator[Check]:
    there = [name for name, tool in RUNTIMES.items() if found.programs(tool.programs[:1])]
    if found.one("module"):
        there.append("environment modules")
    yield Check(
        ok=True if there else None,
        sentence=f"Found here: {', '.join(there)}." if there else "Found no container tool here.",
    )
    yield _python(profile, found, alone)
    programs = RUNTIMES[profile.runtime].programs if profile.runtime in RUNTIMES else ()
    if programs and not found.programs(programs):
        names = " or ".join(programs)
        yield Check(
            ok=False if alone else None,
            sentence=f"The runtime {profile.runtime} of this cluster is not found here ({names}).",
            hint=None if alone else "If the nodes have it, all is well.",
        )
    if profile.modules and not found.one("module"):
        yield Check(ok=None, sentence="The profile loads modules, but there is no `module` here.")


def _python(profile: ClusterProfile, found: Found, alone: bool) -> Check:
    text = found.one("python")
    parts = [optional_int(part) for part in text.split(".")]
    if len(parts) == 2 and None not in parts:
        old = tuple(part or 0 for part in parts) < _OLDEST_PYTHON
        return Check(
            ok=not old,
            sentence=f"Cells without an image run in {profile.python} (Python {text} here)"
            f"{', which is too old: 3.6 is needed' if old else ''}.",
            hint="Set `python` in the cluster's profile." if old else None,
        )
    return Check(
        ok=False if alone else None,
        sentence=f"`{profile.python}`, in which cells without an image run, does not run here.",
        hint="Set `python` in the cluster's profile to an interpreter that the nodes have.",
    )


def _images(profile: ClusterProfile, found: Found) -> Iterator[Check]:
    there = found.facts.get("path", {})
    for alias, reference in profile.images.items():
        if reference in file_paths(profile) and reference not in there:
            yield Check(
                ok=False,
                sentence=f"The image `{alias}` is not where the profile says: {reference}.",
                hint="Build or copy it there, or change `images` in the profile.",
            )
    for folder in profile.image_dirs:
        if folder.startswith(("/", "~")) and folder not in there:
            sentence = f"There is no image folder {folder}."
            yield Check(ok=False, sentence=sentence)
    if profile.images:
        names = ", ".join(sorted(profile.images))
        yield Check(ok=True, sentence=f"Images by name: {names}.")
