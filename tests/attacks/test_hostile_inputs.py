"""Ten thousand hostile inputs through each parser of what comes from a cluster, from a fixed seed.

A parser gives a value or raises an error of ours; it takes no more memory than it should; what it
gives can be sent to the browser, and made visible. One job's input stops no other job's watcher.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import tempfile
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from jupyter_slurm.commands.notebooks import MIME, Executed, marker_of
from jupyter_slurm.containers import RUNTIMES, image_folder
from jupyter_slurm.containers.making import MAKERS
from jupyter_slurm.errors import FileAccessError, JupyterSlurmError, MalformedError
from jupyter_slurm.foreign import check_json, read_json
from jupyter_slurm.jobs.cluster import describe, files, probe, queue
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.outcome import variables
from jupyter_slurm.jobs.outcome.result import parse_exit, parse_records, parse_result, parse_started
from jupyter_slurm.jobs.outcome.verdict import Evidence, SlurmVerdict, judge
from jupyter_slurm.jobs.preflight import offers
from jupyter_slurm.jobs.records.book import Book
from jupyter_slurm.jobs.records.store import Store
from jupyter_slurm.jobs.watching import usage
from jupyter_slurm.jobs.watching.comparison import Comparison
from jupyter_slurm.jobs.watching.queue_rows import entry_of, nodes_of, waits_for
from jupyter_slurm.jobs.watching.watcher import Watch
from jupyter_slurm.kernel import node_messages
from jupyter_slurm.profiles.profile import Storage
from jupyter_slurm.readable import visible
from jupyter_slurm.slurm import (
    partitions,
    reasons,
    rejections,
    sacct,
    sacctmgr,
    sbatch,
    scontrol,
    sinfo,
    squeue,
    sstat,
    units,
    versions,
)
from jupyter_slurm.transport import Completed, server_text
from jupyter_slurm.transport.shell.far_shell import ShellAnswer, ShellGoneError, introduction
from jupyter_slurm.transport.shell.helper import completed
from jupyter_slurm.wire import JobKind, JobState, Lab, LabStep
from tests.attacks.hostile import spoilt
from tests.jobs.crowd import listed
from tests.jobs.records.test_book import record
from tests.slurm.recorded import RELEASES, output, stderr

COUNT = 2_000
MOST_BYTES = 48 * 2**20
"""Of memory for one input; the longest are a few hundred thousand bytes."""
QUICK_S = 0.001
"""Of processor time: no machine fills so much memory in it. Tracing each allocation takes three
times as long as parsing, so only what was not so quick is parsed again with that."""
KEY = b"the job's key"

Parser = Callable[[bytes], object]


def signed(body: bytes) -> bytes:
    signature = hmac.new(KEY, body + b"\n", hashlib.sha256).hexdigest()
    return signature.encode() + b"\n" + body + b"\n"


# --- the parsers, each as far as what it gives is shown or sent ---


def rows_of_the_queue(data: bytes) -> object:
    rows = squeue.parse(data)
    for row in rows:
        with_nodes(row)
    return [(entry_of(row, None, is_mine=False), waits_for(row)) for row in rows]


def with_nodes(row: squeue.QueueRow) -> tuple[str, ...]:
    try:
        return nodes_of(row)
    except MalformedError:
        return ()


def rows_of_accounting(data: bytes) -> object:
    rows = sacct.parse(data)
    return sacct.summarise(rows), [queue._ended_entry(row, {}) for row in rows]


def rows_of_nodes(data: bytes) -> object:
    rows = sinfo.parse_nodes(data)
    return offers._nodes(rows), offers.gpus_by_type(rows)


def settings_of_partitions(data: bytes) -> object:
    return [offers._partition(one, []) for one in partitions.parse_partitions(data).values()]


def allowed(data: bytes) -> object:
    return [
        offers._association(row, whole=True) for row in sacctmgr.parse_associations(data)
    ]  # fmt: skip


def facts_of_the_machine(data: bytes) -> object:
    profile = SimpleNamespace(
        job_root="~/x", python="python3", image_dirs=(), images={}, storage=Storage()
    )
    return probe.probe(cast("Any", profile), (), lambda _: Completed(0, data, b"")).facts


def files_of_a_folder(data: bytes) -> object:
    there = cast("Any", SimpleNamespace(run=lambda _: Completed(0, data, b"")))
    return files._find(there, "/d", []), files._entry(there, "/d")


def lab(data: bytes) -> object:
    job = record(
        "labjoblb",
        kind=JobKind.LAB,
        lab=Lab(step=LabStep.WAITING, port=1, url="http://localhost:1"),
    ).job
    return kind_of(job).progress(job, data)


def verdict(data: bytes) -> object:
    text = data.decode(errors="replace")
    started, ended = parse_started(data), parse_exit(data)
    return [
        judge(
            Evidence(
                kind=kind,
                runtime=runtime,
                started=started,
                exit=ended,
                slurm=slurm,
                log_tail=text,
                slurm_out=text,
            )
        )
        for kind, runtime, slurm in (
            (JobKind.CELL, "apptainer", SlurmVerdict(state=JobState.FAILED, exit_code=255)),
            (JobKind.KERNEL, "none", None),
        )
    ]


def executed_notebook(data: bytes) -> object:
    """Behind a notebook that has begun; what comes may begin another."""
    executed = Executed()
    for one in [*parse_records(NOTEBOOK)[0], *parse_records(data)[0]]:
        executed.add(one, "text")
        marker = marker_of(one)
        if marker is not None and marker.error is not None:
            marker.error.output()
    text = executed.text()
    assert text is not None
    return json.loads(text)["cells"]


def variables_as_data(data: bytes) -> object:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vars.0"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("values.json", data)
        return variables.read_variables(path, ["a"], "data")[1]


def every(*parsers: Callable[[str], object]) -> Parser:
    return lambda data: [parser(data.decode(errors="replace")) for parser in parsers]


def lines_of(name: str, most: int = 1, separator: bytes = b"\n") -> list[bytes]:
    """The first and the last record that was recorded of each release."""
    samples = []
    for release in RELEASES:
        records = [text for text in output(release, name).split(separator) if text]
        samples += [separator.join([*part, b""]) for part in (records[:most], records[-most:])]
    return samples


def records_of(name: str) -> list[bytes]:
    return lines_of(name, 2, b"\x1e\n")


STARTED = b'{"slurm_id": "12", "node": "n1", "time_s": 1795200000}'
EXIT = b'{"exit_code": 137, "signal": "TERM", "time_s": 1795200000}'
RESULT = json.dumps(
    {
        "status": "error",
        "exit_code": 1,
        "ename": "ValueError",
        "evalue": "x",
        "traceback": ["a", "b"],
        "started_s": 1.5,
        "ended_s": 2.5,
        "peak_rss_mib": 10.0,
        "cpu_s": 1.0,
        "python": [3, 11, 2],
        "variables": {"file": "vars.0", "bytes": 3, "hmac": "ab", "names": ["a"], "failed": {}},
    }
).encode()
RECORDS = (
    b'{"type": "stream", "name": "stdout", "text": "a\\n"}\n'
    b'{"type": "display_data", "data": {"text/html": "<b>", "application/json": {"a": [1, {}]}},'
    b' "metadata": {}}\n'
)
_CELL = {"cell_type": "code", "source": "1", "metadata": {"trusted": True}, "outputs": []}
NOTEBOOK = b"".join(
    json.dumps({"type": "display_data", "data": {MIME: said}, "metadata": {}}).encode() + b"\n"
    for said in (
        {"notebook": {"nbformat": 4, "metadata": {"widgets": {}}, "cells": [_CELL, _CELL]}},
        {"cell": 1},
        {"error": {"ename": "E", "evalue": "x", "traceback": ["a"]}},
    )
)
LAB = b'{"step": "ready", "python": [3, 11, 2], "idle_since_s": 1.5}\n'
USAGE = b'{"time_s": 1795200000.5, "cpus": 1.5, "memory_mib": 12.5, "gpus": []}\n'
LOG = (
    b"slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***\n"
    b"slurmstepd: error: Detected 1 oom_kill event(s) in StepId=12.batch\n"
    b"FATAL:   could not open image /x.sif: no such file\nbash: python3: command not found\n"
)
ASSOCIATIONS = b"alpha|acct|acct||normal,long|normal|1-00:00:00|cpu=4|gres/gpu=2|3|4|5|6\n"
QOS = b"a|DenyOnLimit|1-00:00:00|cpu=4|gres/gpu=2|mem=4G|1|2|3|4\n"
RESERVATION = (
    b"ReservationName=m StartTime=1795200000 EndTime=1795300000 Duration=1-00:00:00 "
    b"Nodes=n[1-4] NodeCnt=4 Flags=MAINT,SPEC_NODES State=INACTIVE Comment=x\n"
)
PARTITION = (
    b"PartitionName=debug AllowGroups=ALL AllowAccounts=ALL AllowQos=a,b Default=YES QoS=N/A "
    b"DefaultTime=NONE Hidden=NO MaxNodes=UNLIMITED MaxTime=1-00:00:00 Nodes=n[1-2] State=UP "
    b"OverSubscribe=EXCLUSIVE TRESBillingWeights=CPU=1.0,Mem=0.25G,GRES/gpu=2.0\n"
)
WELCOME = b'{"boot": "a", "got": 1, "next": 2, "info": {"a": [1]}, "count": 1, "busy": false}'
EVENT = b'{"event": "died", "status": -9, "again": true}'
FILES = b"wd\t4096\t1795200000.1234567890\td\0-f\t12\t1795200000.0\ta b.py\0"
IMAGE = b'{"name": "a", "digest": "b", "base": "c", "file": "a.sif", "made_s": 1.5, "size_kib": 3}'
VALUES = b'{"a": {"dict": [["b", {"tuple": [1, {"bytes": "AA=="}, {"scalar": ["<u1", "AA=="]}]}]]}}'
PARSERS: Mapping[str, tuple[Parser, list[bytes]]] = {
    "squeue": (rows_of_the_queue, records_of("squeue_all")),
    "squeue of use": (
        squeue.parse_use,
        [b"RUNNING\x1fnormal\x1facct\x1fdebug\x1fcpu=1,mem=2G,gres/gpu=1\x1e\n"],
    ),
    "sacct": (rows_of_accounting, lines_of("sacct")),
    "sacct's fields": (sacct.parse_fields, lines_of("sacct_mine")),
    "scontrol show job": (scontrol.parse_jobs, lines_of("scontrol_gpu")),
    "scontrol show config": (scontrol.parse_config, lines_of("scontrol_config", 5)),
    "scontrol show partition": (settings_of_partitions, [PARTITION]),
    "scontrol show reservation": (partitions.parse_reservations, [RESERVATION]),
    "sinfo's nodes": (rows_of_nodes, records_of("sinfo_nodes")),
    "sinfo's partitions": (sinfo.parse_partitions, records_of("sinfo_partitions")),
    "sstat": (sstat.parse, lines_of("sstat")),
    "sacctmgr's associations": (allowed, [ASSOCIATIONS]),
    "sacctmgr's QOS": (sacctmgr.parse_qos, [QOS]),
    "sbatch": (sbatch.parse, [b"Welcome!\n1234;alpha\n", b"1234\n"]),
    "sbatch --test-only": (
        sbatch.parse_test_only,
        [stderr(release, "sbatch_test_only").encode() for release in RELEASES],
    ),
    "what sbatch refuses": (
        every(rejections.explain_rejection),
        [stderr(release, "sbatch_qos").encode() for release in RELEASES],
    ),
    "reasons": (
        every(partial(reasons.explain, job_id="12", partition="p")),
        [b"ReqNodeNotAvail, UnavailableNodes:n[1-4]", b"QOSMaxGRESPerUser", b"Priority,Resources"],
    ),
    "values": (
        every(
            versions.parse_version,
            units.parse_tres,
            units.gpus_in_tres,
            units.parse_epoch,
            units.parse_duration_s,
            units.parse_exit,
        ),
        [b"slurm-wlm 22.05.8", b"cpu=4,mem=64G,gres/gpu:a100=2", b"gpu:a100:4(S:0-1),gpu:2",
         b"1795200000", b"2026-01-01T00:00:00", b"1-02:03:04.500", b"1:15"],
    ),
    "node lists": (every(units.parse_nodelist), [b"n[001-003,7],gpu1", b"a[1-2]b[3,4-9]"]),
    "what a probe finds": (facts_of_the_machine, [b"host\tn1\nprogram\tsbatch\t/usr/bin/sbatch\n"]),
    "folders of a cluster": (
        lambda data: describe._folders(data, alone=False),
        [b"$HOME\tyes\tnfs4\t1048576\t/home/alice\n/scratch/$USER\t\txfs\t\t/scratch/alice\n"],
    ),
    "what a container tool says": (
        every(*(tool.explain for tools in (RUNTIMES, MAKERS) for tool in tools.values())),
        [LOG, *(b"jupyter-slurm: " + LOG, b"pyxis: imported image\n[ERROR] " + LOG)],
    ),
    "a shell's first words": (
        every(introduction),
        [b"0c1d7a3e-5f2b-4d7e-9a51-1b2c3d4e5f60 71 5300 70 5200", b"- 71 5300", b"-"],
    ),
    "how a command has ended": (
        lambda data: completed(
            ShellAnswer(data.decode(errors="replace"), data, b""), "x"
        ).returncode,
        [b"0", b"137", b"missing", b"denied"],
    ),
    "started.N.json": (parse_started, [STARTED]),
    "exit.N.json": (parse_exit, [EXIT]),
    "result.N.json, signed": (lambda data: parse_result(signed(data), KEY), [RESULT]),
    "result.N.json": (lambda data: parse_result(data, KEY), [signed(RESULT)]),
    "output.N.jsonl": (parse_records, [RECORDS]),
    "an executed notebook": (executed_notebook, [NOTEBOOK + RECORDS, NOTEBOOK]),
    "lab.N.jsonl": (lab, [LAB, LAB + LAB]),
    "usage.N.jsonl": (usage.parse_samples, [USAGE]),
    "variables as data": (variables_as_data, [VALUES]),
    "a verdict": (verdict, [LOG, STARTED, EXIT]),
    "a kernel's welcome": (node_messages.welcome, [WELCOME]),
    "a kernel's events": (node_messages.event, [EVENT]),
    "a folder's files": (files_of_a_folder, [FILES, FILES * 2]),
    "records of images": (image_folder.read_record, [IMAGE]),
    "a host's words": (server_text.shown, [b"Password for a@b:\n", b"Verification code: "]),
    "any JSON": (lambda data: read_json(data, dict), [RESULT, RECORDS, WELCOME]),
}  # fmt: skip
THEIR_ERRORS: Mapping[str, type[Exception]] = {
    "node lists": ValueError,
    "a shell's first words": ShellGoneError,
}
"""By contract: people type node lists, too; the caller that opens a shell reports its errors."""


@pytest.mark.parametrize("name", PARSERS)
def test_no_input_raises_what_is_not_ours_or_takes_much_memory(name: str) -> None:
    parser, samples = PARSERS[name]
    ours = (JupyterSlurmError, THEIR_ERRORS.get(name, JupyterSlurmError))
    for data in spoilt(name, samples, COUNT):
        began_s = time.thread_time()
        try:
            value = parser(data)
        except ours as exc:
            value = exc.problem() if isinstance(exc, JupyterSlurmError) else str(exc)
        if time.thread_time() - began_s > QUICK_S:
            assert peak_bytes(parser, data, ours) < MOST_BYTES, data[:300]
        sent = msgspec.json.encode(value, enc_hook=_sent).decode()
        if "\\" in sent or not sent.isprintable():
            for text in texts(value):
                assert text.isprintable() or visible(text).isprintable(), data[:300]


def peak_bytes(parser: Parser, data: bytes, ours: tuple[type[Exception], ...]) -> int:
    """The most memory that it takes."""
    tracemalloc.start()
    try:
        with suppress(*ours):
            parser(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_what_takes_much_memory_takes_longer_than_what_is_not_looked_at_again() -> None:
    """The quickest ways to so much: one block, and one list."""
    for fill in (lambda: b"x" * MOST_BYTES, lambda: [None] * (MOST_BYTES // 8)):
        taken_s = []
        for _ in range(5):
            began_s = time.thread_time()
            fill()
            taken_s.append(time.thread_time() - began_s)
        assert min(taken_s) > QUICK_S


def _sent(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes | PurePosixPath):
        return str(value)
    raise NotImplementedError(type(value))


def texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case msgspec.Struct():
            for name in value.__struct_fields__:
                yield from texts(getattr(value, name))
        case dict() | Mapping():
            for one in value.items():
                yield from texts(one)
        case tuple() | list():
            for one in value:
                yield from texts(one)
        case _ if dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                yield from texts(getattr(value, field.name))
        case _:
            pass


# --- one job's input stops no other's watcher ---


class Seat:
    """A Book of two jobs, `bad` before `good`, and what watches them."""

    def __init__(self, folder: Path) -> None:
        self.book = Book(Store(folder))
        for number, name in enumerate(("bad", "good")):
            self.book.add(
                record(
                    name,
                    slurm_id=str(1_000_000 + 2 * number),
                    submitted_s=1.0,
                    job_dir=f"/jobs/{name}",
                )
            )
        self.cluster = cast(
            "SlurmCluster",
            SimpleNamespace(
                name="c",
                transport=self,
                ask=lambda _: listed(3, user="another"),
                profile=SimpleNamespace(lost_after_s=60.0, poll_s=0.01),
            ),
        )
        self.watch = Watch(self.book, self.cluster)
        self.files: dict[PurePosixPath, bytes | Exception] = {}

    def compare(self, rows: bytes) -> None:
        for number, name in ((0, "bad"), (2, "good")):
            rows = rows.replace(f"jslurm:job{number:05}".encode(), f"jslurm:{name}".encode())
        jobs = [one.job for one in self.book.live("c")]
        Comparison(self.book, self.cluster, self.watch).compare(jobs, squeue.parse(rows), 2.0)

    # What `Watch` asks of a transport.

    def user(self) -> str:
        return "me"

    def grown(self, sizes: Mapping[PurePosixPath, int], **_: object) -> dict[PurePosixPath, int]:
        """All that there is at once, and one that was not asked for; then there is no more."""
        if all(sizes.get(path) for path in self.files):
            self.watch._stop.set()
            return {}
        return {PurePosixPath("/elsewhere"): 1, **dict.fromkeys(self.files, 1)}

    def read(self, path: PurePosixPath, *_: object) -> bytes:
        found = self.files[path]
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def seat(tmp_path: Path) -> Seat:
    return Seat(tmp_path)


def test_a_row_that_cannot_be_read_is_that_jobs_problem(
    seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_slurm.jobs.watching.comparison.ask_allocation", lambda *_: None)
    good = listed(3)
    for hostile in (b"gpu[1-999999999]", b"n[[1]]", b"-oProxyCommand=id", b"n\x1b[31m"):
        seat.compare(good.replace(b"node000", hostile))
        problem = seat.book.job("bad").problem
        assert problem is not None
        assert problem.message == "What the cluster says of this job cannot be read."
        assert problem.detail is not None
        assert problem.detail.isprintable()
        now = seat.book.job("good")
        assert (now.state, now.problem, now.nodes) == (JobState.RUNNING, None, ("node002",))
        seat.book.change("good", state=JobState.PENDING, nodes=())
    seat.compare(good)
    assert seat.book.job("bad").problem is None


def test_another_users_job_with_our_jobs_id_is_not_ours(seat: Seat) -> None:
    """As after Slurm's ids have begun anew, on a cluster that was set up again."""
    jobs = [one.job for one in seat.book.live("c")]
    assert seat.watch._list(jobs, everyone=True) == []
    assert len(seat.watch._list(jobs, everyone=False)) == 2, "Slurm has listed them by the user"
    told = seat.watch.listing.changes("", 0.0, everyone=True)
    assert [(entry.user, entry.id) for entry in told.entries] == [("another", None)] * 3


