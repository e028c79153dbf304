"""The exceptions of jupyter-slurm, and nothing else: no I/O, no imports of ours but `wire`
and `formatting`.

JupyterSlurmError
├── ConfigError            a profile, setting or missing program on this machine
├── RequestError           what was asked for cannot be: unknown option, malformed time, bad name
│   ├── CodeError          code that Python cannot compile
│   └── VariableError      a variable that is not there or cannot travel
├── NotFoundError          no such job, cluster or file
├── TransportError         the way to the cluster's machine failed
│   ├── ConnectionLostError  it broke in the middle: what was asked for may have happened
│   │   └── TooMuchError   more came than is taken, so that it was broken off
│   ├── FileAccessError    files there cannot be written or read; nothing was run
│   │   └── NotAFileError  a pipe, a device or a folder stands where a file should be
│   ├── LoginNeededError   a person has to log in first; nothing was done
│   ├── LoginError         a host refused the login (wrong code, locked account), or nobody answered
│   ├── HostKeyError       a host is not who it was, or nobody has vouched for it
│   └── ForwardError       a port over there cannot be reached
├── CommandError           a program on the cluster refused; holds its argv, exit code and own words
│   └── ControllerError    slurmctld did not answer: nothing is known, trying again may help
├── SubmitError            sbatch refused the job; there is none
├── NotMeasuredError       there is no measurement of what a job uses, or not yet
├── JobLostError           nobody knows what became of the job
├── SignatureError         what came back is not what the job wrote
├── MalformedError         what came from a cluster is not of the form that it should have
├── LocalClusterError      the private Slurm of `jupyter slurm up`
├── AgentError             the agent cannot be reached, started, or is of another version
└── CellFailed             the job ended, and not well (the remote traceback, or what Slurm did)
    └── SweepError         tasks of a sweep failed; the others have their results

Every class has a stable `code` (for programs), an HTTP `status` (for the agent and the server),
and says with `transient` whether the same call may succeed later. An instance has a sentence
(`message`), what to do next (`hint`), the tool's own words (`detail`), and where it is about an
option that somebody gave, which (`option`).
"""

from __future__ import annotations

from typing import ClassVar

from jupyter_slurm.formatting import coloured, joined, visible_lines
from jupyter_slurm.wire import Problem


class JupyterSlurmError(Exception):
    """The base of all exceptions. `str()` is the sentence, followed by the hint on a line of its
    own; it holds nothing that could steer a terminal, since names and a tool's words come from
    elsewhere."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    transient: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        detail: str | None = None,
        option: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail = detail
        self.option = option

    def __str__(self) -> str:
        detail = self.detail and self.detail.strip()
        return visible_lines(joined(self.message, detail, self.hint, between="\n"))

    def problem(self) -> Problem:
        """Return the error in the form that goes over the wire."""
        return Problem(
            code=self.code,
            message=self.message,
            hint=self.hint,
            detail=self.detail,
            transient=self.transient,
            option=self.option,
        )

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows: the sentence, not the way through our code."""
        return [f"{type(self).__name__}: {self}"]


class ConfigError(JupyterSlurmError):
    code = "config"
    status = 400


class RequestError(JupyterSlurmError):
    code = "request"
    status = 400


class VariableError(RequestError):
    code = "variable"


class CodeError(RequestError):
    """Code has a syntax error. `traceback` is what IPython shows, one string a line, or []."""

    code = "syntax"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        detail: str | None = None,
        option: str | None = None,
        traceback: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, hint=hint, detail=detail, option=option)
        self.traceback = traceback

    def _render_traceback_(self) -> list[str]:
        if not self.traceback:
            return super()._render_traceback_()
        return [*self.traceback, "", self.message]


class NotFoundError(JupyterSlurmError):
    code = "not-found"
    status = 404


class TransportError(JupyterSlurmError):
    code = "transport"
    status = 502
    transient = True


class ConnectionLostError(TransportError):
    code = "connection-lost"


class TooMuchError(ConnectionLostError):
    code = "too-much"


class FileAccessError(TransportError):
    code = "file-access"
    transient = False


class NotAFileError(FileAccessError):
    code = "not-a-file"


class LoginNeededError(TransportError):
    code = "login-needed"
    status = 401


class LoginError(TransportError):
    code = "login"
    status = 401
    transient = False


class HostKeyError(TransportError):
    code = "host-key"
    transient = False


class ForwardError(TransportError):
    code = "forward"


class CommandError(JupyterSlurmError):
    code = "command"
    status = 502


class ControllerError(CommandError):
    code = "controller"
    status = 503
    transient = True


class SubmitError(JupyterSlurmError):
    code = "submit"
    status = 422


class NotMeasuredError(JupyterSlurmError):
    code = "not-measured"
    status = 404


class JobLostError(JupyterSlurmError):
    code = "job-lost"
    status = 410


class SignatureError(JupyterSlurmError):
    code = "signature"
    status = 502


class MalformedError(JupyterSlurmError, ValueError):
    code = "malformed"
    status = 502


class LocalClusterError(JupyterSlurmError):
    code = "local-cluster"


class AgentError(JupyterSlurmError):
    code = "agent"
    status = 503


class CellFailed(JupyterSlurmError):
    """A cell's job did not end well. `traceback` is the remote one, one string a line, or []."""

    code = "cell-failed"
    status = 422

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        detail: str | None = None,
        option: str | None = None,
        traceback: tuple[str, ...] = (),
        job_id: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, detail=detail, option=option)
        self.traceback = traceback
        self.job_id = job_id
        self.left_to_say: str | None = None
        """All that is shown besides the traceback, where a card says the rest; None: there is no
        card."""

    def _render_traceback_(self) -> list[str]:
        traceback = [*map(coloured, self.traceback)]
        if self.left_to_say == "":
            return traceback
        shown = super()._render_traceback_() if self.left_to_say is None else [self.left_to_say]
        return [*traceback, *([""] if traceback else []), *shown]


class SweepError(CellFailed):
    """Tasks of a sweep failed. `traceback` has their errors, equal ones together."""

    code = "sweep-failed"
    table: object = None
    """The table with a row for each task, those too that succeeded."""


def from_problem(problem: Problem) -> JupyterSlurmError:
    """Return the exception that a `Problem` was made from; an unknown code gives the base class."""
    classes = {cls.code: cls for cls in _tree(JupyterSlurmError)}
    cls = classes.get(problem.code, JupyterSlurmError)
    return cls(problem.message, hint=problem.hint, detail=problem.detail, option=problem.option)


def _tree(cls: type[JupyterSlurmError]) -> list[type[JupyterSlurmError]]:
    return [cls] + [leaf for child in cls.__subclasses__() for leaf in _tree(child)]
