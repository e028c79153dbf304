"""The guide of SUS' AI cloud: stand-ins for enroot and pyxis, containers that stay on their
servers, and a real registry with a login in place of NVIDIA's."""

from __future__ import annotations

import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.dressed import Dress, Dressed
from tests.cluster.dressed_slurm import Shape
from tests.cluster.image import lean_copy, plain_copy
from tests.cluster.pyxis import EnrootStandIn, squashed, standing_in
from tests.cluster.registry import Registry, serving
from tests.examples.reading import LIMIT_S, Reading, add, read
from tests.ssh.waiting import wait_until

_KEY = "nvapi-of-the-tests"
_PROGRAMS = {
    # Stand-ins for package installers, without network access: they record their arguments.
    "apt-get": """[ "$(id -u)" = 0 ] || { echo "E: are you root?" >&2; exit 100; }
[ "$1" = install ] || exit 0
for name do case $name in install | -*) continue ;; esac
  printf '#!/bin/sh\\nexec "$@"\\n' >"/usr/bin/$name" && chmod 755 "/usr/bin/$name"
  echo "Setting up $name (stand-in)"
done
""",
    "pip": """packages=$(python3 -c 'import site; print(site.getsitepackages()[0])')
for name do case $name in install | -*) continue ;; esac
  echo '__version__ = "3.0"' >"$packages/$name.py"
  echo "Successfully installed $name (stand-in)"
done
""",
    # enroot's hook mounts the node's own.
    "nvidia-smi": 'echo "NVIDIA-SMI (stand-in): GPU $CUDA_VISIBLE_DEVICES"\n',
}


def sus(programs: Path) -> Dress:
    """Describe a site with `srun` and `enroot` in `programs`."""
    return Dress(
        template="sus-aicloud",
        login="yamada.jo.sus.ac.jp",
        port=22217,
        shape=Shape(
            cluster="aicloud",
            nodes=dict.fromkeys(("gpu1", "gpu2"), "CPUs=32 RealMemory=128000 Gres=gpu:rtx:4"),
            lines=(
                "DefMemPerCPU=2000",
                "PartitionName=all Nodes=ALL Default=YES DefaultTime=60 MaxTime=7-0",
            ),
        ),
        home="/data/home/{user}",
        mounts={"/usr/local/bin": programs},
    )


def with_images(enroot: EnrootStandIn, registry: Registry, image: Path, folder: Path) -> None:
    """Fill the registries with the guide's images. `image` has Python and packages of this
    machine's distribution."""
    tensorflow = plain_copy(image, folder / "tensorflow")
    for name, lines in _PROGRAMS.items():
        program = tensorflow / "usr/bin" / name
        program.unlink(missing_ok=True)
        program.write_text(f"#!/bin/sh\n{lines}")
        program.chmod(0o755)
    layer = folder / "tensorflow.tar"
    names = [one.name for one in tensorflow.iterdir()]
    packed = ["tar", "-C", str(tensorflow), "-cf", str(layer), "--owner=0", "--group=0", *names]
    subprocess.run(packed, check=True, timeout=LIMIT_S)
    registry.put(layer, "nvidia/tensorflow", "20.12-tf2-py3", "22.02-tf2-py3")
    enroot.reach("nvcr.io", registry)
    (enroot.folder / "writable").touch()  # the guide's setup.sh needs this
    ubuntu = lean_copy(image, folder / "ubuntu")
    about = ubuntu / "etc/os-release"
    about.unlink()
    about.write_text('PRETTY_NAME="Ubuntu 20.04 (stand-in)"\n')
    enroot.publish("ubuntu:20.04", squashed(ubuntu, folder / "ubuntu.sqsh"))
    for one in (tensorflow, ubuntu):
        shutil.rmtree(one)
    layer.unlink()


@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.long
def test_guide_runs_and_leaves_only_the_kept_container(
    dressed: Callable[[Dress], Dressed], demo_image: Path, site_folder: Path, tmp_path: Path
) -> None:
    site_folder.chmod(0o755)
    (site_folder / "registry").mkdir()
    with (
        standing_in(site_folder / "enroot", "/usr/bin/python3") as enroot,
        serving(site_folder / "registry", _KEY) as registry,
    ):
        with_images(enroot, registry, demo_image, site_folder)
        site = dressed(sus(enroot.programs))
        # Three questions: the user name, the head server's port, and whether to keep the shown
        # profile.
        add(site, site.account.name, "", "")

        _check(read("sus-aicloud", site, tmp_path, _KEY), site)
        wait_until(lambda: site.queue() == [], LIMIT_S)
        wait_until(lambda: enroot.containers() == ["pyxis_myrepo"], LIMIT_S)


def _check(reading: Reading, site: Dressed) -> None:
    """Check each chapter's output in the guide's order."""
    home = f"/data/home/{site.account.name}"
    assert "Connected to sus-aicloud" in reading.text("%slurm login")
    assert "✔" in reading.text("%slurm push myproject")
    assert _KEY not in reading.text("%slurm push credentials")
    credentials = site.account.home / ".config/enroot/.credentials"
    assert f"machine nvcr.io login $oauthtoken password {_KEY}\n" in credentials.read_text()
    assert stat.S_IMODE(credentials.stat().st_mode) == 0o600
    assert not (reading.folder / "credentials").exists()
    assert "best of 13: rate" in reading.text("--name outline")
    assert (reading.folder / "trials.json").exists()

    for words in ("--name sbuild\n", "--name sbuild-ngc"):
        assert "a container with Python 3" in reading.text(words)
    assert "Ubuntu 20.04" in reading.text("--name sbuild-ubuntu")
    assert "on gpu" in reading.text("-- sh -c")
    assert "Setting up time" in reading.text("remap-root myproject/setup.sh")
    assert "best of 13: rate" in reading.text("quick myproject/do_something.py")
    assert "pyxis" in reading.text("%slurm doctor")

    assert "done" in reading.text("--name create")
    setup = reading.text("--name setup")
    assert "Setting up time" in setup
    assert "Successfully installed optuna" in setup
    assert "optuna 3.0 and /usr/bin/time" in reading.text("--name kept")
    listed = reading.text("--name list").split()
    assert {"pyxis_quick", "pyxis_tf2202", "pyxis_ubuntu", "pyxis_myrepo"} <= set(listed)
    assert "done" in reading.text("--name remove")

    assert "host gpu" in reading.text("--name host")
    assert "NVIDIA-SMI (stand-in): GPU 0" in reading.text("--name state")
    assert "GPU 0" in reading.text("--name number")
    assert "best of 13: rate" in reading.text("--name something")
    assert "1 file" in reading.text("%slurm pull myproject")
    assert reading.pictures("--name plot") == 1

    assert "stand-in" in reading.text("%%slurm_image")
    assert "best of 13: rate" in reading.text("myrepo --chdir '~/myproject'")
    assert "best of 13: rate" in reading.text("print(job.output)")
    assert "endless" in reading.text("%squeue -l")
    assert "CANCELLED" in reading.text("%scancel -f")
    assert "gpu2" in reading.text("%sinfo -N -l")
    assert "rtx" in reading.text("%slurm info")
    mounts = reading.text("--name mounts")
    assert "here: do_something.py" in mounts
    assert f"home: {home}/myproject" in mounts

    assert f"{site.account.name}@" in reading.text("%slurm connections")
    assert home in reading.text("--name home")
    assert "trials.json" in reading.text("--name touch")
    assert "with GPU 0" in reading.text("--name anywhere")