@pytest.mark.parametrize(
    "hostile",
    [
        b'{"x": ' + b"[" * 100_000,
        FileAccessError("It is a folder."),
        RuntimeError("a fault of ours"),
    ],
    ids=["nested", "folder", "fault"],
)
def test_a_file_that_cannot_be_read_is_that_jobs_problem(
    seat: Seat, hostile: bytes | Exception
) -> None:
    paths = [JobDir(PurePosixPath(f"/jobs/{name}")).started(0) for name in ("bad", "good")]
    seat.files = dict(zip(paths, (hostile, STARTED), strict=True))
    seat.watch._watch_files()
    now = seat.book.job("good")
    assert (now.state, now.problem, now.nodes) == (JobState.RUNNING, None, ("n1",))
    bad = seat.book.job("bad")
    assert bad.state is JobState.PENDING
    assert (bad.problem is not None) == isinstance(hostile, Exception)


def test_nested_and_endless_json_breaks_a_cap_and_not_the_reader() -> None:
    for text in (
        b"[" * 100_000,
        b'{"a":' * 65 + b"1" + b"}" * 65,
        b"[" + b"[]," * 1_000_000 + b"1]",
    ):
        with pytest.raises(MalformedError):
            read_json(text, list)
    with pytest.raises(MalformedError):
        check_json(b" " * 100, most_bytes=99)
    html = json.dumps({"text/html": '\\"[{' * 100_000}).encode()
    assert read_json(html, dict)["text/html"].startswith('\\"[{')
