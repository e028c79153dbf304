"""Notes of the notebooks that are open in labs, so that a second lab can say that one is.

Runs on the cluster, Python 3.6 and later, standard library only. Two labs know nothing of each
other but what lies in the home that both see: there each has a note, which it removes as it ends.
Nothing removes the note of a lab that was killed, so each touches its own at every look, and one
that was not touched for a while does not count. No lock of the file system would do: many of those
that nodes share have none that another node sees.
"""

import contextlib
import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict, Iterator, List, Tuple  # noqa: F401 - in comments

FOLDER = "~/.jupyter-slurm/notebooks"
OLD_S = 150.0
"""A few of the longest pauses between two looks (lab_activity.py)."""
MOST_BYTES = 1 << 20


class Notes(object):
    """The notes in `folder`, and that of the lab `job_id`, which others know as `who`."""

    def __init__(self, folder: str, job_id: str, who: str) -> None:
        self.folder = folder
        self.path = os.path.join(folder, job_id + ".json")
        self.who = who
        self.noted = []  # type: List[str]

    def note(self, files: "List[str]") -> "Dict[str, List[str]]":
        """Note that `files` are open here, and return where else each of them is, if anywhere.
        Raise OSError."""
        if files != self.noted:
            self.write(files)
        elif files:
            os.utime(self.path, None)
        found = {}  # type: Dict[str, List[str]]
        if files:
            for who, others in self.others():
                for file in sorted(set(files).intersection(others)):
                    found.setdefault(file, []).append(who)
        return found

    def write(self, files: "List[str]") -> None:
        if not files:
            self.remove()
            return
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        descriptor = os.open(self.path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump({"who": self.who, "files": files}, stream)
        os.replace(self.path + ".new", self.path)
        self.noted = files

    def remove(self) -> None:
        self.noted = []
        with contextlib.suppress(OSError):
            os.unlink(self.path)

    def others(self) -> "Iterator[Tuple[str, List[str]]]":
        """Yield what other labs have noted, by the clock of the file system."""
        now_s = os.stat(self.path).st_mtime
        for name in sorted(os.listdir(self.folder)):
            path = os.path.join(self.folder, name)
            if not name.endswith(".json") or path == self.path:
                continue
            # Its lab may have ended just now; what else made it nobody knows.
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                if os.stat(path).st_mtime > now_s - OLD_S:
                    with open(path, encoding="utf-8") as stream:
                        told = json.loads(stream.read(MOST_BYTES))
                    yield str(told["who"]), [str(file) for file in told["files"]]


def open_files(sessions: "Any", root: str) -> "Dict[str, str]":
    """Return the notebooks of these sessions of Jupyter: file -> its path below `root`."""
    paths = [one["path"] for one in sessions if one.get("type") == "notebook"]
    return {os.path.realpath(os.path.join(root, path)): path for path in paths}
