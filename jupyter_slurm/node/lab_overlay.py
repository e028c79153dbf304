"""JupyterLab beside an image that has none: installed once, for one image and its Python.

Runs on the cluster, Python 3.6 and later, standard library only. The folder is on the file system
that the nodes share; a lab that finds it there installs nothing. The server has these packages
before the image's own; the kernels that it starts have them behind, so that what a notebook imports
is the image's wherever the image has it.
"""

import contextlib
import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Callable, Dict, List  # noqa: F401 - in comments

WANTED = ["jupyterlab", "ipykernel"]
LOOK_S = 0.1
SERVER = """\
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module("jupyterlab", run_name="__main__", alter_sys=True)
"""
KERNEL = """\
import runpy, sys
sys.path.append(sys.argv.pop(1))
runpy.run_module("ipykernel_launcher", run_name="__main__", alter_sys=True)
"""


class Overlay(object):
    """A JupyterLab in `parent`, which may begin with `~`, for `image`; "" is the node itself."""

    def __init__(self, parent: str, image: str) -> None:
        python = "%s %s %s" % (sys.executable, sys.version, platform.machine())
        name = hashlib.sha256((image + "\n" + python).encode("utf-8")).hexdigest()[:16]
        self.path = os.path.join(os.path.expanduser(parent), name)

    def is_there(self) -> bool:
        return os.path.isdir(self.path)

    def install(self, look: "Callable[[], None]") -> bool:
        """Install JupyterLab and tell whether it is there now. `look` is called all the while, and
        may raise."""
        partial = "%s.%s.%d" % (self.path, platform.node(), os.getpid())
        usual = os.umask(0o077)  # for the folders above as well, to which `mode` does not apply
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
        finally:
            os.umask(usual)
        pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
        pip += ["--progress-bar=off", "--target=" + partial]
        try:
            if not run(pip + WANTED, look):
                return False
            # Another lab of the same image may have been faster: then use what that one installed.
            with contextlib.suppress(OSError):
                os.rename(partial, self.path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return self.is_there()

    def command(self, env: "Dict[str, str]", private: str) -> "List[str]":
        """Return the command that starts the server, and set `env` up for it; `private` is the
        lab's folder."""
        kernels = os.path.join(private, "share")
        folder = os.path.join(kernels, "kernels", "python3")
        os.makedirs(folder, mode=0o700)
        kernel = {
            "argv": [sys.executable, "-c", KERNEL, self.path, "-f", "{connection_file}"],
            "display_name": "Python 3",
            "language": "python",
            "metadata": {"debugger": True},
        }
        with open(os.path.join(folder, "kernel.json"), "w", encoding="utf-8") as file:
            json.dump(kernel, file)
        share = os.path.join(self.path, "share", "jupyter")
        env["JUPYTERLAB_DIR"] = os.path.join(share, "lab")
        before(env, "JUPYTER_PATH", kernels, share)
        before(env, "JUPYTER_CONFIG_PATH", os.path.join(self.path, "etc", "jupyter"))
        return [sys.executable, "-c", SERVER, self.path]


def before(env: "Dict[str, str]", name: str, *paths: str) -> None:
    env[name] = os.pathsep.join([path for path in list(paths) + [env.get(name, "")] if path])


def run(argv: "List[str]", look: "Callable[[], None]") -> bool:
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        while process.poll() is None:
            look()
            time.sleep(LOOK_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return process.returncode == 0
