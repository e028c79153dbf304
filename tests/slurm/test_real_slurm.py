"""Command lines and parsers with the installed Slurm."""

from pathlib import Path

import pytest

from jupyter_slurm.slurm import sbatch, scontrol, sinfo, squeue, versions
from jupyter_slurm.slurm.fields import SLURM_ENV
from jupyter_slurm.slurm.rejections import explain_rejection
from tests.cluster.plugin import SlurmCluster

HOSTILE = "a  b | $HOME 'q' \"d\" \\ \\\\ #x é✓ JobId=7 UserId=root(0)"


def ask(cluster: SlurmCluster, argv: list[str], stdin: str = "") -> str:
    settings = [f"{name}={value}" for name, value in SLURM_ENV.items()]
    return cluster.run("env", *settings, *argv, stdin=stdin).stdout


def test_values_that_pass_our_check_pass_sbatch(slurm_cluster: SlurmCluster) -> None:
    options = {
        "time": "00:30:00",
        "mem": "64M",
        "ntasks": "1",
        "cpus-per-task": "1",
        "array": "1-3%2",
        "begin": "now+1hour",
        "signal": "B:USR1@120",
        "nice": "",
        "mail-type": "END,FAIL",
        "requeue": "",
        "open-mode": "append",
        "kill-on-invalid-dep": "yes",
        "dependency": "singleton",
        "comment": "x",
        "wait-all-nodes": "0",
        "exclusive": "user",
        "no-kill": "off",
    }
    ask(slurm_cluster, sbatch.test_only_argv(sbatch.argv("-", options)), "#!/bin/sh\n")


def test_job_with_a_hostile_name_round_trips(slurm_cluster: SlurmCluster, tmp_path: Path) -> None:
    script = tmp_path / "-job $x.sh"
    script.write_text("#!/bin/sh\ntrue\n")
    options = {"job-name": HOSTILE, "comment": f"my hetjob {HOSTILE}", "hold": ""}
    argv = sbatch.argv(str(script), {"output": "/dev/null", **options})
    answer = sbatch.parse(ask(slurm_cluster, argv))
    assert answer is not None
    slurm_id = answer[0]
    try:
        user = slurm_cluster.run("id", "-un").stdout.strip()
        rows = {
            row.slurm_id: row for row in squeue.parse(ask(slurm_cluster, squeue.mine_argv(user)))
        }
        [job] = scontrol.parse_jobs(ask(slurm_cluster, scontrol.job_argv(slurm_id)))
    finally:
        slurm_cluster.run("scancel", slurm_id)
    row = rows[slurm_id]
    assert (row.name, row.comment) == (HOSTILE, f"my hetjob {HOSTILE}")
    assert (row.state, row.reason, row.user) == ("PENDING", "JobHeldUser", user)
    assert (job.name, job.comment) == (row.name, row.comment)
    assert job.stdout == "/dev/null"


def test_nodes_and_configuration_are_parsed(slurm_cluster: SlurmCluster) -> None:
    nodes = sinfo.parse_nodes(ask(slurm_cluster, sinfo.nodes_argv()))
    config = scontrol.parse_config(ask(slurm_cluster, scontrol.config_argv()))
    assert nodes
    assert all(node.cpus > 0 for node in nodes)
    assert versions.parse_version(config["SLURM_VERSION"]) is not None


@pytest.mark.parametrize("options", [{"partition": "nosuch"}, {"constraint": "nosuch"}])
def test_refusal_is_parsed(
    slurm_cluster: SlurmCluster, tmp_path: Path, options: dict[str, str]
) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n")
    done = slurm_cluster.run(*sbatch.argv(str(script), options), check=False)
    said = explain_rejection(done.stderr)
    assert done.returncode != 0
    assert said is not None
    assert (said.hint is not None, said.category) == (True, "definitive")
