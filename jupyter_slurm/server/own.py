"""Routes for jobs from the server's files, and for a log as a download."""

from __future__ import annotations

from collections.abc import Callable

from tornado.iostream import StreamClosedError
from tornado.web import authenticated

from jupyter_slurm.api import Api
from jupyter_slurm.errors import JupyterSlurmError
from jupyter_slurm.server import files
from jupyter_slurm.server.calls import EXECUTE, OWN
from jupyter_slurm.server.handlers import Handler
from jupyter_slurm.wire import JobSpec


class _FileHandler(Handler):
    @property
    def folders(self) -> files.Folders:
        return files.Folders(self.contents_manager)


class _LineHandler(_FileHandler):
    async def spec_maker(self, name: str) -> Callable[[Api], JobSpec]:
        """Return a function that creates the spec from the body. It may block."""
        await self.permit(OWN[name])
        wish = self.wish(files.LineWish)
        pushes = await self.may(EXECUTE)
        folders = files.Folders(self.contents_manager, pushes=pushes)
        if wish.path is None:
            return lambda api: files.line_spec(api, folders, wish)
        await self.permit(OWN[f"{name} of a file"])
        file = files.FileWish(wish.path, wish.line, wish.id)
        text = await folders.text(wish.path)
        return lambda api: files.file_spec(api, folders, file, text)


class SpecHandler(_LineHandler):
    """`POST spec`: return the JobSpec of a line with a text or file."""

    @authenticated
    async def post(self) -> None:
        self.give_value(await self.relay.with_agent(await self.spec_maker("spec")))


class OutlookHandler(_LineHandler):
    """`POST outlook`: return the Preview of a job as in `POST spec`, while the user types."""

    @authenticated
    async def post(self) -> None:
        spec = await self.spec_maker("outlook")
        self.give_value(await self.relay.with_agent(lambda api: files.outlook(api, spec(api))))


class NotebookHandler(_FileHandler):
    """`POST notebook`: submit a file and return the Job."""

    @authenticated
    async def post(self) -> None:
        await self.permit(OWN["notebook"])
        wish = self.wish(files.FileWish)
        text = await self.folders.text(wish.path)
        self.give_value(
            await self.relay.with_agent(lambda api: files.file_job(api, self.folders, wish, text))
        )


class ExecutedHandler(_FileHandler):
    """`POST executed`: save a job's executed notebook beside the notebook; return its path."""

    @authenticated
    async def post(self) -> None:
        await self.permit(OWN["executed"])
        wish = self.wish(files.JobWish)
        path, notebook = await self.relay.with_agent(
            lambda api: files.executed(api, self.folders, wish.job_id)
        )
        await self.folders.save(path, notebook)
        await self.relay.with_agent(lambda api: files.note_given(api, wish.job_id))
        self.give_value(files.Written(path=path))


class LogHandler(Handler):
    """`GET logfile?job_id=…[&task=…]`: download the output of a job or task."""

    @authenticated
    async def get(self) -> None:
        self.check_page()
        await self.permit(OWN["logfile"])
        job_id = self.get_query_argument("job_id", "")
        of_array = self.get_query_argument("task", "")
        task = int(of_array) if of_array.isdecimal() else None
        pages = await self.relay.with_agent(lambda api: files.TextPages(api, job_id, task))
        page = await self.relay.with_agent(lambda _: pages.next())
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        number = "" if task is None else f"_{task}"
        name = f"{pages.job.name}-{pages.job.slurm_id or pages.job.id}{number}.log"
        self.set_attachment_header(name)
        try:
            while page is not None:
                self.write(page)
                await self.flush()
                page = await self.relay.with_agent(lambda _: pages.next())
        except StreamClosedError:
            return
        except JupyterSlurmError:
            self.detach().close()  # a normal end would mark the file as complete
            return
        self.finish(set_content_type="text/plain; charset=utf-8")
