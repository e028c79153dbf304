"""The slides of AAU's AI Cloud: a gateway with codes, accounting, Singularity."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from pathlib import Path

import pytest

from tests.cluster.apptainer import ApptainerEngine
from tests.cluster.dressed import Dress, Dressed, make_dressed
from tests.cluster.dressed_slurm import Shape
from tests.cluster.image import shell_copy
from tests.cluster.open_registry import OpenRegistry
from tests.examples.reading import LIMIT_S, Reading, add, read
from tests.examples.wheels import make_wheel
from tests.ssh.accounts import make_folder
from tests.ssh.kept import Keeper
from tests.ssh.waiting import wait_until

_DGX2 = "CPUs=96 RealMemory=1474560 Gres=gpu:v100:16"
_NODES = ("nv-ai-01.srv.aau.dk", "nv-ai-03.srv.aau.dk")
_QOS = ("normal", "short", "1gpulong", "allgpus")
_IMAGES = "/user/share/singularity/images"
_PULLED = ("godlovedc/lolcow:latest", "nvidia/tensorflow:20.10-tf2-py3", "nvidia/pytorch:22.11-py3")

# This simulates the site's trap where a job with default memory waits despite free resources. The
# job gets exclusive nodes, and other jobs run on every node.
_TRAP = """
function slurm_job_submit(job, partitions, user)
  local gpus = job.tres_per_node or job.tres_per_job
  local memory = job.pn_min_memory
  if gpus and not job.mem_per_tres and (memory == nil or memory == 10000) then
    job.shared = 0
  end
  return slurm.SUCCESS
end

function slurm_job_modify()
  return slurm.SUCCESS
end
"""

# Stand-ins. The real nvidia-smi needs a GPU, and the stand-in shows an idle GPU. The site's tool
# runs nvidia-smi on the job's node. smem is not installed on this machine.
_SMI = """#!/bin/sh
case "$*" in
  *-l*) while echo "GPU ${CUDA_VISIBLE_DEVICES:-none}: 7 %"; do sleep 1; done ;;
  *) echo "NVIDIA-SMI: GPU ${CUDA_VISIBLE_DEVICES:-none}, Tesla V100-SXM3-32GB" ;;
esac
"""
_PROGRAMS = {
    "nvidia-smi": _SMI,
    "getUtilByJobId.sh": '#!/bin/sh\necho "job $1: 7 % of its GPU"\n',
    "smem": '#!/bin/sh\necho "smem $*: $(whoami)"\n',
}


def make_image(demo_image: Path, image: Path) -> Path:
    """Create the one image that the site and the registries offer under all names. It is small, and
    the site mounts this machine's /usr/lib into it, with Python and PyTorch. TensorFlow and cowsay
    are stand-ins, and pip installs from a folder."""
    shell_copy(demo_image, image)
    for name in ("python3", "getopt"):  # fakeroot runs getopt in the image
        shutil.copy(f"/usr/bin/{name}", image / "usr/bin" / name)
    (image / "usr/bin/python").symlink_to("python3")
    packages = image / "usr/local/lib/python{}.{}/dist-packages".format(*sys.version_info)
    packages.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("tensorflow_standin.py"), packages / "tensorflow.py")
    wheels = image / "opt/wheels"
    wheels.mkdir()
    make_wheel(wheels, "keras", "2.4.3")
    pip = "[global]\nno-index = true\nfind-links = /opt/wheels\nbreak-system-packages = true\n"
    (image / "etc/pip.conf").write_text(pip)
    programs = {
        "pip": 'exec python3 -m pip "$@"',
        "fortune": "echo You will pull one image more.",
        "cowsay": "cat; echo; echo '(oo)'",
        "lolcat": "cat",
    }
    for name, line in programs.items():
        program = image / "usr/bin" / name
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)
    return image


def make_site(keeper: Keeper, folder: Path, engine: ApptainerEngine, own: Path) -> Dressed:
    """Start the site in the new folder `folder`. `own` is for the site's own software."""
    own.chmod(0o755)
    image = make_image(engine.folder, own / "image")
    registry = OpenRegistry.start(keeper, own / "registry")
    registry.put(image, _PULLED, Entrypoint=["/bin/sh", "-c", "fortune | cowsay | lolcat"])
    site = make_dressed(keeper, folder, aau(engine.copied(own / "apptainer"), own))
    mirrors = registry.mirrors("docker.io", "nvcr.io")
    site.account.write(".config/containers/registries.conf", mirrors)
    others = ("--nodes=2", "--mem=1000", "--job-name=others", "--output=/dev/null", "--chdir=/")
    site.login.run("sbatch", *others, "--wrap=exec sleep infinity")
    return site


