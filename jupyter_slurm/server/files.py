"""Jobs from files of this server, and their output as files.

The server's contents manager reads and writes the files, so its rules and hooks apply.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from jupyter_core.utils import ensure_async
from jupyter_server.services.contents.fileio import FileManagerMixin
from jupyter_server.services.contents.manager import ContentsManager
from tornado.web import HTTPError

from jupyter_slurm.api import Api
from jupyter_slurm.commands import headless, line
from jupyter_slurm.commands.arguments import job_spec, read_arguments, starting
from jupyter_slurm.commands.line import with_local_context
from jupyter_slurm.commands.notebooks import Executed, executed_name
from jupyter_slurm.commands.parsing import words_of
from jupyter_slurm.errors import CodeError, RequestError
from jupyter_slurm.job import log_pages
from jupyter_slurm.jobs.kinds import KINDS, kind_of
from jupyter_slurm.jobs.preflight import syntax
from jupyter_slurm.wire import (
    CellSpec,
    ErrorOutput,
    Job,
    JobKind,
    JobSpec,
    Output,
    Preview,
    Stream,
    new_id,
)


class LineWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `%%slurm` line with code or a file."""

    line: str
    code: str = ""
    path: str | None = None
    """The file to run instead of `code`, relative to the contents' root."""
    kind: JobKind | None = None
    notebook: str | None = None
    """The notebook of the cell, relative to the contents' root."""
    id: str | None = None
    """The job's ID; None for a new job."""


class FileWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file to submit as a job."""

    path: str
    """The file's path, relative to the contents' root."""
    line: str = ""
    id: str | None = None
    """The job's ID, so that a repeated request is the same job; None for a new job."""


class JobWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request for the executed notebook of a job."""

    job_id: str


class Written(msgspec.Struct, frozen=True):
    """The path of the written file."""

    path: str


class Folders:
    """Local paths of the server's contents."""

    def __init__(self, contents: ContentsManager, *, pushes: bool = True) -> None:
        """`pushes`: True if the user is allowed to push any local folder."""
        self.contents = contents
        self._pushes = pushes

    @property
    def root(self) -> Path:
        """Return the contents' root. Raise RequestError if the contents are not local files."""
        if not isinstance(self.contents, FileManagerMixin):
            raise RequestError(
                "The files of this Jupyter server are not on its own disk, so they cannot be run "
                "as jobs.",
                hint="Run the cells with `%%slurm`.",
            )
        return Path(str(self.contents.root_dir)).absolute()

    def local(self, path: str) -> Path:
        """Return the local path. Raise RequestError if it is outside the root."""
        parts = [part for part in path.split("/") if part]
        if ".." in parts:
            raise RequestError(f"{path} is outside the server's root folder.")
        return self.root.joinpath(*parts)

    def shown(self, path: str) -> str:
        """Return the file's path in the contents. Raise RequestError if it is outside the root."""
        try:
            return Path(path).relative_to(self.root).as_posix()
        except ValueError as exc:
            raise RequestError(
                f"{path} is outside the server's root folder.",
                hint=f"The root folder is {self.root}.",
            ) from exc

    def placed(self, spec: JobSpec, folder: Path) -> JobSpec:
        """Return the spec for `folder`. Raise NotFoundError if the folder to push or the file of
        packages is missing. Raise HTTPError if the user is not allowed to push, and so must not
        find out which folders and files exist."""
        packages = spec.environment
        reads = packages is not None and (packages.mine or packages.file is not None)
        if (spec.push is not None or reads) and not self._pushes:
            needs = "`--push`, `--requirements` and `--with-mine` need"
            raise HTTPError(403, f"{needs} permission to execute on this server.")
        cluster = spec.cluster or os.environ.get("JUPYTER_SLURM_CLUSTER") or None
        return with_local_context(msgspec.structs.replace(spec, cluster=cluster), folder)

    async def text(self, path: str) -> str:
        """Return a file's content. Raise HTTPError if the file is missing, hidden, or not text."""
        model = await ensure_async(
            self.contents.get(path, content=True, type="file", format="text")
        )
        content: str = model["content"]
        return content

    async def save(self, path: str, notebook: dict[str, Any]) -> None:
        model = {"type": "notebook", "format": "json", "content": notebook}
        await ensure_async(self.contents.save(model, path))


