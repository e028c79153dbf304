"""Adds the memory that usage.py has measured to the result of a job on many nodes.

Runs on the cluster, Python 3.6 and later, standard library only. The processes of an engine are not
below the one that writes the result, and those of ranks are many on a node.
"""

import contextlib
import glob
import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict


def add_peak(result: "Dict[str, Any]", job_dir: str, attempt: str) -> None:
    """Let the result tell of the most memory that the job was seen to use on one of its nodes,
    where that is more than it knows of itself."""
    pattern = os.path.join(glob.escape(job_dir), "usage.%s.*jsonl" % attempt)
    for path in glob.glob(pattern):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            for line in file:
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    used_mib = float(json.loads(line.decode("utf-8"))["memory_mib"])
                    result["peak_rss_mib"] = max(result["peak_rss_mib"], used_mib)
