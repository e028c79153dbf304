"""sbatch: the argv of a submission, the shell text that calls it once in a job's folder, and its
output. `options` explains the options."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from .options import sbatch_args
from .units import parse_epoch

_ID = re.compile(r"(?:Submitted batch job )?([0-9]{1,10})(?:(?:;| on cluster )([A-Za-z0-9._-]+))?")
_ESTIMATE = re.compile(r"Job [0-9]{1,10} to start at (\S+)")
_LOOKS = 400
"""Number of checks, 0.05 s apart, before the script abandons a login."""
_NO_LOGIN = 200

# Runs in the job's folder; "$@" is sbatch's command line. sbatch inherits the lock, so a second
# call waits for the first even if the first caller has died. A file stores sbatch's answer.
_CALL = """
[ -s submitted ] && { cat submitted; exit 0; }
exec 9>submit.lock
if command -v flock >/dev/null 2>&1; then flock 9; fi
[ -s submitted ] && { cat submitted; exit 0; }
"$@" >submitted.partial 2>submit.err
rc=$?
[ ! -s submit.err ] || cat submit.err >&2
if [ $rc != 0 ]; then
  cat submitted.partial # a wrapper may print its reason here
elif mv submitted.partial submitted; then
  cat submitted
fi
exit $rc
"""

# Runs in the bash that replaces the login shell. With `-p`, exported functions reach sbatch without
# being defined here, and bash does not read $BASH_ENV.
_AFTER_LOGIN = f"""
mask=$(umask)
umask 077
cd -- "$JSLURM_DIR" && mkdir -- "$JSLURM_CLAIM" || exit 1
claim=$JSLURM_CLAIM program=$JSLURM_PROGRAM
for name in $JSLURM_NAMES; do
  kept=JSLURM_ENV_$name
  export "$name=${{!kept}}"
done
case $program in */*)
  case :$PATH: in *":${{program%/*}}:"*) ;; *) PATH=${{program%/*}}:$PATH ;; esac ;;
esac
# With this variable, sbatch would wait for the end of the job.
unset SBATCH_WAIT
with_mask() ( umask "$mask"; exec "$@" )
eval "set -- with_mask \\"\\$program\\" $JSLURM_WORDS"
unset "${{!JSLURM_@}}"
( {_CALL} )
echo "$?" >"$claim/rc"
"""

# Arguments: the names of the profile's variables, sbatch's arguments (quoted), _AFTER_LOGIN, and
# sbatch's command line. Only the process that makes the claim calls sbatch, and a login that hangs
# or exits is abandoned. The first attempt runs an interactive login shell. Some login files replace
# that shell with another program.
_AS_TYPED = f"""
( JSLURM_NAMES=$1 JSLURM_WORDS=$2 JSLURM_AFTER=$3 JSLURM_DIR=$PWD
  JSLURM_PROGRAM=$(command -v "$4" || echo "$4")
  for name in $1; do eval "export JSLURM_ENV_$name=\\"\\$$name\\""; done
  export JSLURM_NAMES JSLURM_WORDS JSLURM_AFTER JSLURM_DIR JSLURM_PROGRAM JSLURM_CLAIM
  own=; command -v setsid >/dev/null 2>&1 && own=setsid
  for how in '-i -c' -c; do
    JSLURM_CLAIM=submit.login.$$.${{#how}}
    rm -rf -- "$JSLURM_CLAIM"
    $own bash -c 'exec -a "-${{SHELL##*/}}" "$SHELL" $0 "$1"' "$how" \\
      'exec bash -p -c '\\''eval "$JSLURM_AFTER"'\\' </dev/null >/dev/null 2>&1 &
    login=$! looks=0
    until [ -d "$JSLURM_CLAIM" ] || ! kill -0 "$login" 2>/dev/null || [ "$looks" = {_LOOKS} ]; do
      sleep 0.05
      looks=$((looks + 1))
    done
    if ! mkdir -- "$JSLURM_CLAIM" 2>/dev/null; then
      wait "$login"
      # Without the file `rc`, the outcome of sbatch is unknown until the agent looks up the job.
      rc=$(cat "$JSLURM_CLAIM/rc" 2>/dev/null || echo 0)
      cat submit.err >&2
      if [ "$rc" = 0 ]; then cat submitted; else cat submitted.partial; fi 2>/dev/null
      rm -rf -- submit.login.$$.*
      exit "$rc"
    fi
    kill -9 "-$login" 2>/dev/null || kill -9 "$login" 2>/dev/null
  done
  rm -rf -- submit.login.$$.*
  exit {_NO_LOGIN} )
