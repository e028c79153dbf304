"""Stand-ins for Anaconda's image and for conda, whose channels are unreachable.

The packages are in `~/.conda/pkgs`, conda's cache. An image gets only lines with the packages'
folders, no copies, so it is built at once. NumPy and PyTorch are this machine's, Ray is the tests'
own, and fbpca is a stand-in.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from tests.examples.wheels import make_wheel

_INSTALL = """#!/bin/sh
# A stand-in for conda, whose channels cannot be reached.
case $1 in
install) shift ;;
clean) exit 0 ;;
*) echo "stand-in for conda: no $1" >&2; exit 2 ;;
esac
names=
while [ $# -gt 0 ]; do
  case $1 in
  -y | --yes) ;;
  -c | --channel) shift ;;
  --file) names="$names $(sed 's/#.*//' "$2")" && [ -s "$2" ] || exit 1; shift ;;
  -*) echo "stand-in for conda: no $1" >&2; exit 2 ;;
  *) names="$names $1" ;;
  esac
  shift
done
for name in $names; do
  name=${name%%=*}
  cat "/opt/conda/pkgs/$name" >>/usr/local/lib/PYTHON/dist-packages/conda.pth || exit 1
  echo "stand-in for conda: $name installed"
done
"""
_LIST = """#!/bin/sh
# A stand-in for conda, on the machine of the notebook.
[ "$*" = "list -e" ] || exit 2
echo "# platform: linux-64"
echo "numpy=1.24.2=py311_0"
"""
_NOTHING = ("cpuonly", "python", "torchvision")
"""Packages that are installed already, or that the tests do not use."""
_LARGE = ("numpy", "pytorch", "ray-core")
_FBPCA = '''"""A stand-in for fbpca, which needs SciPy."""
import numpy as np


def pca(A, k):
    left, weights, right = np.linalg.svd(A - A.mean(axis=0), full_matrices=False)
    return left[:, :k], weights[:k], right[:k]
'''
_NOT_FOR_RAY = ("bokeh", "dask", "debugpy", "distributed", "jedi", "numpy*", "pip", "tensorboard*")
_DEBIAN = Path("/usr/lib/python3/dist-packages")


def on_this_machine(folder: Path) -> None:
    """Write a `conda` to `folder`, for use on PATH."""
    _program(folder / "conda", _LIST)


def miniconda(image: Path, home: Path, engines_python: Path) -> None:
    """Turn an image with Python into Anaconda's. Fill the package cache in `home`, which is
    mounted in jobs below /home."""
    python = f"python{sysconfig.get_python_version()}"
    [engines] = engines_python.parents[1].glob("lib/python3*/site-packages")
    for of_debian in ("locale", "terminfo"):  # Debian's images have these folders
        shutil.copytree(Path("/usr/lib", of_debian), image / "usr/lib" / of_debian, symlinks=True)
    _program(image / "usr/bin/conda", _INSTALL.replace("PYTHON", python))
    (image / "opt/conda/bin").mkdir(parents=True)
    (image / "opt/conda/bin/python").symlink_to("/usr/bin/python3")
    ours = image / "usr/local/lib" / python / "dist-packages"
    ours.mkdir(parents=True)
    shutil.copytree(engines / "pip", ours / "pip", ignore=shutil.ignore_patterns("__pycache__"))
    _program(image / "usr/bin/pip", '#!/bin/sh\nexec python3 -m pip "$@"\n')
    (image / "etc/pip.conf").write_text(
        "[global]\nbreak-system-packages = true\nno-index = true\nfind-links = /opt/conda/wheels\n"
    )
    wheels = image / "opt/conda/wheels"
    wheels.mkdir()
    make_wheel(wheels, "fbpca", "1.0", {"fbpca.py": _FBPCA})
    cache = _Cache(image, home)
    for name in _NOTHING:
        cache.entry(name).touch()
    for name in _LARGE:
        cache.entry(name).write_text(f"{cache.inside / name}\n")
    cache.add_pytorch()
    without = shutil.ignore_patterns(*_NOT_FOR_RAY)
    shutil.copytree(engines, cache.folder / "ray-core", ignore=without)


class _Cache:
    """`~/.conda/pkgs`. Its path is `folder` on this machine, and `inside` in jobs."""

    def __init__(self, image: Path, home: Path) -> None:
        self._image = image
        self.folder = home / ".conda/pkgs"
        self.inside = Path("/home", home.name, ".conda/pkgs")
        self.folder.mkdir(parents=True)
        self.entry("").mkdir()

    def entry(self, name: str) -> Path:
        """Return the file with the package's folder for `conda install`."""
        return self._image / "opt/conda/pkgs" / name

    def add_pytorch(self) -> None:
        """Add this machine's PyTorch and NumPy, with their libraries."""
        made = self._image / self.inside.relative_to("/") / "lib"
        made.mkdir(parents=True)
        for path in _libraries(_DEBIAN.glob("torch/_C.*.so"), _DEBIAN.glob("numpy/*/*.so")):
            if not (self._image / path.relative_to("/")).exists():
                shutil.copy(path, made)
        # The image lists the future folder of the libraries, but does not contain them.
        (self._image / "etc/ld.so.conf").write_text(f"{self.inside / 'lib'}\n")
        subprocess.run(["/sbin/ldconfig", "-r", self._image], check=True, timeout=60)
        shutil.move(made, self.folder / "lib")
        without = shutil.ignore_patterns("__pycache__", "bin", "include", "lib", "test", "tests")
        numpy = shutil.ignore_patterns("__pycache__", "f2py", "tests")
        shutil.copytree(_DEBIAN / "numpy", self.folder / "numpy/numpy", ignore=numpy)
        torch = self.folder / "pytorch/torch"
        shutil.copytree(_DEBIAN / "torch", torch, ignore=without)
        shutil.copy(_DEBIAN / "typing_extensions.py", torch.parent)
        for file in ("lib/libtorch_global_deps.so", "bin/torch_shm_manager"):
            (torch / file).parent.mkdir()
            shutil.copy(_DEBIAN / "torch" / file, torch / file)


def _libraries(*modules: Iterable[Path]) -> set[Path]:
    done = subprocess.run(
        ["ldd", *chain(*modules)], stdout=subprocess.PIPE, text=True, check=True, timeout=60
    )
    return {Path(found[1]) for found in re.finditer(r"=> (/\S+)", done.stdout)}


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
