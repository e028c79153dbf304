"""`jupyter slurm lab start|open|stop|list`: a JupyterLab on a node, in this machine's browser."""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from jupyter_slurm.api import Api
from jupyter_slurm.cli.command import Connect
from jupyter_slurm.cli.environment import with_values
from jupyter_slurm.cli.first_word import Commands, by_first_word
from jupyter_slurm.cli.jobs import cluster_name
from jupyter_slurm.cli.preview import preview_text
from jupyter_slurm.cli.say import note, say
from jupyter_slurm.cli.table import as_json, in_words_of_a_terminal, table
from jupyter_slurm.cli.terminal import Terminal
from jupyter_slurm.client import lab_page
from jupyter_slurm.commands import labs, sessions
from jupyter_slurm.commands.scanner import OurOption, take
from jupyter_slurm.errors import RequestError
from jupyter_slurm.job import placed
from jupyter_slurm.jobs.kinds import jobs_of
from jupyter_slurm.views import card
from jupyter_slurm.wire import Job, JobKind, LabStep, Output, new_id

_WAIT_S = 20.0
_TICK_S = 2.0
_OWN: Mapping[str, OurOption] = MappingProxyType(
    {**labs.OWN, "no-browser": OurOption("", "only say where it is")}
)
_USAGE = """\
usage: jupyter slurm lab start [OPTIONS]   a JupyterLab as a job, and open it when it is ready
       jupyter slurm lab open [NAME]       open it in the browser (the newest)
       jupyter slurm lab extend [NAME] --time +1h   give it more time, where Slurm allows that
       jupyter slurm lab stop [NAME …]     end it (the newest)
       jupyter slurm lab list [--json]     those that there are

NAME is that of a lab on the cluster of `--cluster NAME`, or the id of any.
OPTIONS are those of `submit`, and
  --idle TIME    it ends after so long without anybody's doing anything in it (the profile's
                 `idle_s`, an hour)
  --install      where the image has no JupyterLab: install one beside it, once
  --detach       do not wait for it
  --no-browser   only say where it is (also for `open`)
"""


def lab(args: Namespace, connect: Connect) -> int:
    return by_first_word("lab", args.words, _COMMANDS, _USAGE, connect)


def _start(words: Sequence[str], connect: Connect) -> int:
    rest, no_browser = take(words, "no-browser", _OWN)
    request, spec = labs.start(with_values(rest, os.environ, labs.OWN), job_id=new_id())
    cluster = request.cluster or cluster_name(Namespace(cluster=None))
    spec = placed(msgspec.structs.replace(spec, cluster=cluster))
    api = connect()
    if request.dry_run:
        say(preview_text(api.preview(spec)))
        return 0
    job = api.submit(spec)
    if request.detach:
        note(f"{card.title(job)} is {job.state}: `jupyter slurm lab open {job.id}`\n")
        say(f"{job.id}\n")
        return 0
    return open_lab(api, job, browser=not no_browser)


def _open(words: Sequence[str], connect: Connect) -> int:
    rest, no_browser = take(words, "no-browser", _OWN)
    names, cluster = _asked(rest)
    if len(names) > 1:
        raise RequestError("`lab open` opens one lab.")
    api = connect()
    job = labs.named(api.jobs(), names[0] if names else None, cluster)
    return open_lab(api, job, browser=not no_browser)


def open_lab(api: Api, job: Job, *, browser: bool) -> int:
    """Waits until it is ready, says where it is, and opens it; gives the exit code."""
    try:
        job, unsaid = ready(api, job)
    except KeyboardInterrupt:
        note(f"\n{card.title(job)} goes on; `jupyter slurm lab stop {job.id}` ends it.\n")
        raise
    if job.state.final or job.lab is None:
        terminal = Terminal(sys.stdout, sys.stderr)
        for output in unsaid:
            terminal.output(output)
        terminal.close()
        note(in_words_of_a_terminal(card.plain(job, time.time())) + "\n")
        return 1
    if (place := labs.below_a_hub(job)) is not None:
        say(f"{place}\n")
        return 0
    page = lab_page.write(job, api.lab_entry(job.id))
    say(f"{job.lab.url}\n")
    sys.stdout.flush()
    if not (browser and lab_page.show(page)):
        note(f"Open {page} in a browser of this machine: it logs in there.\n")
    return 0


def ready(api: Api, job: Job) -> tuple[Job, list[Output]]:
    """Once it lets somebody in, or has ended; how far it is is told, and what tools say that fetch
    the image or install. What else it has put out is given back: what an end is explained by."""
    terminal = Terminal(sys.stderr, sys.stderr)
    cursor, said, end = "", None, False
    unsaid: list[Output] = []
    try:
        while not (job.state.final or labs.is_ready(job)):
            terminal.progress(job)
            wait_s = _TICK_S if terminal.live and job.started_s is None else _WAIT_S
            chunk = api.logs(job.id, cursor, wait_s=wait_s)
            job, cursor, end = chunk.job, chunk.cursor, chunk.end
            if job.lab is not None and job.lab.step in (LabStep.WAITING, LabStep.INSTALLING):
                for output in chunk.outputs:
                    terminal.output(output)
            else:
                unsaid += chunk.outputs
            step = labs.step(job)
            if step is not None and step != said:
                terminal.note(step)
                said = step
        while job.state.final and not end:
            chunk = api.logs(job.id, cursor, budget_bytes=None)
            cursor, end = chunk.cursor, chunk.end
            unsaid += chunk.outputs
    finally:
        terminal.close()
    return job, unsaid


def _stop(words: Sequence[str], connect: Connect) -> int:
    names, cluster = _asked(words)
    api = connect()
    jobs = api.jobs()
    for job in [labs.named(jobs, name, cluster) for name in names or (None,)]:
        say(f"{card.told_to_end(api.cancel(job.id))}\n")
    lab_page.remove_old(api.jobs())
    return 0


def _extend(words: Sequence[str], connect: Connect) -> int:
    rest, cluster = _asked(words)
    name, limit = labs.extension(rest)
    api = connect()
    job = api.extend(labs.named(api.jobs(), name, cluster).id, limit)
    say(labs.extended(job, time.time()) + "\n")
    return 0


def _asked(words: Sequence[str]) -> tuple[list[str], str | None]:
    """Return the words without `--cluster`, and the cluster that they or this shell name."""
    rest, cluster = sessions.take_cluster(words)
    return rest, cluster_name(Namespace(cluster=cluster))


def _list(words: Sequence[str], connect: Connect) -> int:
    if [word for word in words if word != "--json"]:
        raise RequestError("`lab list` takes nothing but --json.")
    jobs = connect().jobs()
    lab_page.remove_old(jobs)
    found = jobs_of(JobKind.LAB, jobs)
    if words:
        say(as_json(found))
    elif found:
        now_s = time.time()
        rows = [list(labs.row(job, now_s)) for job in found]
        say(table([name.upper() for name in labs.HEAD], rows))
    else:
        say("You have no labs: `jupyter slurm lab start`\n")
    return 0


_COMMANDS: Commands = MappingProxyType(
    {"start": _start, "open": _open, "extend": _extend, "stop": _stop, "list": _list}
)
