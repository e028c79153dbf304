"""sbatch: the argv of a submission and its output. The options' meaning is in `options`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .options import sbatch_args
from .units import parse_epoch

_ID = re.compile(r"(?:Submitted batch job )?([0-9]{1,10})(?:(?:;| on cluster )([A-Za-z0-9._-]+))?")
_ESTIMATE = re.compile(
    r"Job (?P<id>[0-9]{1,10}) to start at (?P<start>\S+)"
    r"(?:\s+a)? using (?P<cpus>[0-9]{1,9}) processors"
    r"(?: on nodes (?P<nodes>\S+))?(?: in partition (?P<partition>\S+))?"
)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The start of a job if it were submitted now. The ID is not a real job's."""

    slurm_id: str
    start_s: float | None
    cpus: int
    nodelist: str | None
    partition: str | None


def argv(script: str, options: Mapping[str, str], arguments: Sequence[str] = ()) -> list[str]:
    """Submit the script file with these options (long name -> value, "" for a flag) and
    arguments."""
    return ["sbatch", "--parsable", *sbatch_args(options), "--", script, *arguments]


def options_of(argv: Sequence[str]) -> dict[str, str]:
    """Return the options of a submission's argv."""
    words = argv[2 : argv.index("--")]
    return {name[2:]: value for name, _, value in (word.partition("=") for word in words)}


def with_options(
    argv: Sequence[str], options: Mapping[str, str | None], arguments: Sequence[str]
) -> list[str]:
    """Return a submission's argv with other options (None: without that one) and arguments.

    >>> with_options(["sbatch", "--parsable", "--mem=1", "--hold", "--", "a"], {"mem": "2"}, ["b"])
    ['sbatch', '--parsable', '--hold', '--mem=2', '--', 'a', 'b']
    """
    kept = {name: value for name, value in options_of(argv).items() if name not in options}
    new = {name: value for name, value in options.items() if value is not None}
    script = argv[argv.index("--") + 1]
    return ["sbatch", "--parsable", *sbatch_args({**kept, **new}), "--", script, *arguments]


def test_only_argv(submission: Sequence[str]) -> list[str]:
    """Query the start of a submission of `argv`, without submitting. sbatch reads the script, which
    need not exist yet, from standard input. Slow on a loaded cluster (the answer needs a plan of
    the backfill scheduler), so only on a user's request."""
    return ["sbatch", "--test-only", *submission[2 : submission.index("--")]]


def literal_path(path: str) -> str:
    """Return `path` as a literal value of --output.

    sbatch(1), FILENAME PATTERN: `%%` is a `%`. One backslash anywhere disables patterns, and each
    then protects the next character (src/slurmd/slurmstepd/fname.c).

    >>> literal_path("/a%j/o"), literal_path("/a\\\\%j/o")
    ('/a%%j/o', '/a\\\\\\\\%j/o')
    """
    return path.replace("\\", "\\\\") if "\\" in path else path.replace("%", "%%")


def parse(stdout: str | bytes) -> tuple[str, str | None] | None:
    """Return the job's ID and, with several clusters, the cluster's name; None: no ID was printed.

    Sites wrap sbatch and print banners, or drop --parsable; the ID is on the last line that looks
    like one.

    >>> parse("Welcome!\\n1234;alpha\\n"), parse("1234\\n"), parse("")
    (('1234', 'alpha'), ('1234', None), None)
    """
    text = stdout.decode("utf-8", "replace") if isinstance(stdout, bytes) else stdout
    for line in reversed(text.splitlines()):
        if match := _ID.fullmatch(line.strip()):
            return match[1], match[2]
    return None


def parse_test_only(stderr: str | bytes) -> Estimate | None:
    """Parse the standard error of test_only_argv; None: sbatch refused."""
    text = stderr.decode("utf-8", "replace") if isinstance(stderr, bytes) else stderr
    match = _ESTIMATE.search(text)
    if match is None:
        return None
    return Estimate(
        match["id"],
        parse_epoch(match["start"]),
        int(match["cpus"]),
        match["nodes"],
        match["partition"],
    )
