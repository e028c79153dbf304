"""The page of a lab, which says what it is: JupyterLab's title, and the bar of our own extension.

Runs on the cluster, Python 3.6 and later, standard library only. All of it lies in the lab's folder
and goes with it; nothing of the user's own JupyterLab is changed. The extension (lab_page.js) needs
JupyterLab 3 or later, an older one has the title alone. It reads `facts.json`, which lies beside it
and is written again when the agent has changed `limit` in the job's folder.
"""

import contextlib
import json
import os
import shutil

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict, Optional

NAME = "jupyter-slurm-lab"
SCRIPT = "lab_page.js"
WORDS = "lab_page.json"  # its texts in other languages than English
PACKAGE = {
    "name": NAME,
    "version": "1.0.0",
    "description": "Shows which job this JupyterLab runs in",
    "jupyterlab": {
        "extension": True,
        "_build": {"load": "static/" + SCRIPT, "extension": "./extension"},
    },
}


class Page:
    """The page of the lab whose job's folder is `folder`, with files in `private`."""

    def __init__(self, private: str, folder: str, attempt: str, task: "Dict[str, Any]") -> None:
        self.folder = folder
        self.began = os.path.join(folder, "started.%s.json" % attempt)
        self.extensions = os.path.join(private, "extensions")
        self.workspaces = os.path.join(private, "workspaces")
        self.static = os.path.join(self.extensions, NAME, "static")
        self.job = {
            "id": task["id"],
            "name": task["name"],
            "node": os.environ.get("SLURMD_NODENAME") or os.uname().nodename,
            "gpus": task["gpus"],
        }
        self.written: "Optional[Dict[str, Any]]" = None

    @property
    def title(self) -> str:
        return " · ".join([self.job["name"], self.job["node"], "JupyterLab"])

    def write(self) -> None:
        """Write the extension. Raise OSError."""
        os.makedirs(self.static, mode=0o700)
        here = os.path.dirname(os.path.abspath(__file__))
        for name in (SCRIPT, WORDS):
            shutil.copyfile(os.path.join(here, name), os.path.join(self.static, name))
        put_json(os.path.join(self.extensions, NAME, "package.json"), PACKAGE)
        self.renew()

    def renew(self) -> None:
        """Write the facts where they have changed."""
        facts = dict(self.job, end_s=self.end_s())
        if facts != self.written:
            with contextlib.suppress(OSError):  # the disk may be full for a while, or the lab over
                put_json(os.path.join(self.static, "facts.json"), facts)
                self.written = facts

    def end_s(self) -> "Optional[float]":
        """Return when Slurm ends the job, or None while that is not known here."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            with open(self.began, encoding="utf-8") as file:
                began_s = json.load(file)["time_s"]
            with open(os.path.join(self.folder, "limit"), encoding="utf-8") as file:
                return float(began_s + int(file.read()))
        return None


def put_json(path: str, value: "Any") -> None:
    """Write a file that is there as a whole or not at all. Raise OSError."""
    descriptor = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(value, file)
    os.replace(path + ".new", path)
