"""The exceptions of jupyter-slurm. No I/O; imports only `wire` and `formatting`.

JupyterSlurmError
├── ConfigError            a bad profile or setting, or a program missing on this machine
├── RequestError           an invalid request: unknown option, malformed time, bad name
│   ├── CodeError          code that Python cannot compile
│   └── VariableError      a variable that does not exist or cannot be sent
├── NotFoundError          unknown job, cluster or file
├── TransportError         the connection to the cluster's machine failed
│   ├── ConnectionLostError  the connection dropped; the request may have had its effect
│   │   └── TooMuchError   the connection was closed because of too much data
│   ├── FileAccessError    files on the cluster cannot be read or written; nothing was run
│   │   └── NotAFileError  a pipe, a device or a folder in place of a file
│   ├── LoginNeededError   the user has to log in first; the call had no effect
│   ├── LoginError         the login failed (wrong code, locked account) or was not answered
│   ├── HostKeyError       the host key has changed or is unknown
│   └── ForwardError       a remote port cannot be reached
├── CommandError           a program on the cluster failed; has argv, exit code and output
│   └── ControllerError    slurmctld did not answer; retrying may help
├── SubmitError            sbatch refused the job
├── NotMeasuredError       the job's usage was not measured, or not measured yet
├── JobLostError           the job's outcome is unknown
├── SignatureError         the result is not signed by the job
├── MalformedError         malformed data from the cluster
├── LocalClusterError      the private Slurm of `jupyter slurm up` failed
├── AgentError             the agent cannot be reached or started, or has another version
└── CellFailed             the job failed (with the remote traceback, or Slurm's reason)
    └── SweepError         tasks of a sweep failed; the others have results

Every class has a stable `code` (for programs), an HTTP `status` (for the agent and the server), and
`transient`, which is true if the same call may succeed later. An instance has a sentence
(`message`), a hint (`hint`), the tool's own output (`detail`), and the name of the affected option,
if any (`option`).
"""

from __future__ import annotations

from typing import ClassVar

from jupyter_slurm.formatting import coloured, joined, visible_lines
from jupyter_slurm.wire import Problem


class JupyterSlurmError(Exception):
    """The base of all exceptions. `str()` is the sentence, the detail and the hint, each on its own
    line. It omits control characters, since names and tools' output are not trusted."""

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
        """Return the error as a value for the wire."""
        return Problem(
            code=self.code,
            message=self.message,
            hint=self.hint,
            detail=self.detail,
            transient=self.transient,
            option=self.option,
        )

    def _render_traceback_(self) -> list[str]:
        """Return the lines for IPython, with the message but without our traceback."""
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
    """A syntax error. `traceback` contains the lines for IPython, if any."""

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
    """A cell's job failed. `traceback` contains the lines of the remote traceback, if any."""

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
        """The text below the traceback if a card shows the rest; None without a card."""

    def _render_traceback_(self) -> list[str]:
        traceback = [*map(coloured, self.traceback)]
        if self.left_to_say == "":
            return traceback
        shown = super()._render_traceback_() if self.left_to_say is None else [self.left_to_say]
        return [*traceback, *([""] if traceback else []), *shown]


class SweepError(CellFailed):
    """Tasks of a sweep failed. `traceback` groups equal errors."""

    code = "sweep-failed"
    table: object = None
    """The table with a row for each task, including those that succeeded."""


def from_problem(problem: Problem) -> JupyterSlurmError:
    """Return the exception for a `Problem`. For an unknown code, return an instance of the base
    class."""
    classes = {cls.code: cls for cls in _tree(JupyterSlurmError)}
    cls = classes.get(problem.code, JupyterSlurmError)
    return cls(problem.message, hint=problem.hint, detail=problem.detail, option=problem.option)


def _tree(cls: type[JupyterSlurmError]) -> list[type[JupyterSlurmError]]:
    return [cls] + [leaf for child in cls.__subclasses__() for leaf in _tree(child)]
