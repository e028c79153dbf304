"""Cells run as in a job: with the runner's files in a folder, in a separate process."""

from __future__ import annotations

import functools
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.kinds.cell import cloudpickle_zip, runner_files, task
from jupyter_slurm.jobs.outcome.result import RunnerResult, parse_records, parse_result
from jupyter_slurm.variables import (
    check_signature,
    read_variables,
    write_variables,
)
from jupyter_slurm.wire import (
    CellSpec,
    DisplayData,
    ErrorOutput,
    ExecuteResult,
    OutFormat,
    Output,
    Stream,
)

# This interpreter without installed packages, and so without IPython and cloudpickle.
BARE = (sys.executable, "-I", "-S", "-u")
FULL = (sys.executable, "-u")


@functools.cache
def _matplotlib_folder() -> str:
    """Return the folder with this machine's font cache. Without it, a cell first builds the cache,
    and prints a message if that takes more than 5 s."""
    from matplotlib import font_manager, get_cachedir  # takes a second

    assert font_manager.fontManager.ttflist
    return get_cachedir()


@dataclass
class Run:
    """The files of a finished cell."""

    exit_code: int
    stderr: str
    outputs: list[Output]
    job_dir: Path
    key: bytes
    result: RunnerResult = field(init=False)

    def __post_init__(self) -> None:
        self.result = parse_result((self.job_dir / "result.0.json").read_bytes(), self.key)

    @property
    def shown(self) -> list[Output]:
        """All records after the initial hello. Adjacent records of a stream are joined, without
        times."""
        joined: list[Output] = []
        for output in self.outputs[1:]:
            last = joined[-1] if joined else None
            if not isinstance(output, Stream):
                joined.append(output)
            elif isinstance(last, Stream) and last.name == output.name:
                joined[-1] = Stream(name=last.name, text=last.text + output.text)
            else:
                joined.append(Stream(name=output.name, text=output.text))
        return joined

    def text(self, name: str = "stdout") -> str:
        streams = (output for output in self.outputs if isinstance(output, Stream))
        return "".join(output.text for output in streams if output.name == name)

    @property
    def displays(self) -> list[DisplayData]:
        return [output for output in self.outputs if isinstance(output, DisplayData)]

    @property
    def value(self) -> dict[str, object]:
        """The bundle of the last expression's value."""
        [found] = [output for output in self.outputs if isinstance(output, ExecuteResult)]
        return found.data

    @property
    def error(self) -> ErrorOutput:
        [found] = [output for output in self.outputs if isinstance(output, ErrorOutput)]
        return found

    def variables(self) -> dict[str, object]:
        """Return the readable output variables, read as the notebook reads them."""
        return self.read_variables()[0]

    def read_variables(self) -> tuple[dict[str, object], dict[str, str]]:
        told = self.result.variables
        assert told is not None
        check_signature(self.variables_file, self.key, told.hmac)
        task = json.loads((self.job_dir / layout.TASK).read_bytes())
        return read_variables(self.variables_file, told.names, task["out_format"] or "auto")

    @property
    def variables_file(self) -> Path:
        assert self.result.variables is not None
        assert self.result.variables.file is not None
        return self.job_dir / self.result.variables.file


class Runner:
    """The folder of one job and its cell."""

    def __init__(self, job_dir: Path) -> None:
        self.job_dir = job_dir
        self.env: dict[str, str] = {}
        self.cwd: str | None = None
        self.key = secrets.token_hex(32).encode()

    def prepare(
        self,
        cell: str,
        *,
        names_in: Mapping[str, object] | None = None,
        names_out: Sequence[str] = (),
        out_format: OutFormat | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> None:
        """Write the job's files. `env` and `cwd` are those that a batch script would set."""
        self.env, self.cwd = dict(env or {}), cwd
        self.job_dir.mkdir(mode=0o700)
        spec = CellSpec(
            id="k3j9x2m1",
            name="cell",
            code=cell,
            names_out=tuple(names_out),
            out_format=out_format,
        )
        files = {
            layout.CELL: cell.encode("utf-8", "surrogatepass"),
            layout.TASK: task(spec),
            layout.KEY: self.key,
            layout.CLOUDPICKLE: cloudpickle_zip(),
            **runner_files(variables=bool(names_in or names_out)),
        }
        for name, data in files.items():
            (self.job_dir / name).write_bytes(data)
        if names_in:
            write_variables(self.job_dir / layout.INPUTS, list(names_in), names_in)

    def start(self, python: Sequence[str] = FULL) -> subprocess.Popen[str]:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.job_dir),
            "LANG": "C.UTF-8",
            "MPLCONFIGDIR": _matplotlib_folder(),
        }
        environment |= self.env
        return subprocess.Popen(
            [*python, "-B", str(self.job_dir / "runner.py"), str(self.job_dir), "0"],
            cwd=self.cwd or self.job_dir.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process: subprocess.Popen[str]) -> Run:
        _, stderr = process.communicate(timeout=120)
        outputs, _ = parse_records((self.job_dir / "output.0.jsonl").read_bytes())
        return Run(process.returncode, stderr, outputs, self.job_dir, self.key)


class RunCell(Protocol):
    def __call__(self, cell: str, *, python: Sequence[str] = FULL, **options: object) -> Run: ...
