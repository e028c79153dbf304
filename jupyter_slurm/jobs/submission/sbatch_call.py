"""PURE. Shell text that calls sbatch in a job's folder once and keeps the answer.

For batch scripts sbatch runs as typed after a login: Slurm passes on the environment (sbatch(1),
--export), with what the login files have set, such as `module`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

_LOOKS = 400
"""Checks at 0.05 s before a login is given up."""
_NO_LOGIN = 200

# Runs in the job's folder, "$@" is sbatch's command line. sbatch inherits the lock, so that a
# second call waits for the first even if the first caller has died. sbatch's answer is kept.
_CALL = """
[ -s submitted ] && { cat submitted; exit 0; }
exec 9>submit.lock
if command -v flock >/dev/null 2>&1; then flock 9; fi
[ -s submitted ] && { cat submitted; exit 0; }
"$@" >submitted.partial 2>submit.err
rc=$?
[ ! -s submit.err ] || cat submit.err >&2
if [ $rc != 0 ]; then
  cat submitted.partial # a wrapper may say here why it refuses
elif mv submitted.partial submitted; then
  cat submitted
fi
exit $rc
"""

# Runs in the bash that replaces the login shell. `-p`: exported functions reach sbatch without
# being defined here, and $BASH_ENV is not read.
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
# It would wait for the end of the job.
unset SBATCH_WAIT
with_mask() ( umask "$mask"; exec "$@" )
eval "set -- with_mask \\"\\$program\\" $JSLURM_WORDS"
unset "${{!JSLURM_@}}"
( {_CALL} )
echo "$?" >"$claim/rc"
"""

# $1 names of the profile's variables, $2 sbatch's arguments, quoted, $3 _AFTER_LOGIN, then sbatch's
# command line. The process that makes the claim calls sbatch, and no other: a login that hangs or
# exits is abandoned. The first try is an interactive login, which some login files hijack.
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
      # Without that file the outcome of sbatch is unknown until the job is looked up.
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


def sbatch_call(argv: Sequence[str]) -> list[str]:
    """Return the command that runs `argv` in the job's folder and the current environment."""
    return ["sh", "-c", _CALL, "submit", *argv]


def sbatch_call_as_typed(argv: Sequence[str], names: Iterable[str]) -> list[str]:
    """Return the command that runs `argv` in the environment of the user's login, except for the
    profile's variables `names`. Without a login shell, do as `sbatch_call`."""
    kept = " ".join(name for name in names if name.isidentifier())
    words = (kept, shlex.join(argv[1:]), _AFTER_LOGIN, *argv)
    return ["sh", "-c", _AS_TYPED, "submit", *words]