def line_spec(api: Api, folders: Folders, wish: LineWish) -> JobSpec:
    """Return the job of a `%%slurm` line and a cell's text. Raises RequestError or
    NotFoundError."""
    notebook = None if wish.notebook is None else folders.local(wish.notebook)
    words = words_of(wish.line, {})
    called = None if notebook is None else os.fspath(notebook)
    job_id = wish.id or new_id()
    # #SBATCH lines do not turn a notebook cell into a batch script.
    by_text = headless.by_text if notebook is None else line.by_text
    made = None if wish.kind is None else KINDS[wish.kind].spec
    spec: JobSpec
    if made is not None and (command := starting(made)):
        _, spec = job_spec(made, read_arguments(command, words), job_id=job_id, notebook=called)
    else:
        # Options that only cells accept need a notebook.
        plain = notebook is None
        asked = headless.request(words) if plain else line.parse_with_arguments(words)
        request = headless.resolved(api, asked, called)
        made = made or by_text(wish.code, request.options)
        if made is CellSpec:
            made = line.of_cell(wish.code, request)
        spec = line.spec(made, request, wish.code, job_id=job_id, notebook=called)
    return folders.placed(spec, folders.root if notebook is None else notebook.parent)


def file_spec(api: Api, folders: Folders, wish: FileWish, text: str) -> JobSpec:
    """Return the job that runs a file with the content `text`. Raises RequestError or
    NotFoundError, or CodeError if it does not compile."""
    file = folders.local(wish.path)
    request = headless.resolved(api, headless.request(words_of(wish.line, {})))
    shown = PurePosixPath(wish.path.strip("/"))
    job_id = wish.id or new_id()
    spec = folders.placed(
        headless.file_spec(shown, os.fspath(file), text, request, job_id=job_id), file.parent
    )
    error = syntax.fault_of_file(shown, text) if kind_of(spec).is_python else None
    if error is not None and syntax.is_certain(error, text, spec, api.jobs(spec.cluster)):
        raise CodeError(syntax.sentence(error), detail=syntax.text(error), option="code")
    return spec


def file_job(api: Api, folders: Folders, wish: FileWish, text: str) -> Job:
    """Submit the file with the content `text`. Raises RequestError or SubmitError."""
    return api.submit(file_spec(api, folders, wish, text))


def outlook(api: Api, spec: JobSpec) -> Preview:
    """Return the preview of the job."""
    return api.preview(spec)


def executed(api: Api, folders: Folders, job_id: str) -> tuple[str, dict[str, Any]]:
    """Return path and content of the executed copy of a job's notebook. Raise RequestError if the
    job did not run a notebook of this server."""
    job = api.job(job_id)
    copy = Executed()
    for chunk in log_pages(api, job_id):
        for output in chunk.outputs:
            copy.add(output, chunk.show)
    text = copy.text()
    if text is None or job.notebook is None:
        raise RequestError(
            f"Job {job_id} has no executed notebook.", hint="Wait until the job starts."
        )
    notebook = PurePosixPath(folders.shown(job.notebook))
    content: dict[str, Any] = msgspec.json.decode(text)
    return str(notebook.with_name(executed_name(job))), content


def note_given(api: Api, job_id: str) -> None:
    """Record that the executed notebook, the job's only result, was delivered."""
    if api.job(job_id).state.final:
        api.delivered(job_id)


class TextPages:
    """The text of a job's output in pages; `next` may block."""

    def __init__(self, api: Api, job_id: str, task: int | None = None) -> None:
        self.job = api.job(job_id)
        self._pages = log_pages(api, job_id, task)

    def next(self) -> bytes | None:
        """Return the next page; None at the end."""
        chunk = next(self._pages, None)
        if chunk is None:
            return None
        return "".join(_text(output) for output in chunk.outputs).encode("utf-8", "replace")


def _text(output: Output) -> str:
    match output:
        case Stream():
            return output.text
        case ErrorOutput():
            return "".join(f"{text}\n" for text in output.traceback)
        case _:
            return ""
