"""2,000 hostile inputs from a fixed seed for each parser of data from other users, jobs and hosts.

A parser returns a value or raises one of our errors, within a memory limit. Its values can be sent
to the browser and shown. Input of one job does not affect others.
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
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from jupyter_slurm import variables
from jupyter_slurm.errors import FileAccessError, JupyterSlurmError, MalformedError
from jupyter_slurm.formatting import visible
from jupyter_slurm.jobs.cluster import queue
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.outcome.result import parse_exit, parse_records, parse_result, parse_started
from jupyter_slurm.jobs.records.registry import JobRegistry, Store
from jupyter_slurm.jobs.watching import usage
from jupyter_slurm.jobs.watching.comparison import Comparison
from jupyter_slurm.jobs.watching.listing import listed_job
from jupyter_slurm.jobs.watching.queue_rows import nodes_of, waits_for
from jupyter_slurm.jobs.watching.watcher import Watch
from jupyter_slurm.kernel import frames
from jupyter_slurm.slurm import (
    sacct,
    scontrol,
    squeue,
    units,
)
from jupyter_slurm.transport import server_text
from jupyter_slurm.untrusted_json import check_json, read_json
from jupyter_slurm.wire import JobKind, JobState, Lab, LabStep
from tests.attacks.hostile import spoilt
from tests.jobs.crowd import listed
from tests.jobs.records.test_registry import record
from tests.slurm.recorded import RELEASES, output

COUNT = 2_000
MOST_BYTES = 48 * 2**20
"""Memory limit for one input. The longest inputs have a few hundred thousand bytes."""
QUICK_S = 0.001
"""A CPU time too short to fill `MOST_BYTES` on any machine. Tracing allocations triples the time,
so only inputs that take longer are parsed again with tracing."""
KEY = b"the job's key"

Parser = Callable[[bytes], object]


def signed(body: bytes) -> bytes:
    signature = hmac.new(KEY, body + b"\n", hashlib.sha256).hexdigest()
    return signature.encode() + b"\n" + body + b"\n"


# --- the parsers, including the use of their values ---


def rows_of_the_queue(data: bytes) -> object:
    rows = squeue.parse(data)
    for row in rows:
        with_nodes(row)
    return [(listed_job(row, "here", mine=False), waits_for(row)) for row in rows]


def with_nodes(row: squeue.QueueRow) -> tuple[str, ...]:
    try:
        return nodes_of(row)
    except MalformedError:
        return ()


def rows_of_accounting(data: bytes) -> object:
    rows = sacct.parse(data)
    return sacct.summarise(rows), [queue._listed_job(row, "here") for row in rows]


def lab(data: bytes) -> object:
    job = record(
        "labjoblb",
        kind=JobKind.LAB,
        lab=Lab(step=LabStep.WAITING, port=1, url="http://localhost:1"),
    ).job
    return kind_of(job).progress(job, data)


def variables_as_data(data: bytes) -> object:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vars.0"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("values.json", data)
        return variables.read_variables(path, ["a"], "data")[1]


def every(*parsers: Callable[[str], object]) -> Parser:
    return lambda data: [parser(data.decode(errors="replace")) for parser in parsers]


def lines_of(name: str, most: int = 1, separator: bytes = b"\n") -> list[bytes]:
    """Return the first and last recorded lines of each release."""
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
LAB = b'{"step": "ready", "python": [3, 11, 2], "idle_since_s": 1.5}\n'
USAGE = b'{"time_s": 1795200000.5, "cpus": 1.5, "memory_mib": 12.5, "gpus": []}\n'
EVENT = b'{"event": "died", "status": -9, "again": true}'
VALUES = b'{"a": {"dict": [["b", {"tuple": [1, {"bytes": "AA=="}, {"scalar": ["<u1", "AA=="]}]}]]}}'
PARSERS: Mapping[str, tuple[Parser, list[bytes]]] = {
    "squeue": (rows_of_the_queue, records_of("squeue_all")),
    "sacct": (rows_of_accounting, lines_of("sacct")),
    "scontrol show job": (scontrol.parse_jobs, lines_of("scontrol_gpu")),
    "node lists": (every(units.parse_nodelist), [b"n[001-003,7],gpu1", b"a[1-2]b[3,4-9]"]),
    "started.N.json": (parse_started, [STARTED]),
    "exit.N.json": (parse_exit, [EXIT]),
    "result.N.json, signed": (lambda data: parse_result(signed(data), KEY), [RESULT]),
    "output.N.jsonl": (parse_records, [RECORDS]),
    "lab.N.jsonl": (lab, [LAB, LAB + LAB]),
    "usage.N.jsonl": (usage.parse_samples, [USAGE]),
    "variables as data": (variables_as_data, [VALUES]),
    "a kernel's events": (frames.event, [EVENT]),
    "a host's words": (server_text.shown, [b"Password for a@b:\n", b"Verification code: "]),
}  # fmt: skip
THEIR_ERRORS: Mapping[str, type[Exception]] = {"node lists": ValueError}
"""The type of error that a parser may raise besides ours. Users type node lists, too."""


@pytest.mark.parametrize("name", PARSERS)
def test_hostile_input_raises_only_our_errors_and_needs_little_memory(name: str) -> None:
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
    """Return the peak memory of one parse."""
    tracemalloc.start()
    try:
        with suppress(*ours):
            parser(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


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


# --- input of one job does not affect others ---


class Seat:
    """A JobRegistry of two jobs, `bad` before `good`, and their watcher."""

    def __init__(self, folder: Path) -> None:
        self.registry = JobRegistry(Store(folder))
        for number, name in enumerate(("bad", "good")):
            self.registry.add(
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
        self.watch = Watch(self.registry, self.cluster)
        self.files: dict[PurePosixPath, bytes | Exception] = {}

    def compare(self, rows: bytes) -> None:
        for number, name in ((0, "bad"), (2, "good")):
            rows = rows.replace(f"jslurm:job{number:05}".encode(), f"jslurm:{name}".encode())
        jobs = [one.job for one in self.registry.live("c")]
        Comparison(self.registry, self.cluster, self.watch).compare(jobs, squeue.parse(rows), 2.0)

    # The methods of a transport that `Watch` uses.

    def user(self) -> str:
        return "me"

    def grown(self, sizes: Mapping[PurePosixPath, int], **_: object) -> dict[PurePosixPath, int]:
        """Return all files and an unrequested file on the first call, and later an empty result."""
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


def test_unreadable_row_affects_only_its_job(seat: Seat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jupyter_slurm.jobs.watching.comparison.ask_allocation", lambda *_: None)
    good = listed(3)
    for hostile in (b"gpu[1-999999999]", b"n[[1]]", b"-oProxyCommand=id", b"n\x1b[31m"):
        seat.compare(good.replace(b"node000", hostile))
        problem = seat.registry.job("bad").problem
        assert problem is not None
        assert problem.message == "Cannot read the cluster's data about this job."
        assert problem.detail is not None
        assert problem.detail.isprintable()
        now = seat.registry.job("good")
        assert (now.state, now.problem, now.nodes) == (JobState.RUNNING, None, ("node002",))
        seat.registry.change("good", state=JobState.PENDING, nodes=())
    seat.compare(good)
    assert seat.registry.job("bad").problem is None


@pytest.mark.parametrize(
    "hostile",
    [
        b'{"x": ' + b"[" * 100_000,
        FileAccessError("It is a folder."),
    ],
    ids=["nested", "folder"],
)
def test_unreadable_file_affects_only_its_job(seat: Seat, hostile: bytes | Exception) -> None:
    paths = [JobDir(PurePosixPath(f"/jobs/{name}")).started(0) for name in ("bad", "good")]
    seat.files = dict(zip(paths, (hostile, STARTED), strict=True))
    seat.watch._watch_files()
    now = seat.registry.job("good")
    assert (now.state, now.problem, now.nodes) == (JobState.RUNNING, None, ("n1",))
    bad = seat.registry.job("bad")
    assert bad.state is JobState.PENDING
    assert (bad.problem is not None) == isinstance(hostile, Exception)


def test_deeply_nested_and_long_json_is_rejected() -> None:
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