def aau(engine: ApptainerEngine, folder: Path) -> Dress:
    (folder / "bin").mkdir()
    shutil.copytree("/etc/profile.d", folder / "profile.d")
    settings = {
        # As in an installation without set-uid.
        "APPTAINER_USERNS": "1",
        "APPTAINER_BIND": "/usr/lib,/etc/alternatives",
        # Without compression, which would be slow.
        "APPTAINER_MKSQUASHFS_ARGS": "'-noI -noD -noF -noX'",
        "PATH": f"{engine.bin}:/user/share/bin:$PATH",
    }
    exports = "".join(f"export {name}={value}\n" for name, value in settings.items())
    (folder / "profile.d/zz-singularity.sh").write_text(exports)
    for name, text in _PROGRAMS.items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    # All users may mount image files, as on most machines.
    os.mknod(folder / "fuse", stat.S_IFCHR, os.makedev(10, 229))
    (folder / "fuse").chmod(0o666)
    return Dress(
        template="aau-aicloud",
        login="ai-pilot.srv.aau.dk",
        gateway="sshgw.aau.dk",
        shape=Shape(
            cluster="aicloud",
            nodes=dict.fromkeys(_NODES, _DGX2),
            lines=(
                "DefMemPerNode=10000",
                "JobSubmitPlugins=lua",
                "PriorityType=priority/multifactor",
                "PriorityWeightAge=1000",
                "PriorityWeightQOS=1000",
                "PartitionName=batch Nodes=ALL Default=YES DefaultTime=60 MaxTime=7-0",
            ),
            accounting=(
                *(("add", "qos", name) for name in _QOS[1:]),
                ("modify", "qos", "normal", "set", "priority=5"),
                ("add", "account", "es"),
                ("add", "user", "{user}", "account=es", f"qos={','.join(_QOS)}"),
            ),
            files={"job_submit.lua": _TRAP},
        ),
        home="/user/student.aau.dk/{user}",
        node_only=("/raid/{user}",),
        mounts={
            "/dev/fuse": folder / "fuse",
            "/etc/profile.d": folder / "profile.d",
            "/user/share/bin": folder / "bin",
            f"{_IMAGES}/tensorflow_20.10-tf2-py3.sif": folder / "image",
        },
    )