rc=$?
[ "$rc" = {_NO_LOGIN} ] || exit "$rc"
shift 3
{_CALL}"""


def argv(script: str, options: Mapping[str, str], arguments: Sequence[str] = ()) -> list[str]:
    """Return the argv that submits the script file with these options (by long name, "" for a flag)
    and arguments."""
    return ["sbatch", "--parsable", *sbatch_args(options), "--", script, *arguments]


def options_of(argv: Sequence[str]) -> dict[str, str]:
    """Return the options of a submission's argv."""
    words = argv[2 : argv.index("--")]
    return {name[2:]: value for name, _, value in (word.partition("=") for word in words)}


def with_options(
    argv: Sequence[str], options: Mapping[str, str | None], arguments: Sequence[str]
) -> list[str]:
    """Return a submission's argv with other options and arguments. None removes an option.

    >>> with_options(["sbatch", "--parsable", "--mem=1", "--hold", "--", "a"], {"mem": "2"}, ["b"])
    ['sbatch', '--parsable', '--hold', '--mem=2', '--', 'a', 'b']
    """
    kept = {name: value for name, value in options_of(argv).items() if name not in options}
    new = {name: value for name, value in options.items() if value is not None}
    script = argv[argv.index("--") + 1]
    return ["sbatch", "--parsable", *sbatch_args({**kept, **new}), "--", script, *arguments]


def test_only_argv(submission: Sequence[str]) -> list[str]:
    """Return the argv that asks when a `submission` (see `argv`) would start, without submitting
    it. sbatch reads the script, which need not exist yet, from standard input. The call is slow on
    a loaded cluster, because the answer needs a plan by the backfill scheduler. So make it only
    when a user asks."""
    return ["sbatch", "--test-only", *submission[2 : submission.index("--")]]


def literal_path(path: str) -> str:
    """Return `path` as a literal value of --output.

    sbatch(1), FILENAME PATTERN: `%%` is a `%`. A single backslash anywhere disables patterns, and
    each backslash then protects the next character (src/slurmd/slurmstepd/fname.c).

    >>> literal_path("/a%j/o"), literal_path("/a\\\\%j/o")
    ('/a%%j/o', '/a\\\\\\\\%j/o')
    """
    return path.replace("\\", "\\\\") if "\\" in path else path.replace("%", "%%")


def call_once(argv: Sequence[str]) -> list[str]:
    """Return the command that runs `argv` in the job's folder, in the current environment, once. A
    second call returns the answer of the first."""
    return ["sh", "-c", _CALL, "submit", *argv]


def call_once_as_typed(argv: Sequence[str], names: Iterable[str]) -> list[str]:
    """Return the command that runs `argv` in the environment of the user's login, except for the
    profile's variables `names`. Without a login shell, return the command of `call_once`. The
    command is for batch scripts: sbatch runs as if typed after a login. Slurm passes on the
    environment (sbatch(1), --export), including settings of the login files, such as `module`."""
    kept = " ".join(name for name in names if name.isidentifier())
    words = (kept, shlex.join(argv[1:]), _AFTER_LOGIN, *argv)
    return ["sh", "-c", _AS_TYPED, "submit", *words]


def parse(stdout: str | bytes) -> tuple[str, str | None] | None:
    """Return the job's ID and, with several clusters, the cluster's name; None if no ID was
    printed. Sites wrap sbatch and print banners, or drop --parsable. The ID is on the last line
    that looks like one.

    >>> parse("Welcome!\\n1234;alpha\\n"), parse("1234\\n"), parse("")
    (('1234', 'alpha'), ('1234', None), None)
    """
    text = stdout.decode("utf-8", "replace") if isinstance(stdout, bytes) else stdout
    for line in reversed(text.splitlines()):
        if match := _ID.fullmatch(line.strip()):
            return match[1], match[2]
    return None


def parse_test_only(stderr: str) -> float | None:
    """Return the estimated start, from the standard error of test_only_argv; None if it is unknown,
    or if sbatch refused the job."""
    match = _ESTIMATE.search(stderr)
    return None if match is None else parse_epoch(match[1])
