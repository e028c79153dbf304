"""Write and read files of variables on this machine, with `node/runner_values.py` (pickles) and
`node/runner_data.py` (data only). Failures become errors with codes."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_slurm.errors import SignatureError, VariableError
from jupyter_slurm.formatting import joined
from jupyter_slurm.wire import OutFormat

if TYPE_CHECKING:  # by their names on the node
    import runner_data
    import runner_values
else:
    from jupyter_slurm.node import runner_data, runner_values


def write_variables(path: Path, names: Sequence[str], namespace: Mapping[str, object]) -> None:
    """Write the variables `names`, all or none, to a file (0600). VariableError lists those that
    cannot be pickled, with reasons."""
    try:
        failed = runner_values.write(str(path), names, dict(namespace))
    except OSError:
        path.unlink(missing_ok=True)
        raise
    if failed:
        path.unlink()
        reasons = [f"Cannot send {name!r}: {why}." for name, why in failed.items()]
        raise VariableError(
            joined(*reasons),
            hint="Send its data (a path, an array, a dict) and build it in the cell.",
        )


def check_signature(path: Path, key: bytes, signature: str | None) -> None:
    """Raise SignatureError if the file of variables is not signed with the job's key."""
    if not hmac.compare_digest(runner_values.sign(str(path), key.strip()), signature or ""):
        raise SignatureError(
            f"{path.name} does not have the job's signature, so its variables were not read.",
            hint="Fetch the result again. The file was changed or truncated.",
        )


def read_variables(
    path: Path, names: Sequence[str] | None = None, out_format: OutFormat = "auto"
) -> tuple[dict[str, object], dict[str, str]]:
    """Return the variables of a file with a checked signature, and reasons for those that cannot be
    read.

    `names`: the requested variables, others stay unread; None: all. With `out_format` "data"
    nothing is unpickled. VariableError: incomplete file. Unpickled arrays are views of a private
    mapping of the file, which may be deleted.
    """
    try:
        if out_format == "data":
            return runner_data.read(str(path), names or ())
        return runner_values.read(str(path), names)
    except Exception as exc:
        raise VariableError(
            f"{path.name} is not a complete file of variables.", detail=str(exc)
        ) from exc