@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.long
def test_guide_runs_after_two_questions_and_a_login(
    site_keeper: Keeper, apptainer_engine: ApptainerEngine, site_folder: Path, tmp_path: Path
) -> None:
    folder = make_folder(site_keeper, "site-") / "s"
    site = make_site(site_keeper, folder, apptainer_engine, site_folder)
    # Two questions: the user name, and whether to keep the shown profile.
    assert "Your AAU ID: " in add(site, site.account.name, "")

    reading = read("aau-aicloud", site, tmp_path)

    user = site.account.name
    assert "detached" in reading.text('terminal.send("')
    assert "still on nv-ai-0" in reading.text("echo still on $place")
    login = reading.text("%slurm login")
    assert "Connected to aau-aicloud" in login
    assert "→" in login, "the gateway was not used"
    assert "1 file" in reading.text("%slurm push testfile")
    assert "sent through the gateway" in reading.text("%slurm pull testfile")
    assert site.account.home.joinpath("testfile").exists()

    _check_slurm(reading, user)

    assert "Available Commands" in reading.text("-- singularity -h")
    assert "--fakeroot" in reading.text("-- singularity help exec")
    assert "Creating SIF file" in reading.text("%slurm image pull godlovedc")
    assert "You will pull one image more." in reading.text("--name lolcow")
    own = f"{_IMAGES}/tensorflow_20.10-tf2-py3.sif"
    assert own in reading.text("%slurm image pull tensorflow")
    assert "NVIDIA-SMI: GPU 0" in reading.text("-- nvidia-smi")
    assert f"in {own}" in reading.text("import tensorflow as tf\n\nprint(")
    assert "1 GPU" in reading.text("print(len(tf")
    assert "in 10 epochs" in reading.text("--name example")
    assert (reading.folder / "output_data/losses.npy").exists()
    assert "Successfully installed keras" in reading.text("%%slurm_image")
    assert "in 10 epochs" in reading.text("--name keras")
    assert "Name: keras" in reading.text("-- pip show keras")

    assert "COMMAND" in reading.text("top -b -n 1")
    assert f"smem -u -k: {user}" in reading.text("smem -u -k")
    assert "GPU 0: 7 %" in reading.text("nvidia-smi -l 1")
    assert "GRES=gpu:v100:1(IDX:0)" in reading.text("details = ")
    assert "7 % of its GPU" in reading.text("getUtilByJobId.sh")
    assert "points.npz" in reading.text("--name raid")
    trapped = reading.text("--Format State,MinMemory,Reason").split()
    assert trapped[-3:] == ["PENDING", "10000M", "Resources"]
    assert "65536 MB, at once" in reading.text("--name free")
    assert "12 CPUs for two GPUs\n92160 MB for each" in reading.text("--name share")
    assert "computed in torch.bfloat16: loss 0.0" in reading.text("--name mixed")
    assert "with 2 GPUs" in reading.text("--launch torchrun")
    assert "[(0, 1.0), (1, 1.0)]" in reading.text("print(seen)")
    assert "SubmitError" in reading.text("--gres gpu:17")
    assert "12 CPU-hours, 2 GPU-hours" in reading.text("--dry-run")
    # Only the other user's job remains.
    wait_until(lambda: len(site.queue()) == 1, LIMIT_S)
    assert list(site.file("/raid/{user}").iterdir()) == []


def _check_slurm(reading: Reading, user: str) -> None:
    """Check the output of Slurm's commands and of the jobs in them."""
    assert "on nv-ai-0" in reading.text("--name first")
    assert "(Resources)" in reading.text("wide = _")
    assert "PRIORITY" in reading.text("%sprio")
    assert "1000" in reading.text("--priority")
    assert "JobState=PENDING" in reading.text("%scontrol show job {wide")
    assert "on nv-ai-0" in reading.text("-- bash -l -c")
    assert "nv-ai-03.srv.aau.dk" in reading.text("-- printenv SLURMD_NODENAME")
    assert "hello world from sbatch on node nv-ai-0" in reading.text("print(job.output)")
    assert "v100" in reading.text("%slurm info")
    queue = next(cell for cell in reading.cells if cell.source == "%squeue")
    assert "others" in str(queue.outputs)
    assert "RealMemory=1474560" in reading.text("%scontrol show node")
    shown = reading.text("%scontrol -d show job {look")
    assert "mem=90G" in shown
    assert "CpusPerTres=gres:gpu:6" in shown
    accounted = reading.text("%sacct -j")
    for words in (user[:7], "MySlurmJob", "1-00:00:00", "COMPLETED", "normal", "64G"):
        assert words in accounted
    assert "Cluster Utilization" in reading.text("%sreport")
    assert "GPU-hours" in reading.text("%slurm usage")
    assert "1gpulong" in reading.text("%sacctmgr show qos")
    assert user in reading.text("%sacctmgr show assoc")
    assert "scontrol [<OPTION>]" in reading.text("%scontrol --help")
